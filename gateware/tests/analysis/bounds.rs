//! Hot pages: the bounds hold, whatever the stream.

use std::collections::HashMap;

use fastrand::Rng;
use gateware::analysis::page_spread::spread;
use hmtt_format::record::ALL_PARTS;

use crate::bench::{Bench, Dump, Seen};
use crate::direct::{chance, with_seeds};
use crate::memories;

fn seen(page: u32) -> Seen {
    Seen { page, row_state: 0, bank: 0 }
}

/// Part and bucket of a page.
fn bucket(page: u32, turn: bool) -> u32 {
    (page & 15) << 4 | (page >> 4 & 15) ^ spread(page >> 8, turn)
}

/// Requires every page's accesses to lie within what the dump says of them.
fn check(dump: &Dump, exact: &HashMap<u32, u32>, turn: bool) {
    let skipped = dump.skipped();
    let mut entries = HashMap::new();
    for (page, least, most) in dump.bounds() {
        let number = exact.get(&page).copied().unwrap_or(0);
        assert!((least..=most + skipped).contains(&number), "{page:x}: {least} {number} {most}");
        entries.insert(bucket(page, turn), (page, (most - least, least)));
    }
    assert_eq!(entries.len(), dump.hot.len(), "a bucket is sent once");
    let votes: u32 = dump.hot.iter().map(|(_, _, votes)| votes).sum();
    assert_eq!(votes + skipped, exact.values().sum::<u32>(), "every access is counted or skipped");
    for (page, number) in exact {
        // Of two pages the one not named has at most (V - C) / 2 = most - C.
        let others = entries.get(&bucket(*page, turn)).map_or(0, |(_, (others, _))| *others);
        let named = dump.hot.iter().any(|(named, _, _)| named == page);
        assert!(named || *number <= others + skipped, "{page:x}: {number} above {others}");
    }
}

fn stream(rng: &mut Rng, kind: u32) -> u32 {
    match kind {
        // Few pages of one bucket.
        0 => rng.u32(0..3) << 12 | rng.u32(0..3) << 17,
        // Some hot ones among many.
        1 if chance(rng, 50) => 0x1234 + rng.u32(0..8),
        1 => rng.u32(0..1 << 17),
        // One after the other.
        2 => rng.u32(0..64) * 16,
        _ => rng.u32(0..600),
    }
}

#[test]
fn bounds_hold_whatever_the_stream() {
    with_seeds(0..16, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let mut turn = false;
        for round in 0..2 {
            let mut exact = HashMap::new();
            let (kind, pauses) = (rng.u32(0..4), rng.u32(0..4));
            for _ in 0..1500 {
                let page = stream(rng, kind) & 0x1_ffff;
                for _ in 0..if chance(rng, 30) { rng.u32(1..9) } else { 1 } {
                    *exact.entry(page).or_insert(0) += 1;
                    bench.access(seen(page), pauses);
                }
            }
            let dump = bench.dump(true);
            assert_eq!(dump.part, ALL_PARTS, "round {round}");
            if pauses == 3 {
                assert_eq!(dump.skipped(), 0, "a run every four clocks is always counted");
            }
            check(&dump, &exact, turn);
            turn = !turn;
        }
        assert!(bench.dump(true).hot.is_empty(), "a dump clears what it sent");
    });
}

#[test]
fn two_pages_that_alternate_in_one_bucket_are_bounded_and_part_in_the_next_interval() {
    let mut bench = Bench::new(&memories::ddr1(""));
    let other = (1..1 << 13).map(|high| high << 8 | 0x35);
    let other = other.clone().find(|page| bucket(*page, false) == bucket(0x35, false)).unwrap();
    for _ in 0..400 {
        bench.access(seen(0x35), 3);
        bench.access(seen(other), 3);
    }
    let dump = bench.dump(true);
    assert_eq!((dump.skipped(), dump.hot.len()), (0, 1));
    let (_, count, votes) = dump.hot[0];
    assert_eq!((count, votes), (0, 800), "neither has a majority");
    for _ in 0..400 {
        bench.access(seen(0x35), 3);
        bench.access(seen(other), 3);
    }
    let mut hot = bench.dump(true).hot;
    hot.sort_unstable();
    assert_eq!(hot, [(0x35, 400, 400), (other, 400, 400)]);
}

#[test]
fn long_runs_are_counted_in_pieces() {
    let mut bench = Bench::new(&memories::ddr4());
    for _ in 0..1700 {
        bench.access(seen(0xabc_def5), 0);
    }
    let dump = bench.dump(true);
    assert_eq!(dump.hot, [(0xabc_def5, 1700, 1700)]);
    assert_eq!(dump.skipped(), 0);
}

#[test]
fn parts_take_turns_and_each_has_its_own_interval() {
    let mut bench = Bench::new(&memories::ddr1(""));
    let page = |part: u32| 0x1_2340 | part;
    for round in 0..40u32 {
        for part in 0..16 {
            bench.access(seen(page(part)), 3);
        }
        let dump = bench.dump(false);
        let part = round % 16;
        let since = if round < 16 { round + 1 } else { 16 };
        assert_eq!(u32::from(dump.part), part);
        assert_eq!(dump.hot, [(page(part), since, since)]);
        assert_eq!(dump.skipped(), 0);
        assert!(dump.clocks < 250, "{} clocks", dump.clocks);
    }
}

#[test]
fn the_longest_dump_of_a_part_leaves_the_event_queue_room() {
    let mut bench = Bench::new(&memories::ddr1(""));
    for index in 0..1u64 << 12 {
        let page = index as u32 * 0x10 & 0x1_ffff;
        bench.access(Seen { page, row_state: index % 3, bank: index / 3 % 4 }, 3);
    }
    let dump = bench.dump(false);
    assert_eq!(dump.hot.len(), 16);
    assert!(dump.counts.len() >= 12);
    // The queue holds 224 events; back-to-back bursts of four bring one every two clocks.
    assert!(dump.clocks < 400, "{} clocks", dump.clocks);
}
