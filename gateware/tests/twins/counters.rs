//! Counters against plain ones.

use gateware::config::{Item, ItemKind};
use gateware::statistics::counters::Counters;

use crate::direct::{pulse, settled, with_seeds};

const KINDS: [ItemKind; 7] = [
    ItemKind::Nothing,
    ItemKind::Access,
    ItemKind::WindowTag,
    ItemKind::Mark,
    ItemKind::Fault,
    ItemKind::Tick,
    ItemKind::Overrun,
];

#[test]
fn totals_count_what_was_taken() {
    with_seeds(0..10, |rng| {
        let mut counters = settled(Counters::default());
        let [mut reads, mut writes, mut faults, mut tags] = [0u64; 4];
        for _ in 0..3000 {
            let (kind, write, taken) = (KINDS[rng.usize(0..KINDS.len())], rng.bool(), rng.bool());
            counters.item.next = Item { kind, write, ..Default::default() };
            counters.taken.next = taken;
            pulse(&mut counters, |counters| &mut counters.clock);
            let is_access = matches!(kind, ItemKind::Access | ItemKind::WindowTag);
            reads += u64::from(taken && is_access && !write);
            writes += u64::from(taken && is_access && write);
            faults += u64::from(taken && kind == ItemKind::Fault);
            tags += u64::from(taken && matches!(kind, ItemKind::WindowTag | ItemKind::Mark));
            let totals = counters.totals.val();
            let counted = [totals.reads, totals.writes, totals.faults, totals.tags];
            assert_eq!(counted.map(|count| count.to_u64()), [reads, writes, faults, tags]);
        }
    });
}
