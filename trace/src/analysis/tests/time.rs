//! Compares slices, working sets and phases with maps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::accesses;
use crate::analysis::frequency::Frequency;
use crate::analysis::phases::Phases;
use crate::analysis::slices::{MOST_SLICES, SliceLength, SliceUnit};
use crate::analysis::working_set::WorkingSet;
use crate::analysis::{Analysis, Batch, Known};

const LENGTH: SliceLength = SliceLength { ns: 100, accesses: 37 };
const CLOCKED: Known = Known {
    address_space: crate::analysis::AddressSpace::Physical,
    clocks: true,
    tck_ps: Some(1250),
    unit_bytes: None,
    sizes: false,
    threads: false,
    instructions: false,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slices_are_those_of_a_map(
        accesses in accesses(1500),
        is_clocked in any::<bool>(),
        cut in 0.0..1.0f64,
    ) {
        let cut = (cut * accesses.len() as f64) as usize;
        let (mut frequency, mut working) = (Frequency::new(LENGTH), WorkingSet::new(LENGTH));
        let known = Known { clocks: is_clocked, ..CLOCKED };
        frequency.known(&known);
        working.known(&known);
        for rows in [0..cut, cut..accesses.len()] {
            frequency.add(&accesses.batch(rows.clone()));
            working.add(&accesses.batch(rows));
        }
        let (mut slices, mut pages) = (BTreeMap::new(), BTreeMap::new());
        for at in 0..accesses.len() {
            let slice = if is_clocked { accesses.clocks[at] / 80 } else { at as u64 / 37 };
            let counts: &mut [u64; 2] = slices.entry(slice).or_default();
            counts[usize::from(accesses.writes[at])] += 1;
            let of_slice: &mut BTreeSet<u64> = pages.entry(slice).or_default();
            let last = accesses.addresses[at] + u64::from(accesses.sizes[at]) - 1;
            of_slice.extend(accesses.addresses[at] >> 12..=last >> 12);
        }
        let result = frequency.result().remove(0);
        let rates: BTreeMap<u64, [u64; 2]> =
            result.slices.iter().map(|slice| (slice.slice, [slice.reads, slice.writes])).collect();
        prop_assert_eq!(&rates, &slices);
        let unit = if is_clocked { SliceUnit::Clocks } else { SliceUnit::Accesses };
        prop_assert_eq!((result.slice_unit, result.slice_length), (unit, if is_clocked { 80 } else { 37 }));
        let mut seen = BTreeSet::new();
        let working_sets = working.result().remove(0).slices;
        prop_assert_eq!(working_sets.len(), pages.len());
        for (row, (slice, of_slice)) in working_sets.iter().zip(&pages) {
            let new = of_slice.difference(&seen).count() as u64;
            seen.extend(of_slice);
            let expected = (*slice, slices[slice].iter().sum(), of_slice.len() as u64, new);
            prop_assert_eq!((row.slice, row.accesses, row.pages, row.new_pages), expected);
        }
    }

    #[test]
    fn joined_slices_of_clocks_are_those_of_the_whole(
        accesses in accesses(1500),
        cut in 0.0..1.0f64,
    ) {
        let cut = (cut * accesses.len() as f64) as usize;
        let piece = |rows| {
            let mut frequency = Frequency::new(LENGTH);
            frequency.known(&CLOCKED);
            frequency.add(&accesses.batch(rows));
            frequency
        };
        let mut joined = piece(0..cut);
        joined.append(piece(cut..accesses.len()));
        prop_assert_eq!(joined.result(), piece(0..accesses.len()).result());
    }
}

#[test]
fn time_goes_on_after_a_restart() {
    let mut frequency = Frequency::new(LENGTH);
    frequency.known(&CLOCKED);
    let batch = Batch::new(&[0; 2], &[false; 2]);
    frequency.add(&batch.with_clocks(&[10, 170]));
    frequency.restart();
    frequency.add(&batch.with_clocks(&[10, 170]));
    let slices: Vec<u64> = frequency.result()[0].slices.iter().map(|slice| slice.slice).collect();
    assert_eq!(slices, [0, 2, 3, 5]);
}

#[test]
fn slices_become_longer_before_they_are_too_many() {
    let count = 3 << 20;
    let clocks: Vec<u64> = (0..count).map(|at| at * 80).collect();
    let (addresses, writes) = (vec![0; count as usize], vec![true; count as usize]);
    let mut frequency = Frequency::new(LENGTH);
    frequency.known(&CLOCKED);
    frequency.add(&Batch::new(&addresses, &writes).with_clocks(&clocks));
    let result = frequency.result().remove(0);
    assert_eq!(result.slice_length, 4 * 80);
    assert_eq!(result.slices.len() as u64, count / 4);
    assert!(result.slices.iter().all(|slice| (slice.reads, slice.writes) == (0, 4)));
}

#[test]
fn changes_of_rate_and_of_working_set_are_found_where_they_are() {
    let mut phases = Phases::new(SliceLength { ns: 1000, accesses: 1 });
    phases.known(&CLOCKED);
    // A slice has 800 clocks. The first 20 slices have 100 accesses each to 2 pages, the next 20
    // have 300 accesses each to 2 pages, and the last 20 have 300 accesses each to 60 pages.
    let mut accesses = super::Accesses::default();
    for slice in 0..60u64 {
        let (count, pages) = match slice / 20 {
            0 => (100, 2),
            1 => (300, 2),
            _ => (300, 60),
        };
        for at in 0..count {
            accesses.addresses.push(at % pages << 12);
            accesses.writes.push(false);
            accesses.clocks.push(slice * 800 + at);
        }
    }
    phases.add(&accesses.plain());
    let result = phases.result().remove(0).phases;
    let rows: Vec<_> = result
        .iter()
        .map(|phase| (phase.first_slice, phase.last_slice, phase.slice_accesses, phase.slice_pages))
        .collect();
    let expected = [(0, 19, 100.0, 2.0), (20, 39, 300.0, 2.0), (40, 59, 300.0, 60.0)];
    assert_eq!(rows, expected);
}

