//! Compares the timeline, the heat map and the distribution with maps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::columns::MOST_COLUMNS;
use crate::analysis::distribution::distribution;
use crate::analysis::heat_map::{HeatMap, MOST_ROWS};
use crate::analysis::pages::Pages;
use crate::analysis::phases::phases;
use crate::analysis::timeline::{MOST_GAPS, Timeline};
use crate::analysis::{Analysis, Batch, Gap, Known};

/// The facts of a source whose clock has a period of 1.25 ns.
fn clocked() -> Known {
    Known { clocks: true, tck_ps: Some(1250), ..Known::default() }
}

/// Accesses whose clocks and addresses are spread, so that slices and blocks become longer.
fn spread() -> impl Strategy<Value = (Accesses, bool)> {
    (accesses(3000), 0u32..20, 0u32..30, any::<bool>()).prop_map(
        |(mut accesses, time, space, clocked)| {
            accesses.clocks.iter_mut().for_each(|clock| *clock <<= time);
            for (address, row) in accesses.addresses.iter_mut().zip(0u64..) {
                *address += (row % 7) << space;
            }
            (accesses, clocked)
        },
    )
}

/// The time of each access.
fn times(accesses: &Accesses, is_clocked: bool) -> Vec<u64> {
    if is_clocked { accesses.clocks.clone() } else { (0..accesses.len() as u64).collect() }
}

fn added<A: Analysis>(mut analysis: A, accesses: &Accesses, is_clocked: bool) -> A {
    analysis.known(&Known { clocks: is_clocked, ..clocked() });
    let middle = accesses.len() / 3;
    analysis.add(&accesses.batch(0..middle));
    analysis.add(&accesses.batch(middle..accesses.len()));
    analysis
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn slices_of_any_length_have_exact_counts_and_working_sets((sample, is_clocked) in spread()) {
        let result = added(Timeline::default(), &sample, is_clocked).result().remove(0);
        let mut slices: BTreeMap<u64, ([u64; 3], BTreeSet<u64>, u64)> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (row, at) in times(&sample, is_clocked).into_iter().enumerate() {
            let slice = slices.entry(at / result.slice_length).or_default();
            slice.0[usize::from(sample.writes[row])] += 1;
            slice.0[2] += u64::from(sample.sizes[row]);
            let last = sample.addresses[row] + u64::from(sample.sizes[row]) - 1;
            for page in sample.addresses[row] >> 12..=last >> 12 {
                slice.1.insert(page);
                slice.2 += u64::from(seen.insert(page));
            }
        }
        let expected: Vec<_> = slices
            .into_iter()
            .map(|(slice, (counts, pages, new))| (slice, counts, pages.len() as u64, new))
            .collect();
        let shown = result.slices.iter().map(|row| {
            (row.slice, [row.reads, row.writes, row.access_bytes], row.pages, row.new_pages)
        });
        prop_assert_eq!(shown.collect::<Vec<_>>(), expected);
        prop_assert!(result.slices.len() as u64 <= MOST_COLUMNS);
        prop_assert_eq!(result.slice_seconds.is_some(), is_clocked && sample.len() > 0);
        let accesses: u64 = phases(&result.working_sets()).phases.iter().map(|phase| phase.accesses).sum();
        prop_assert_eq!(accesses, sample.len() as u64);
    }

    #[test]
    fn blocks_and_slices_of_any_size_have_exact_counts((accesses, is_clocked) in spread()) {
        let result = added(HeatMap::default(), &accesses, is_clocked).result().remove(0);
        let mut expected = BTreeMap::new();
        for (address, at) in accesses.addresses.iter().zip(times(&accesses, is_clocked)) {
            let place = (address / result.block_bytes, at / result.slice_length);
            *expected.entry(place).or_insert(0u64) += 1;
        }
        let mut shown = BTreeMap::new();
        for row in &result.blocks {
            for (count, slice) in row.counts.iter().zip(result.first_slice..) {
                if *count > 0 {
                    shown.insert((row.address / result.block_bytes, slice), *count);
                }
            }
        }
        prop_assert_eq!(shown, expected);
        prop_assert!(result.blocks.len() <= MOST_ROWS);
        prop_assert!(result.blocks.iter().all(|row| row.counts.len() as u64 <= MOST_COLUMNS));
    }

    #[test]
    fn joined_pieces_have_the_counts_of_the_whole((accesses, _) in spread(), cut in 0.0..1.0f64) {
        let cut = (cut * accesses.len() as f64) as usize;
        let piece = |rows| {
            let mut piece = (Timeline::default(), HeatMap::default());
            piece.known(&clocked());
            piece.add(&accesses.batch(rows));
            piece
        };
        let mut joined = piece(0..cut);
        joined.append(piece(cut..accesses.len()));
        let whole = added((Timeline::default(), HeatMap::default()), &accesses, true);
        let ((joined, heat), (whole, whole_heat)) = (joined.result(), whole.result());
        let counts = |memories: &Vec<crate::analysis::timeline::MemoryTime>| {
            let slices = memories[0].slices.iter();
            slices.map(|slice| (slice.slice, slice.reads, slice.writes)).collect::<Vec<_>>()
        };
        prop_assert_eq!(joined[0].slice_length, whole[0].slice_length);
        prop_assert_eq!(counts(&joined), counts(&whole));
        prop_assert_eq!(&heat[0].blocks, &whole_heat[0].blocks);
        let pages = joined[0].slices.iter().zip(&whole[0].slices);
        prop_assert!(pages.into_iter().all(|(joined, whole)| joined.pages >= whole.pages));
    }

    #[test]
    fn the_distribution_is_that_of_sorted_counts(accesses in accesses(2000), steps in 1u64..50) {
        let mut pages = Pages::new(1);
        pages.add(&accesses.batch(0..accesses.len()));
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        accesses.units(6).into_iter().for_each(|line| *counts.entry(line >> 6).or_default() += 1);
        let mut sorted: Vec<u64> = counts.into_values().collect();
        sorted.sort_unstable();
        sorted.reverse();
        let shares = distribution(&pages, steps);
        for share in &shares {
            prop_assert_eq!(share.touches, sorted[..share.pages as usize].iter().sum::<u64>());
        }
        prop_assert!(shares.windows(2).all(|pair| pair[0].pages < pair[1].pages));
        let last = shares.last().map_or(0, |last| last.pages);
        prop_assert_eq!(last, sorted.len() as u64);
        prop_assert!(shares.last().is_none_or(|last| (last.touch_share - 1.0).abs() < 1e-9));
    }
}

