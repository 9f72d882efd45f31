//! Compares the result of each group with an analysis of the accesses that a plain computation
//! assigns to the group.

use std::collections::BTreeMap;

use hmtt_files::access_trace::Function;
use hmtt_format::event::MarkRegister;
use hmtt_format::{Cycles, Direction, Event};
use proptest::prelude::*;

use super::{By, Functions, GroupResult, NOT_KNOWN, OTHERS, Pair, Place, SplitFold};
use crate::analysis::reuse::{Reuse, Reuses};
use crate::analysis::source::Part;
use crate::analysis::streams::Streams;
use crate::analysis::tests::{Accesses, accesses};
use crate::analysis::{AddressSpace, Analysis, Batch, Gap, Known};
use crate::decode::Item;

const PROGRAM: Known = Known {
    address_space: AddressSpace::Virtual,
    clocks: false,
    tck_ps: None,
    unit_bytes: None,
    sizes: true,
    threads: true,
    instructions: true,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};
const CAPTURE: Known = Known {
    address_space: AddressSpace::Physical,
    clocks: true,
    tck_ps: Some(800),
    unit_bytes: Some(64),
    sizes: false,
    threads: false,
    instructions: false,
    capacity_bytes: None,
    bus_bytes: None,
    bank_map: None,
    board: None,
};
const PAIR: Pair = Pair { begin: Place::free_mark(1), end: Place::free_mark(2) };

fn functions(names: &[&str]) -> Vec<Function> {
    let function = |name: &&str| Function { name: (*name).to_owned(), ..Function::default() };
    names.iter().map(function).collect()
}

fn mark(number: u32) -> Item {
    Item::Event(Event::Mark { clock: Cycles(0), register: MarkRegister(0x100 + number) })
}

/// The accesses of some rows.
fn chosen(accesses: &Accesses, is_chosen: impl Fn(usize) -> bool) -> Accesses {
    let mut some = Accesses::default();
    for row in (0..accesses.len()).filter(|row| is_chosen(*row)) {
        some.addresses.push(accesses.addresses[row]);
        some.writes.push(accesses.writes[row]);
        some.clocks.push(accesses.clocks[row]);
        some.sizes.push(accesses.sizes[row]);
        some.instructions.push(accesses.instructions[row]);
    }
    some
}

type Found = (<Reuse as Analysis>::Result, <Streams as Analysis>::Result);

/// Checks that the result of a group equals the result of an analysis of `batch` alone.
fn check(group: &GroupResult<Found>, batch: &Batch<'_>, known: &Known) {
    let mut expected = (Reuse::lines(), Streams::new(20));
    expected.known(known);
    expected.add(batch);
    assert_eq!(group.sums.accesses, batch.len() as u64, "{}", group.name);
    assert_eq!(group.result, expected.result(), "{}", group.name);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_function_has_the_results_of_its_accesses(
        accesses in accesses(300),
        numbers in prop::collection::vec(0u32..5, 300),
        cut in 0usize..300,
    ) {
        let mut fold = SplitFold::new(By::Function(Functions::default()), (Reuse::lines(), Streams::new(20)));
        fold.part(0, Part::Known(&PROGRAM));
        // Number 4 has no description.
        let described = functions(&["a", "b", "a"]);
        fold.part(0, Part::Functions(&described[..1]));
        fold.part(0, Part::Functions(&described[1..]));
        let (numbers, cut) = (&numbers[..accesses.len()], cut.min(accesses.len()));
        for rows in [0..cut, cut..accesses.len()] {
            let batch = accesses.batch(rows.clone()).with_functions(&numbers[rows]).with_thread(7);
            fold.part(0, Part::Batch(batch));
        }
        let (groups, notes) = fold.finish();
        prop_assert!(notes.is_empty());
        let name = |row: usize| [NOT_KNOWN, "a", "b", "a", NOT_KNOWN][numbers[row] as usize];
        for group in &groups {
            let own = chosen(&accesses, |row| name(row) == group.name);
            check(group, &own.batch(0..own.len()).with_thread(7), &PROGRAM);
        }
        let sum: u64 = groups.iter().map(|group| group.sums.accesses).sum();
        prop_assert_eq!(sum, accesses.len() as u64);
    }

    #[test]
    fn accesses_between_marks_are_inside_and_those_after_a_gap_not_known(
        accesses in accesses(200),
        events in prop::collection::vec(0u8..8, 200),
    ) {
        let mut fold = SplitFold::new(By::Mark(PAIR), (Reuse::lines(), Streams::new(20)));
        fold.part(0, Part::Known(&CAPTURE));
        let (mut side, mut sides) = ("outside", Vec::new());
        let mut gaps = 0u64;
        for (row, event) in (0..accesses.len()).zip(&events) {
            match *event {
                number @ (1 | 2) => {
                    fold.part(0, Part::Item(&mark(number.into())));
                    side = ["inside", "outside"][usize::from(number) - 1];
                }
                3 => fold.part(0, Part::Item(&mark(3))),
                4 => {
                    gaps += 1;
                    fold.part(0, Part::Gap(Gap { lost_accesses: Some(1), ..Gap::default() }));
                    side = NOT_KNOWN;
                }
                _ => {}
            }
            sides.push(side);
            let plain = accesses.plain().rows(row..row + 1);
            fold.part(0, Part::Batch(plain));
        }
        let (groups, _) = fold.finish();
        for group in &groups {
            let own = chosen(&accesses, |row| sides[row] == group.name);
            prop_assert_eq!(group.sums.accesses, own.len() as u64);
            prop_assert_eq!(group.sums.writes, own.writes.iter().filter(|is| **is).count() as u64);
            // The distances do not depend on gaps.
            let mut distances = Reuse::lines();
            distances.add(&own.plain());
            let expected: Reuses = distances.result();
            prop_assert_eq!(&group.result.0, &expected);
            prop_assert!(group.sums.gap_count <= gaps && group.sums.lost_accesses <= gaps);
        }
        let sum: u64 = groups.iter().map(|group| group.sums.accesses).sum();
        prop_assert_eq!(sum, accesses.len() as u64);
    }
}