#[test]
fn even_accesses_are_one_phase() {
    let mut phases = Phases::new(SliceLength { ns: 1000, accesses: 100 });
    let addresses: Vec<u64> = (0..10_000).map(|at| at % 7 << 12).collect();
    phases.add(&Batch::new(&addresses, &vec![false; 10_000]));
    let result = phases.result().remove(0).phases;
    assert_eq!((result.len(), result[0].accesses, result[0].new_pages), (1, 10_000, 7));
}

#[test]
fn slices_of_a_sparse_trace_become_longer_as_often_as_needed() {
    // One access in every 50th slice of 80 clocks, so that slices have to be joined many times.
    let count = (1 << 20) + 1;
    let clocks: Vec<u64> = (0..count).map(|at| at * 4000).collect();
    let (addresses, writes) = (vec![0; count as usize], vec![true; count as usize]);
    let mut frequency = Frequency::new(LENGTH);
    frequency.known(&CLOCKED);
    frequency.add(&Batch::new(&addresses, &writes).with_clocks(&clocks));
    let result = frequency.result().remove(0);
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    clocks.iter().for_each(|clock| *expected.entry(clock / result.slice_length).or_default() += 1);
    let slices: BTreeMap<u64, u64> =
        result.slices.iter().map(|slice| (slice.slice, slice.writes)).collect();
    assert_eq!(slices, expected);
}

#[test]
fn pieces_that_follow_a_restart_are_in_its_slices() {
    let length = SliceLength { ns: 100, accesses: 37 };
    let batch = |frequency: &mut Frequency, clocks: &[u64]| {
        let (addresses, writes) = (vec![0; clocks.len()], vec![true; clocks.len()]);
        frequency.add(&Batch::new(&addresses, &writes).with_clocks(clocks));
    };
    let new = || {
        let mut frequency = Frequency::new(length);
        frequency.known(&CLOCKED);
        frequency
    };
    let mut whole = new();
    batch(&mut whole, &[70]);
    whole.restart();
    batch(&mut whole, &[50, 110]);
    let (mut first, mut second) = (new(), new());
    batch(&mut first, &[70]);
    first.restart();
    batch(&mut first, &[50]);
    batch(&mut second, &[110]);
    first.append(second);
    let slices = |frequency: &Frequency| -> Vec<u64> {
        frequency.result().remove(0).slices.iter().map(|slice| slice.slice).collect()
    };
    assert_eq!(slices(&whole), [0, 1, 2]);
    assert_eq!(slices(&first), slices(&whole));
}

#[test]
fn pieces_with_slices_of_other_lengths_count_where_they_begin() {
    let piece = |ns, from: u64| {
        let mut frequency = Frequency::new(SliceLength { ns, accesses: 1 });
        frequency.known(&CLOCKED);
        let clocks: Vec<u64> = (from..from + 1200).collect();
        frequency.add(&Batch::new(&vec![0; 1200], &vec![true; 1200]).with_clocks(&clocks));
        frequency
    };
    let result_slices = |frequency: Frequency| {
        let result = frequency.result().remove(0);
        let slices: Vec<_> =
            result.slices.iter().map(|slice| (slice.slice, slice.writes)).collect();
        (result.slice_length, slices)
    };
    let nanoseconds = |clocks: u64| clocks * u64::from(CLOCKED.tck_ps.unwrap()) / 1000;
    // Slices of 400 clocks, then slices of 200 clocks: two of the shorter slices become one slice.
    let mut joined = piece(nanoseconds(400), 0);
    joined.append(piece(nanoseconds(200), 1200));
    assert_eq!(result_slices(joined), (400, (0..6).map(|slice| (slice, 400)).collect()));
    // Slices of 300 clocks, then slices of 400 clocks: all become slices of 600 clocks, and each
    // slice of the later piece is counted in the slice in which it begins.
    let mut joined = piece(nanoseconds(300), 0);
    joined.append(piece(nanoseconds(400), 1200));
    assert_eq!(result_slices(joined), (600, vec![(0, 600), (1, 600), (2, 800), (3, 400)]));
}

#[test]
fn the_working_set_is_exact_when_slices_become_longer_within_a_batch() {
    // One access in each slice of 80 clocks, to one page. The last access of the first batch makes
    // slices twice as long, and the next batch continues the last slice.
    let count = MOST_SLICES + 3;
    let clocks: Vec<u64> = (0..count as u64).map(|at| at * 80).collect();
    let (addresses, writes) = (vec![0x1000; count], vec![false; count]);
    let batch = Batch::new(&addresses, &writes).with_clocks(&clocks);
    let mut working = WorkingSet::new(LENGTH);
    working.known(&CLOCKED);
    working.add(&batch.rows(0..MOST_SLICES + 1));
    working.add(&batch.rows(MOST_SLICES + 1..count));
    let result = working.result().remove(0);
    assert_eq!(result.slice_length, 2 * 80);
    let last = &result.slices[result.slices.len() - 2..];
    let counts: Vec<_> =
        last.iter().map(|slice| (slice.accesses, slice.pages, slice.new_pages)).collect();
    assert_eq!(counts, [(2, 1, 0), (1, 1, 0)]);
}