#[test]
fn gaps_are_placed_and_bounded() {
    let mut timeline = Timeline::default();
    timeline.known(&clocked());
    timeline.add(&Batch::new(&[0, 64], &[false; 2]).with_clocks(&[10, 400]));
    let gap = Gap { lost_accesses: Some(3), after_clock: Some(200), before_clock: Some(210) };
    for _ in 0..MOST_GAPS + 1 {
        timeline.gap(&gap);
    }
    let result = timeline.result().remove(0);
    let lossy = result.slices.iter().find(|slice| slice.gap_count > 0).unwrap();
    assert_eq!((lossy.slice, lossy.gap_count, lossy.lost_accesses), (200, 101, 303));
    assert_eq!((result.gaps.len(), result.gaps[0]), (MOST_GAPS, gap));
    assert_eq!(result.working_sets().slices.len(), 2);
}

#[test]
fn time_goes_on_after_a_restart() {
    let mut both = (Timeline::default(), HeatMap::default());
    for _ in 0..2 {
        both.known(&clocked());
        both.add(&Batch::new(&[0, 64], &[false; 2]).with_clocks(&[0, 9]));
        both.restart();
    }
    let (time, heat) = both.result();
    let slices: Vec<u64> = time[0].slices.iter().map(|slice| slice.slice).collect();
    assert_eq!(slices, [0, 9, 10, 19]);
    assert_eq!(heat[0].blocks[0].counts.iter().sum::<u64>(), 2);
}

#[test]
fn a_gap_before_the_first_access_has_its_time() {
    let mut timeline = Timeline::default();
    timeline.known(&clocked());
    let begin = 2_900_000_000_000;
    let gap =
        Gap { lost_accesses: Some(5), after_clock: Some(begin), before_clock: Some(begin + 500) };
    timeline.gap(&gap);
    timeline.add(&Batch::new(&[0], &[false]).with_clocks(&[begin + 600]));
    let result = timeline.result().remove(0);
    assert!(result.slice_length <= 1024, "{}", result.slice_length);
}