/// Number of accesses of each group of a capture with these parts, by name; and the notes.
fn split(by: By, parts: &[Part<'_>]) -> (BTreeMap<String, u64>, Vec<String>) {
    let mut fold = SplitFold::new(by, Reuse::lines()).with_most(3);
    fold.part(0, Part::Known(&CAPTURE));
    parts.iter().for_each(|part| fold.part(0, *part));
    let (groups, notes) = fold.finish();
    let counts = groups.into_iter().map(|group| (group.name, group.sums.accesses)).collect();
    (counts, notes)
}

fn counts(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn what_is_unexpected_in_a_pair_is_stated() {
    let two = Part::Batch(Batch::new(&[0, 64], &[false, true]));
    let [begin, end] = [mark(1), mark(2)];
    let (begin, end) = (Part::Item(&begin), Part::Item(&end));
    let (groups, notes) = split(By::Mark(PAIR), &[two, end, begin, two, begin, two]);
    assert_eq!(groups, counts(&[("outside", 2), ("inside", 4)]));
    assert_eq!(notes.len(), 3, "{notes:?}");
    let (groups, notes) = split(By::Mark(PAIR), &[begin, two, end, two]);
    assert_eq!((groups, notes), (counts(&[("outside", 2), ("inside", 2)]), Vec::new()));
    // Before the first mark of the kernel it is not known whether the kernel runs. Other marks do
    // not change this.
    let (groups, notes) = split(By::Kernel(Pair::KERNEL), &[two, begin, two]);
    assert_eq!((groups, notes.len()), (counts(&[(NOT_KNOWN, 4)]), 1));
    let tag = |offset, direction| {
        Item::Event(Event::Tag { clock: Cycles(0), direction, offset, address: None })
    };
    let pair = Pair { begin: Place::Tag(64), end: Place::Tag(128) };
    let [enter, exit, read] =
        [tag(64, Direction::Write), tag(128, Direction::Write), tag(64, Direction::Read)];
    let parts = [
        two,
        Part::Item(&enter),
        two,
        Part::Item(&exit),
        Part::Item(&read),
        two,
        Part::Restart,
        two,
    ];
    let (groups, notes) = split(By::Kernel(pair), &parts);
    assert_eq!(groups, counts(&[(NOT_KNOWN, 4), ("kernel", 2), ("user", 2)]));
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn what_a_source_does_not_know_is_a_group_and_a_note() {
    let part = Part::Batch(Batch::new(&[0], &[false]));
    for by in [By::Thread, By::Function(Functions::default())] {
        let (groups, notes) = split(by, &[part]);
        assert_eq!((groups, notes.len()), (counts(&[(NOT_KNOWN, 1)]), 1));
    }
    for (by, name) in [(By::Kernel(Pair::KERNEL), "user"), (By::Mark(PAIR), NOT_KNOWN)] {
        let mut fold = SplitFold::new(by, Reuse::lines());
        fold.part(0, Part::Known(&PROGRAM));
        fold.part(0, part);
        let (groups, notes) = fold.finish();
        assert_eq!((&*groups[0].name, notes.len()), (name, 1));
    }
}

#[test]
fn threads_beyond_the_limit_are_one_group_and_gaps_are_between_accesses() {
    let mut fold = SplitFold::new(By::Thread, Reuse::lines()).with_most(2);
    fold.part(0, Part::Known(&PROGRAM));
    let gap = |lost| Part::Gap(Gap { lost_accesses: Some(lost), ..Gap::default() });
    for thread in [5, 6, 7, 8] {
        fold.part(0, Part::Batch(Batch::new(&[0, 64], &[false; 2]).with_thread(thread)));
        fold.part(0, gap(10));
        fold.part(0, gap(1));
    }
    fold.part(0, Part::Batch(Batch::new(&[0], &[false]).with_thread(5)));
    // Another memory has a thread with the same number.
    fold.part(1, Part::Known(&PROGRAM));
    fold.part(1, Part::Batch(Batch::new(&[0], &[false]).with_thread(5)));
    let (groups, notes) = fold.finish();
    assert!(notes.iter().any(|note| note.contains(OTHERS)), "{notes:?}");
    let group_counts = |name: &str| {
        let sums = &groups.iter().find(|group| group.name == name).unwrap().sums;
        (sums.accesses, sums.gap_count, sums.lost_accesses)
    };
    assert_eq!(group_counts("5"), (3, 1, 44));
    assert_eq!(group_counts("6"), (2, 0, 0));
    assert_eq!(group_counts(OTHERS), (5, 1, 11));
}
