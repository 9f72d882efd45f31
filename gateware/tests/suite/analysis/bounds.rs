//! Tests that the bounds of hot pages hold for any stream.

use std::collections::HashMap;

use fastrand::Rng;
use gateware::analysis::page_spread::spread;
use gateware::config::Settings;
use hmtt_format::record::{ALL_PARTS, CountGroup, other_count};

use super::bench::{Bench, Dump, Seen};
use crate::direct::{chance, with_seeds};
use crate::memories;

fn seen(page: u32) -> Seen {
    Seen { page, row_state: 0, bank: 0 }
}

/// Returns part and bucket of a page.
fn bucket(page: u32, turn: bool) -> u32 {
    (page & 15) << 4 | (page >> 4 & 15) ^ spread(page >> 8, turn)
}

/// Checks that the number of every page's accesses lies within the dump's bounds.
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
        // Of two pages the one that is not named has at most (V - C) / 2 = most - C accesses.
        let others = entries.get(&bucket(*page, turn)).map_or(0, |(_, (others, _))| *others);
        let named = dump.hot.iter().any(|(named, _, _)| named == page);
        assert!(named || *number <= others + skipped, "{page:x}: {number} above {others}");
    }
}

fn stream(rng: &mut Rng, kind: u32) -> u32 {
    match kind {
        // Few pages of one bucket.
        0 => rng.u32(0..3) << 12 | rng.u32(0..3) << 17,
        // Some hot pages among many.
        1 if chance(rng, 50) => 0x1234 + rng.u32(0..8),
        1 => rng.u32(0..1 << 17),
        // Pages in order.
        2 => rng.u32(0..64) * 16,
        _ => rng.u32(0..600),
    }
}

