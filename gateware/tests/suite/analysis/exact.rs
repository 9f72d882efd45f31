//! Tests that row outcomes and reuse distances are exact if nothing was skipped, and that skips are
//! counted.

use std::collections::HashMap;

use hmtt_format::record::{CountGroup, REUSE_COLD, other_count};

use super::bench::{Bench, Seen};
use crate::direct::{chance, with_seeds};
use crate::memories;

const ROWS: [CountGroup; 3] =
    [CountGroup::RowHits, CountGroup::RowMisses, CountGroup::RowConflicts];

#[test]
fn every_row_outcome_is_counted_for_its_bank_or_skipped() {
    with_seeds(0..6, |rng| {
        let mut bench = Bench::new(&memories::ddr4_ranks());
        let mut exact = HashMap::new();
        let pause = rng.u32(0..3);
        for _ in 0..4000 {
            let (row_state, bank) =
                (rng.u64(0..3), if chance(rng, 60) { 5 } else { rng.u64(0..64) });
            *exact.entry((row_state, bank)).or_insert(0) += 1;
            bench.access(Seen { page: rng.u32(0..1 << 28) | 1, row_state, bank }, pause);
        }
        let dump = bench.dump(true);
        let skipped = dump.count(CountGroup::Other, other_count::ROWS_SKIPPED);
        let mut total = skipped;
        for ((state, bank), number) in exact {
            let counted = dump.count(ROWS[state as usize], bank as u16);
            assert!(counted <= number && number <= counted + skipped);
            total += counted;
        }
        assert_eq!(total, 4000);
        if pause != 0 {
            assert_eq!(skipped, 0, "an access every other clock is always counted");
        }
    });
}

fn is_sampled(page: u32) -> bool {
    (0..5).fold(0, |folded, piece| folded ^ page >> (6 * piece) & 63) == 0
}

/// Returns the `index`th sampled page.
fn sampled(index: u32) -> u32 {
    (0..64).map(|low| index << 6 | low).find(|page| is_sampled(*page)).unwrap()
}

#[test]
fn reuse_distances_equal_those_of_an_exact_stack() {
    with_seeds(0..4, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let (mut stack, mut exact): (Vec<u32>, [u32; 16]) = Default::default();
        let spread = [3, 40, 300, 600][rng.usize(0..4)];
        for _ in 0..900 {
            let page = sampled(rng.u32(0..spread));
            let unsampled = sampled(rng.u32(0..spread)) ^ 1;
            let seen = |page| Seen { page, row_state: 0, bank: 0 };
            let position = stack.iter().position(|kept| *kept == page);
            let bucket = position.map_or(REUSE_COLD.into(), |position| {
                (position + 1).next_power_of_two().ilog2() as usize
            });
            exact[bucket] += 1;
            position.map(|position| stack.remove(position));
            stack.insert(0, page);
            stack.truncate(256);
            // The page before is another one, so a run begins.
            bench.access(seen(unsampled), 0);
            bench.access(seen(page), 270);
        }
        let dump = bench.dump(true);
        assert_eq!(dump.count(CountGroup::Other, other_count::RUNS_SKIPPED), 0);
        for (bucket, number) in exact.into_iter().enumerate() {
            assert_eq!(dump.count(CountGroup::Reuse, bucket as u16), number, "bucket {bucket}");
        }
    });
}

#[test]
fn runs_while_the_stack_is_busy_are_counted_as_skipped() {
    with_seeds(0..3, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let (mut runs, mut before) = (0, None);
        for _ in 0..3000 {
            let page = sampled(rng.u32(0..300));
            runs += u32::from(before != Some(page));
            before = Some(page);
            bench.access(Seen { page, row_state: 0, bank: 0 }, 3);
        }
        let dump = bench.dump(true);
        let counted: u32 = (0..16).map(|bucket| dump.count(CountGroup::Reuse, bucket)).sum();
        let skipped = dump.count(CountGroup::Other, other_count::RUNS_SKIPPED);
        assert!(skipped > 0);
        assert_eq!(counted + skipped, runs);
    });
}
