//! Random calls and accesses, and their times, as a plainly kept model has them.

mod inputs;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::ledger::{Ledger, Moment, Share, Traffic};
use super::owners::{Change, Kind, Owner, Owners};

/// Functions that are called.
const FUNCTIONS: u32 = 8;
/// Most deeds.
const DEEDS: usize = 250;

/// What a thread does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Enters(u32),
    /// Its innermost function.
    Leaves,
    /// The innermost call of the function at a depth.
    LeavesOther(prop::sample::Index),
    /// So many, from the innermost or from the outermost on.
    LeavesMany(usize, bool),
}

/// A thread does something, then some accesses come.
#[derive(Clone, Copy, Debug)]
struct Deed {
    thread: usize,
    does: Does,
    accesses: u64,
}

/// Deeds of so many threads, whose stacks are the deeper the more often they enter.
fn deeds(threads: usize) -> impl Strategy<Value = Vec<Deed>> {
    (2u32..12).prop_flat_map(move |entries| {
        let does = prop_oneof![
            entries => (0..FUNCTIONS).prop_map(Does::Enters),
            3 => Just(Does::Leaves),
            2 => any::<prop::sample::Index>().prop_map(Does::LeavesOther),
            1 => (0usize..20, any::<bool>()).prop_map(|(count, inner)| Does::LeavesMany(count, inner)),
        ];
        let deed = (0..threads, does, 0u64..4)
            .prop_map(|(thread, does, accesses)| Deed { thread, does, accesses });
        prop::collection::vec(deed, 0..DEEDS)
    })
}

/// Whose an access is: of one, and of which.
fn owners(stacks: &[Vec<u32>]) -> (Owner, BTreeSet<Owner>) {
    let running: Vec<_> = stacks.iter().filter(|stack| !stack.is_empty()).collect();
    match running[..] {
        [] => (Owner::Outside, [Owner::Outside].into()),
        [stack] => {
            let own = *stack.last().unwrap();
            (Owner::Function(own), stack.iter().copied().map(Owner::Function).collect())
        }
        _ => (Owner::Several, [Owner::Several].into()),
    }
}

/// Does something: tells what is entered and left, one after the other.
fn does(stacks: &mut [Vec<u32>], deed: Deed, mut tell: impl FnMut(&[Vec<u32>], u32, bool)) {
    let depth = stacks[deed.thread].len();
    let mut leave = |stacks: &mut [Vec<u32>], place: usize| {
        let stack = &mut stacks[deed.thread];
        if let Some(number) = stack.get(place).copied() {
            // Of several calls of a function the innermost one ends.
            let latest = stack.iter().rposition(|call| *call == number).unwrap();
            stack.remove(latest);
            tell(stacks, number, false);
        }
    };
    match deed.does {
        Does::Enters(number) => {
            stacks[deed.thread].push(number);
            tell(stacks, number, true);
        }
        Does::Leaves => leave(stacks, depth.wrapping_sub(1)),
        Does::LeavesOther(_) if depth == 0 => {}
        Does::LeavesOther(place) => leave(stacks, place.index(depth)),
        Does::LeavesMany(count, is_inner) => {
            for left in 1..=count.min(depth) {
                leave(stacks, if is_inner { depth - left } else { 0 });
            }
        }
    }
}

#[derive(Debug, Default)]
struct Plain {
    counts: BTreeMap<(Kind, Owner), u64>,
    clocks: BTreeMap<(Kind, Owner), u64>,
    pages: BTreeMap<(Kind, Owner), BTreeSet<u64>>,
}

impl Plain {
    fn access(&mut self, stacks: &[Vec<u32>], address: u64) {
        let (own, open) = owners(stacks);
        let all = open.into_iter().map(|owner| (Kind::Inclusive, owner));
        for key in all.chain([(Kind::Own, own)]) {
            *self.counts.entry(key).or_default() += 1;
            self.pages.entry(key).or_default().insert(address / 4096);
        }
    }