#[test]
fn bounds_hold_for_any_stream() {
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
fn alternating_pages_of_one_bucket_are_bounded_and_separate_in_the_next_interval() {
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
fn parts_alternate_and_each_has_its_own_interval() {
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

/// Makes a dump with an access at every fourth clock. Returns the dump and the pages accessed
/// meanwhile.
fn dump_beside(
    bench: &mut Bench,
    rng: &mut Rng,
    all_parts: bool,
    pages: &[u32],
) -> (Dump, Vec<u32>) {
    bench.ask(all_parts);
    let mut accessed = Vec::new();
    while !bench.is_dumped() {
        let page = pages[rng.usize(0..pages.len())];
        accessed.push(page);
        bench.access(seen(page), 3);
        assert!(accessed.len() < 5000, "a dump ends");
    }
    (bench.read(), accessed)
}

#[test]
fn a_part_is_dumped_during_accesses_and_only_accesses_to_it_are_skipped() {
    with_seeds(0..8, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let pages: Vec<u32> = (0..40).map(|_| rng.u32(0..1 << 17)).collect();
        let mut exact = HashMap::new();
        let (mut counted, mut skipped) = (0, 0);
        for _ in 0..48 {
            for _ in 0..50 {
                let page = pages[rng.usize(0..pages.len())];
                *exact.entry(page).or_insert(0) += 1;
                bench.access(seen(page), 3);
            }
            let (dump, accessed) = dump_beside(&mut bench, rng, false, &pages);
            let into = accessed.iter().filter(|page| *page & 15 == u32::from(dump.part)).count();
            skipped += into as u32;
            for page in accessed {
                *exact.entry(page).or_insert(0) += 1;
            }
            counted += dump.hot.iter().map(|(_, _, votes)| votes).sum::<u32>() + dump.skipped();
        }
        bench.idle(6);
        let rest = bench.dump(true);
        counted += rest.hot.iter().map(|(_, _, votes)| votes).sum::<u32>() + rest.skipped();
        assert_eq!(
            counted,
            exact.values().sum::<u32>(),
            "every access is counted or skipped, once"
        );
        assert!(skipped > 0, "no access came into a part while it was dumped");
    });
}

#[test]
fn bounds_of_a_part_include_accesses_skipped_since_its_last_dump() {
    with_seeds(0..8, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let pages: Vec<u32> = (0..24).map(|_| rng.u32(0..1 << 13) << 4 | rng.u32(0..3)).collect();
        // Accesses in all dumps since a part's last one, including that one.
        let mut dumps: Vec<(Dump, HashMap<u32, u32>)> = Vec::new();
        for _ in 0..40 {
            let mut exact = HashMap::new();
            for _ in 0..60 {
                let page = pages[rng.usize(0..pages.len())];
                *exact.entry(page).or_insert(0) += 1;
                bench.access(seen(page), rng.u32(0..4));
            }
            let (dump, accessed) = dump_beside(&mut bench, rng, false, &pages);
            for page in accessed {
                *exact.entry(page).or_insert(0) += 1;
            }
            dumps.push((dump, exact));
        }
        for (at, (dump, _)) in dumps.iter().enumerate() {
            let first = at.saturating_sub(16);
            let since = &dumps[first..=at];
            let skipped: u32 = since.iter().map(|(dump, _)| dump.skipped()).sum();
            for (page, least, most) in dump.bounds() {
                // Accesses during the dumps at both ends may be in either interval.
                let exact_sum = |range: &[(Dump, HashMap<u32, u32>)]| {
                    range.iter().filter_map(|(_, exact)| exact.get(&page)).sum::<u32>()
                };
                let before = u32::from(at >= 16);
                assert!(least <= exact_sum(since), "{page:x}");
                assert!(
                    most + skipped >= exact_sum(&since[before as usize..since.len() - 1]),
                    "{page:x}"
                );
            }
        }
    });
}

#[test]
fn accesses_during_a_whole_dump_are_skipped_and_counted_in_the_next_dump() {
    with_seeds(0..8, |rng| {
        let mut bench = Bench::new(&memories::ddr1(""));
        let pages: Vec<u32> = (0..300).map(|_| rng.u32(0..1 << 17)).collect();
        for page in &pages {
            bench.access(seen(*page), 3);
        }
        bench.idle(6);
        let (dump, accessed) = dump_beside(&mut bench, rng, true, &pages);
        assert_eq!(dump.part, ALL_PARTS);
        let votes: u32 = dump.hot.iter().map(|(_, _, votes)| votes).sum();
        assert_eq!(votes, pages.len() as u32);
        let next = bench.dump(true);
        let rows = |dump: &Dump| dump.count(CountGroup::Other, other_count::ROWS_SKIPPED);
        let votes: u32 = next.hot.iter().map(|(_, _, votes)| votes).sum();
        let passed = dump.skipped() + next.skipped() + votes;
        assert_eq!(passed, accessed.len() as u32);
        assert!(votes <= 3, "accesses while the last records left");
        let counted = next.count(CountGroup::RowHits, 0);
        assert_eq!(rows(&dump) + rows(&next) + counted, accessed.len() as u32);
    });
}

#[test]
fn turning_the_analysis_off_dumps_everything() {
    let mut bench = Bench::new(&memories::ddr1(""));
    for _ in 0..10 {
        bench.access(seen(7), 3);
    }
    bench.idle(4);
    bench.analysis.settings.next = Settings::default();
    bench.idle(2);
    while !bench.is_dumped() {
        bench.clock();
    }
    let dump = bench.read();
    assert_eq!((dump.part, dump.hot), (ALL_PARTS, vec![(7, 10, 10)]));
}

/// Turns the analysis off. Returns part and number of accesses, counted or skipped, of each dump
/// until nothing is left.
fn turned_off(bench: &mut Bench) -> Vec<(u8, u32)> {
    bench.analysis.settings.next = Settings::default();
    bench.idle(2);
    while !bench.is_dumped() {
        bench.clock();
    }
    let votes = |dump: &Dump| dump.hot.iter().map(|(_, _, votes)| votes).sum::<u32>();
    let passed = |dump: &Dump| (dump.part, dump.skipped() + votes(dump));
    bench.take_apart().iter().map(passed).collect()
}

#[test]
fn nothing_is_dumped_when_the_analysis_is_turned_off_while_the_capture_is_stopped() {
    let mut bench = Bench::new(&memories::ddr1(""));
    bench.analysis.running.next = false;
    assert_eq!(turned_off(&mut bench), []);
}

#[test]
fn accesses_skipped_by_a_whole_dump_before_turning_off_are_counted() {
    for accesses in [0, 10] {
        let mut bench = Bench::new(&memories::ddr1(""));
        bench.access(seen(7), 6);
        bench.ask(true);
        // By then the dump has taken the counts of skipped accesses.
        bench.idle(100);
        (0..accesses).for_each(|_| bench.access(seen(9), 3));
        let dumps = turned_off(&mut bench);
        match accesses {
            0 => assert_eq!(dumps, [(ALL_PARTS, 1)]),
            _ => assert_eq!(dumps, [(ALL_PARTS, 1), (ALL_PARTS, accesses)]),
        }
    }
}

#[test]
fn a_dump_requested_during_another_follows_it() {
    let mut bench = Bench::new(&memories::ddr1(""));
    bench.access(seen(0), 6);
    bench.ask(false);
    bench.idle(5);
    bench.ask(true);
    while !bench.is_dumped() {
        bench.clock();
    }
    assert_eq!(bench.take_apart().iter().map(|dump| dump.part).collect::<Vec<_>>(), [0, ALL_PARTS]);
}
