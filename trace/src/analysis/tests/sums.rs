//! Compares sums, pages, caches and checks with maps and naive models.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::check::{Check, Kind, MOST_PLACES};
use crate::analysis::pages::Pages;
use crate::analysis::summary::Summary;
use crate::analysis::{Analysis, Batch, Known};

fn counts(units: &[u64]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    units.iter().for_each(|unit| *counts.entry(*unit).or_default() += 1);
    counts
}

/// Addresses and counts of the units with the highest counts. Units with equal counts are ordered
/// by address.
fn hottest(counts: &BTreeMap<u64, u64>, log2: u32, most: usize) -> Vec<(u64, u64)> {
    let mut hottest: Vec<_> = counts.iter().map(|(unit, count)| (unit << log2, *count)).collect();
    hottest.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
    hottest.truncate(most);
    hottest
}

/// Lengths of runs of equal pages.
fn runs(pages: &[u64]) -> Vec<u64> {
    pages.chunk_by(|page, next| page == next).map(|run| run.len() as u64).collect()
}

/// Misses of a set-associative LRU cache with lines of 64 bytes.
fn misses(accesses: &Accesses, sets: u64, ways: usize) -> u64 {
    let mut cache: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut misses = 0;
    for line in accesses.units(6) {
        let set = cache.entry(line % sets).or_default();
        match set.iter().position(|other| *other == line) {
            Some(at) => drop(set.remove(at)),
            None => misses += 1,
        }
        set.push(line);
        if set.len() > ways {
            set.remove(0);
        }
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_are_those_of_single_accesses(accesses in accesses(1500)) {
        let mut summary = Summary::default();
        summary.known(&Known { clocks: true, tck_ps: Some(1250), ..Known::default() });
        summary.add(&accesses.batch(0..accesses.len()));
        let sums = summary.result();
        let writes = accesses.writes.iter().filter(|is_write| **is_write).count() as u64;
        let bytes: u64 = accesses.sizes.iter().map(|size| u64::from(*size)).sum();
        let distinct =
            |log2| accesses.units(log2).into_iter().collect::<BTreeSet<_>>().len() as u64;
        let clocks = accesses.clocks.last().map_or(0, |last| last - accesses.clocks[0]);
        prop_assert_eq!((sums.accesses, sums.writes), (accesses.len() as u64, writes));
        prop_assert_eq!((sums.reads, sums.access_bytes), (accesses.len() as u64 - writes, bytes));
        prop_assert_eq!((sums.pages, sums.lines), (distinct(12), distinct(6)));
        prop_assert_eq!(sums.duration_clocks, Some(clocks));
        let seconds = clocks as f64 * 1.25e-9;
        prop_assert!((sums.duration_seconds.unwrap() - seconds).abs() < 1e-15);
        if clocks > 0 {
            let rate = sums.bytes_per_second.unwrap();
            prop_assert!((rate * seconds - bytes as f64).abs() < 1e-3 * (1.0 + bytes as f64));
        }
    }

    #[test]
    fn pages_and_lines_are_those_of_a_map(accesses in accesses(1500), cut in 0.0..1.0f64) {
        let cut = (cut * accesses.len() as f64) as usize;
        let mut pages = Pages::new(7);
        pages.add(&accesses.batch(0..cut));
        pages.add(&accesses.batch(cut..accesses.len()));
        let result = pages.result();
        for (hot, log2) in [(&result.hot_pages, 12), (&result.hot_lines, 6)] {
            // Pages are counted by the touches of their lines.
            let units: Vec<u64> = accesses.units(6).iter().map(|line| line << 6 >> log2).collect();
            let expected = hottest(&counts(&units), log2, 7);
            let hot: Vec<_> = hot.iter().map(|unit| (unit.address, unit.touches)).collect();
            prop_assert_eq!(hot, expected);
        }
        let of_lines: Vec<u64> = accesses.units(6).iter().map(|line| line >> 6).collect();
        let mut expected: Vec<u64> = counts(&of_lines).into_values().collect();
        expected.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        let total: u64 = expected.iter().sum();
        prop_assert_eq!((result.touches, result.pages), (total, expected.len() as u64));
        for share in &result.concentration {
            let enough = |pages: u64| {
                let sum: u64 = expected[..pages as usize].iter().sum();
                100 * sum >= u64::from(share.share_percent) * total
            };
            prop_assert!(enough(share.pages) && (share.pages == 0 || !enough(share.pages - 1)));
        }
        let expected = runs(&of_lines);
        for bucket in &result.page_runs {
            let inside =
                expected.iter().filter(|run| (bucket.at_least..=bucket.at_most).contains(run));
            prop_assert_eq!(bucket.runs, inside.count() as u64);
        }
        let sum: u64 = result.page_runs.iter().map(|bucket| bucket.runs).sum();
        prop_assert_eq!(sum, expected.len() as u64);
    }

    #[cfg(feature = "caches")]
    #[test]
    fn misses_of_caches_are_those_of_lists(accesses in accesses(1200)) {
        use crate::analysis::cache::Caches;
        let mut small = Caches::new(&["2K,4,64,lru"]).unwrap();
        small.add(&accesses.batch(0..accesses.len()));
        let result = small.result();
        prop_assert_eq!(result.caches[0].cache_misses, misses(&accesses, 8, 4));
        let touches = accesses.units(6).len() as u64;
        prop_assert_eq!(result.caches[0].cache_hits + result.caches[0].cache_misses, touches);
        // The text keeps the counts, but not the contents of the caches.
        let text = serde_json::to_string(&small).unwrap();
        let mut read: Caches = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read.result().caches, result.caches);
        prop_assert_eq!(read.result().empty_caches, 2);
        small.append(read.clone());
        read.merge(small);
        prop_assert_eq!(read.result().accesses, 3 * accesses.len() as u64);
    }

    #[test]
    fn each_violation_is_counted_and_placed(
        rows in prop::collection::vec((0u64..1 << 12, 0u64..100, 0u32..9), 0..200),
        cut in 0.0..1.0f64,
    ) {
        let addresses: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let clocks: Vec<u64> = rows.iter().map(|row| row.1).collect();
        let writes = vec![false; rows.len()];
        let batch = Batch::new(&addresses, &writes).with_clocks(&clocks).with_unit(Some(8));
        let known = Known { clocks: true, capacity_bytes: Some(3000), ..Known::default() };
        let piece = |rows| {
            let mut check = Check::default();
            check.known(&known);
            check.add(&batch.rows(rows));
            check
        };
        let whole = piece(0..rows.len()).result();
        let cut = (cut * rows.len() as f64) as usize;
        let mut joined = piece(0..cut);
        joined.append(piece(cut..rows.len()));
        prop_assert_eq!(&joined.result().kinds, &whole.kinds);
        let back: Vec<u64> = (1..rows.len()).filter(|at| clocks[*at] < clocks[at - 1])
            .map(|at| at as u64 + 1).collect();
        let beyond = addresses.iter().filter(|address| **address >= 3000).count() as u64;
        let unaligned = addresses.iter().filter(|address| **address % 8 != 0).count() as u64;
        let count = |kind| whole.kinds.iter().find(|entry| entry.kind == kind).unwrap().violations;
        prop_assert_eq!(count(Kind::ClockBack), back.len() as u64);
        prop_assert_eq!((count(Kind::BeyondMemory), count(Kind::Unaligned)), (beyond, unaligned));
        let placed = whole.places.iter().filter(|place| place.kind == Kind::ClockBack);
        let placed: Vec<u64> = placed.map(|place| place.access).collect();
        prop_assert_eq!(placed, &back[..back.len().min(MOST_PLACES)]);
    }
}

