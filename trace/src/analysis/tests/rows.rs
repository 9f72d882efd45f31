//! Compares rows and banks with a map of the last row of each bank.

use std::collections::BTreeMap;

use hmtt_format::address_map::{AddressMap, Axis, MapBuilder};
use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::rows::{MemoryRows, Outcomes, Rows};
use crate::analysis::{Analysis, Batch, Gap, Known};

/// A memory of two ranks of eight banks. The bits of the bank are XORed with bits of the row.
fn map() -> AddressMap {
    let mut map = MapBuilder::default();
    (0..6).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
    (0..3).for_each(|bit| map.bit(Axis::Bank, bit, 0b1001 << (9 + bit)).unwrap());
    (0..14).for_each(|bit| map.bit(Axis::Row, bit, 1 << (12 + bit)).unwrap());
    map.bit(Axis::Rank, 0, 1 << 26).unwrap();
    map.build().unwrap()
}

fn known(is_clocked: bool) -> Known {
    let bank_map = Some((&map()).into());
    Known { clocks: is_clocked, tck_ps: Some(1250), bank_map, ..Known::default() }
}

/// Number of the rank, and number of the bank in the rank.
type Number = (u16, u16);

/// Outcomes of each bank, and the bank and the outcome of each access. `gap`: index of the access
/// before which the last rows are forgotten.
fn expected(
    accesses: &Accesses,
    gap: usize,
) -> (BTreeMap<Number, Outcomes>, Vec<(Number, Outcomes)>) {
    let map = map();
    let mut last: BTreeMap<Number, u32> = BTreeMap::new();
    let mut banks: BTreeMap<Number, Outcomes> = BTreeMap::new();
    let mut each = Vec::new();
    for (at, address) in accesses.addresses.iter().enumerate() {
        if at == gap {
            last.clear();
        }
        let coordinates = map.to_coordinates(*address);
        let number = (coordinates.rank as u16, coordinates.bank as u16);
        let before = last.insert(number, coordinates.row);
        let outcome = Outcomes {
            same_row_accesses: u64::from(before == Some(coordinates.row)),
            other_row_accesses: u64::from(before.is_some_and(|row| row != coordinates.row)),
            first_accesses: u64::from(before.is_none()),
        };
        *banks.entry(number).or_default() = sum(banks.get(&number).copied(), outcome);
        each.push((number, outcome));
    }
    (banks, each)
}

fn sum(first: Option<Outcomes>, second: Outcomes) -> Outcomes {
    let first = first.unwrap_or_default();
    Outcomes {
        same_row_accesses: first.same_row_accesses + second.same_row_accesses,
        other_row_accesses: first.other_row_accesses + second.other_row_accesses,
        first_accesses: first.first_accesses + second.first_accesses,
    }
}

fn by_bank(rows: &MemoryRows) -> BTreeMap<Number, Outcomes> {
    rows.banks.iter().map(|bank| ((bank.rank, bank.bank), bank.outcomes)).collect()
}

/// Accesses to both ranks.
fn spread() -> impl Strategy<Value = Accesses> {
    (accesses(1500), 0u32..16).prop_map(|(mut accesses, time)| {
        accesses.clocks.iter_mut().for_each(|clock| *clock <<= time);
        for (address, row) in accesses.addresses.iter_mut().zip(0u64..) {
            *address += row % 5 / 4 << 26;
        }
        accesses
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_compared_with_the_last_one_of_their_bank(
        accesses in spread(),
        is_clocked in any::<bool>(),
        gap in 0.0..1.0f64,
    ) {
        let gap = (gap * accesses.len() as f64) as usize;
        let mut rows = Rows::default();
        rows.known(&known(is_clocked));
        rows.add(&accesses.batch(0..gap));
        rows.gap(&Gap::default());
        rows.add(&accesses.batch(gap..accesses.len()));
        let memory_rows = rows.result().remove(0);
        let (banks, each) = expected(&accesses, gap);
        prop_assert_eq!(by_bank(&memory_rows), banks.clone());
        prop_assert_eq!(memory_rows.outcomes, banks.values().fold(Outcomes::default(), |sum_before, outcomes| sum(Some(sum_before), *outcomes)));
        let mut slices: BTreeMap<u64, Outcomes> = BTreeMap::new();
        let mut used: BTreeMap<(Number, u64), u64> = BTreeMap::new();
        for (at, (number, outcome)) in each.into_iter().enumerate() {
            let time = if is_clocked { accesses.clocks[at] } else { at as u64 };
            let slice = time / memory_rows.slice_length;
            *slices.entry(slice).or_default() = sum(slices.get(&slice).copied(), outcome);
            *used.entry((number, slice)).or_default() += 1;
        }
        let shown: BTreeMap<u64, Outcomes> = memory_rows.slices.iter().map(|slice| (slice.slice, slice.outcomes)).collect();
        prop_assert_eq!(shown, slices);
        let mut shown = BTreeMap::new();
        for bank in &memory_rows.banks {
            for (count, slice) in bank.counts.iter().zip(memory_rows.first_slice..).filter(|(count, _)| **count > 0) {
                shown.insert(((bank.rank, bank.bank), slice), *count);
            }
        }
        prop_assert_eq!(shown, used);
    }

    #[test]
    fn joined_pieces_know_the_rows_before(
        accesses in spread(),
        cuts in prop::array::uniform2(0.0..1.0f64),
        has_gap in any::<bool>(),
    ) {
        let mut cuts = cuts.map(|cut| (cut * accesses.len() as f64) as usize);
        cuts.sort_unstable();
        let [first, second] = cuts;
        let piece = |rows: std::ops::Range<usize>, has_gap: bool| {
            let mut piece = Rows::default();
            piece.known(&known(true));
            if has_gap {
                piece.gap(&Gap { after_clock: accesses.clocks.get(rows.start).copied(), ..Gap::default() });
            }
            piece.add(&accesses.batch(rows));
            piece
        };
        let mut later = piece(first..second, false);
        later.append(piece(second..accesses.len(), has_gap));
        let mut joined = piece(0..first, false);
        joined.append(later);
        let gap = if has_gap { second } else { accesses.len() };
        let (banks, _) = expected(&accesses, gap);
        let memory_rows = joined.result().remove(0);
        prop_assert_eq!(by_bank(&memory_rows), banks);
        let slices = memory_rows.slices.iter().fold(Outcomes::default(), |sum_before, slice| sum(Some(sum_before), slice.outcomes));
        prop_assert_eq!(slices, memory_rows.outcomes);
    }
}

#[test]
fn accesses_before_the_map_is_known_are_stated() {
    let mut rows = Rows::default();
    let batch = |address| [address];
    rows.add(&Batch::new(&batch(0), &[false]));
    rows.known(&known(false));
    for address in [0, 8, 1 << 15] {
        rows.add(&Batch::new(&batch(address), &[false]));
    }
    rows.restart();
    rows.add(&Batch::new(&batch(1 << 15), &[false]));
    let memory_rows = rows.result().remove(0);
    assert_eq!(memory_rows.unmapped_accesses, 1);
    let expected = Outcomes { same_row_accesses: 1, other_row_accesses: 1, first_accesses: 2 };
    assert_eq!(memory_rows.outcomes, expected);
    assert_eq!(memory_rows.slices.len(), 5 - 1, "one of the accesses has no bank");
}