    fn wait(&mut self, stacks: &[Vec<u32>], clocks: u64) {
        let (own, open) = owners(stacks);
        let all = open.into_iter().map(|owner| (Kind::Inclusive, owner));
        all.chain([(Kind::Own, own)])
            .for_each(|key| *self.clocks.entry(key).or_default() += clocks);
    }
}

fn share(ledger: &Ledger, kind: Kind, owner: Owner) -> Option<&Share> {
    ledger.of(owner).map(|shares| &shares[kind as usize])
}

fn keys() -> impl Iterator<Item = (Kind, Owner)> {
    let owners = (0..FUNCTIONS).map(Owner::Function).chain([Owner::Outside, Owner::Several]);
    owners.flat_map(|owner| [Kind::Own, Kind::Inclusive].map(|kind| (kind, owner)))
}

proptest! {
    #[test]
    fn accesses_are_of_who_is_open(deeds in (1usize..4).prop_flat_map(deeds)) {
        let (mut split, mut ledger) = (Owners::default(), Ledger::default());
        split.begin(&mut |change| ledger.change(change));
        let (mut stacks, mut plain, mut all) = (vec![Vec::new(); 4], Plain::default(), 0);
        let mut clock = 1000;
        ledger.advance(clock);
        for deed in deeds {
            clock += 5;
            plain.wait(&stacks, 5);
            ledger.advance(clock);
            does(&mut stacks, deed, |_, number, is_entry| {
                split.call(deed.thread, number, is_entry, &mut |change| ledger.change(change));
            });
            for _ in 0..deed.accesses {
                all += 1;
                clock += all % 3;
                plain.wait(&stacks, all % 3);
                ledger.advance(clock);
                let address = all * 0x5_1234 % (1 << 24);
                plain.access(&stacks, address);
                ledger.access(address, Traffic { reads: all % 2, writes: 1 - all % 2, bytes: 64, clocks: 0 });
            }
        }
        ledger.finish();
        for key in keys() {
            let count = plain.counts.get(&key).copied().unwrap_or_default();
            let pages = plain.pages.get(&key).map_or(0, BTreeSet::len) as u64;
            let found = share(&ledger, key.0, key.1);
            let found = found.map(|s| (s.traffic.accesses(), s.pages.len(), s.least, s.most, s.traffic.bytes));
            prop_assert_eq!(found.unwrap_or_default(), (count, pages, count, count, 64 * count), "{:?}", key);
            let clocks = share(&ledger, key.0, key.1).map_or(0, |share| share.traffic.clocks);
            prop_assert_eq!(clocks, plain.clocks.get(&key).copied().unwrap_or_default(), "{:?}", key);
        }
        prop_assert_eq!(ledger.total.accesses(), all);
    }

    /// Each access is looked at with every state that may have been at its time.
    #[test]
    fn bounds_are_what_is_always_and_ever_possible(
        deeds in (1usize..4).prop_flat_map(deeds),
        gaps in prop::collection::vec(0u64..12, DEEDS),
        accesses in prop::collection::btree_set(0u64..1500, 0..300),
        error in 0u64..20,
    ) {
        let mut stacks = vec![Vec::new(); 4];
        let mut split = Owners::default();
        let (mut clock, mut states, mut changes) = (0, vec![(0, owners(&stacks))], Vec::new());
        split.begin(&mut |change| changes.push((0, 0, change)));
        for (deed, gap) in deeds.into_iter().zip(gaps) {
            clock += gap + 1;
            does(&mut stacks, deed, |stacks, number, is_entry| {
                split.call(deed.thread, number, is_entry, &mut |change| {
                    changes.push((clock, error, change));
                });
                states.push((clock, owners(stacks)));
            });
        }
        let ledger = played(&changes, &accesses);
        let (mut least, mut most) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
        for access in &accesses {
            // The last state that has begun for certain, and all that may have since.
            let certain = states.iter().rposition(|(at, _)| *at == 0 || at + error <= *access).unwrap();
            let possible: Vec<_> = states[certain..].iter()
                .filter(|(at, _)| *at == 0 || at.saturating_sub(error) <= *access).collect();
            for key in keys() {
                let is = |(own, open): &(Owner, BTreeSet<Owner>)| match key.0 {
                    Kind::Own => *own == key.1,
                    Kind::Inclusive => open.contains(&key.1),
                };
                *least.entry(key).or_default() += u64::from(possible.iter().all(|(_, state)| is(state)));
                *most.entry(key).or_default() += u64::from(possible.iter().any(|(_, state)| is(state)));
            }
        }
        for key in keys() {
            let found = share(&ledger, key.0, key.1).map(|share| (share.least, share.most));
            let plain = [&least, &most].map(|counts| counts.get(&key).copied().unwrap_or_default());
            prop_assert_eq!(found.unwrap_or_default(), plain.into(), "{:?}", key);
        }
    }
}