#[test]
fn restarts_and_gaps_are_counted_apart() {
    let (mut summary, mut check) = (Summary::default(), Check::default());
    let gap = crate::analysis::Gap { lost_accesses: Some(5), ..Default::default() };
    for clocks in [[100, 150], [3, 7]] {
        let batch = Batch::new(&[0, 64], &[false, true]).with_clocks(&clocks);
        summary.add(&batch);
        check.add(&batch);
        summary.gap(&gap);
        check.gap(&gap);
        Analysis::restart(&mut summary);
        check.restart();
    }
    let sums = summary.result();
    assert_eq!(sums.duration_clocks, Some(54));
    assert_eq!((sums.gap_count, sums.lost_accesses), (2, 10));
    let result = check.result();
    assert!(!result.has_violations());
    assert_eq!((result.gap_count, result.lost_accesses, result.restarts), (2, 10, 2));
}

#[test]
fn memories_are_summed_and_their_pages_kept_apart() {
    let (mut first, mut second) = (Pages::new(10), Pages::new(10));
    first.add(&Batch::new(&[0x1000], &[false]));
    second.add(&Batch::new(&[0x1000, 0x1040], &[false; 2]));
    first.merge(second);
    let hot = first.result().hot_pages;
    let hot: Vec<_> = hot.iter().map(|hot| (hot.source, hot.address, hot.touches)).collect();
    assert_eq!(hot, [(2, 0x1000, 2), (1, 0x1000, 1)]);
    let summary = |clocks: &[u64], tck_ps| {
        let mut summary = Summary::default();
        summary.known(&Known { clocks: true, tck_ps: Some(tck_ps), ..Known::default() });
        summary.add(&Batch::new(&[0x1000, 0x1000], &[false; 2]).with_clocks(clocks));
        summary
    };
    let mut sum = summary(&[0, 10], 1000);
    sum.merge(summary(&[0, 8], 2000));
    let sums = sum.result();
    assert_eq!((sums.accesses, sums.pages, sums.lines), (4, 2, 2));
    assert!((sums.duration_seconds.unwrap() - 16e-9).abs() < 1e-18);
    assert!((sums.accesses_per_second.unwrap() - 4.0 / 16e-9).abs() < 1.0);
    // There is a rate only if the times of all accesses are known.
    let mut timeless = Summary::default();
    timeless.add(&Batch::new(&[0], &[true]));
    for (mut first, second) in [(sum.clone(), timeless.clone()), (timeless, sum)] {
        first.merge(second);
        let sums = first.result();
        assert_eq!((sums.accesses, sums.accesses_per_second), (5, None));
        assert!(sums.duration_seconds.is_some());
    }
}

#[test]
fn runs_of_one_board_follow_each_other_and_boards_run_side_by_side() {
    let summary = |board, clocks: &[u64]| {
        let mut summary = Summary::default();
        let known = Known { clocks: true, tck_ps: Some(1000), board, ..Known::default() };
        summary.known(&known);
        summary.add(&Batch::new(&[0; 2], &[false; 2]).with_unit(Some(64)).with_clocks(clocks));
        summary
    };
    let rate = |summary: &Summary| summary.result().bytes_per_second.unwrap();
    let own = rate(&summary(Some(0), &[0, 100]));
    // Three runs of a board have the rate of one run, in any grouping. A second board at the same
    // time adds its own accesses.
    let mut runs = summary(Some(0), &[0, 100]);
    let mut later = summary(Some(0), &[50, 150]);
    later.merge(summary(Some(0), &[7, 107]));
    runs.merge(later);
    assert_eq!(runs.result().duration_clocks, Some(300));
    assert!((rate(&runs) / own - 1.0).abs() < 1e-9);
    let mut other = summary(Some(1), &[0, 300]);
    other.merge(runs.clone());
    assert_eq!((other.result().duration_clocks, other.result().accesses), (Some(300), 8));
    // If no board is known, files are taken for traces of the same time.
    let mut files = summary(None, &[0, 100]);
    files.merge(summary(None, &[0, 100]));
    assert!((rate(&files) / own - 2.0).abs() < 1e-9);
}

#[test]
fn a_session_of_no_time_is_not_joined_with_another() {
    let known = Known { clocks: true, tck_ps: Some(1250), ..Known::default() };
    let batch = |summary: &mut Summary, clocks: &[u64]| {
        let (addresses, writes) = (vec![0; clocks.len()], vec![true; clocks.len()]);
        summary.add(&Batch::new(&addresses, &writes).with_clocks(clocks));
    };
    let (mut first, mut second) = (Summary::default(), Summary::default());
    first.known(&known);
    second.known(&known);
    batch(&mut first, &[100, 200]);
    second.restart();
    batch(&mut second, &[5, 10]);
    first.append(second);
    assert_eq!(first.result().duration_clocks, Some(100 + 5));
}

#[test]
fn the_longest_time_is_that_of_one_memory() {
    let summary = |tck_ps, clocks: &[u64]| {
        let mut summary = Summary::default();
        summary.known(&Known { clocks: true, tck_ps: Some(tck_ps), ..Known::default() });
        summary.add(&Batch::new(&[0; 2], &[false; 2]).with_clocks(clocks));
        summary
    };
    // 1000 clocks of 1 ns, and 400 of 5 ns, in any order.
    for is_swapped in [false, true] {
        let (mut first, mut second) = (summary(1000, &[0, 1000]), summary(5000, &[0, 400]));
        if is_swapped {
            std::mem::swap(&mut first, &mut second);
        }
        first.merge(second);
        let sums = first.result();
        assert_eq!(sums.duration_clocks, Some(400));
        assert!((sums.duration_seconds.unwrap() - 2e-6).abs() < 1e-15);
        assert_eq!(sums.accesses_per_second, Some(4.0 / sums.duration_seconds.unwrap()));
    }
}