/// Changes and accesses in the order of their moments.
fn played(changes: &[(u64, u64, Change)], accesses: &BTreeSet<u64>) -> Ledger {
    let mut moments = Vec::new();
    for (clock, error, change) in changes {
        moments.push((clock.saturating_sub(*error), Moment::Earliest, change));
        moments.push((*clock, Moment::Likeliest, change));
        moments.push((clock + error, Moment::Latest, change));
    }
    moments.sort_by_key(|(at, ..)| *at);
    let (mut ledger, mut moments) = (Ledger::default(), moments.into_iter().peekable());
    for access in accesses {
        while let Some((_, moment, change)) = moments.next_if(|(at, ..)| at <= access) {
            ledger.change_at(*change, moment);
        }
        ledger.access(0, Traffic { reads: 1, ..Traffic::default() });
    }
    moments.for_each(|(_, moment, change)| ledger.change_at(*change, moment));
    ledger.finish();
    ledger
}

/// Where an exit searches the stack, this takes 2^40 steps.
#[test]
fn an_exit_costs_the_same_whatever_the_depth() {
    let (mut owners, mut changes) = (Owners::default(), 0);
    let calls = (0..1 << 20).flat_map(|number| [(number, true); 2]);
    let exits = (0..1 << 20).flat_map(|number| [(number, false); 2]);
    for (number, is_entry) in calls.chain(exits) {
        owners.call(0, number, is_entry, &mut |_| changes += 1);
    }
    // Of each function: inclusive and own ones, start and stop; and nobody's.
    assert_eq!(changes, 4 << 20 | 4);
}

#[test]
fn the_step_from_one_thread_to_two_costs_the_same_whatever_is_open() {
    let (mut owners, mut changes) = (Owners::default(), 0);
    (0..1000).for_each(|number| owners.call(0, number, true, &mut |_| {}));
    for _ in 0..1000 {
        owners.call(1, 2000, true, &mut |_| changes += 1);
        owners.call(1, 2000, false, &mut |_| changes += 1);
    }
    // The innermost function stops, several threads' accesses start in both senses, and back.
    assert_eq!(changes, 6 * 1000);
}

#[test]
fn pages_of_very_many_open_functions_are_not_known() {
    let (mut owners, mut ledger) = (Owners::default(), Ledger::default());
    owners.begin(&mut |change| ledger.change(change));
    (0..50_000).for_each(|number| owners.call(0, number, true, &mut |c| ledger.change(c)));
    let one = Traffic { reads: 1, ..Traffic::default() };
    (0..1000).for_each(|page| ledger.access(page << 12, one));
    owners.call(0, 60_000, true, &mut |change| ledger.change(change));
    (0..10).for_each(|page| ledger.access(page << 12, one));
    ledger.finish();
    let [own, inclusive] = ledger.of(Owner::Function(49_999)).unwrap();
    assert_eq!((own.pages.len(), own.is_without_pages), (1000, false));
    assert_eq!((inclusive.traffic.reads, inclusive.is_without_pages), (1010, true));
    let [_, last] = ledger.of(Owner::Function(60_000)).unwrap();
    assert_eq!((last.pages.len(), last.is_without_pages), (10, false));
}
