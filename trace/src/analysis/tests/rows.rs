//! Rows and banks, compared with a map of the last row of each bank.

use std::collections::BTreeMap;

use hmtt_format::address_map::{AddressMap, Axis, MapBuilder};
use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::rows::{MemoryRows, Outcomes, Rows};
use crate::analysis::{Analysis, Batch, Gap, Known};

/// Two ranks of eight banks, whose bits are XORed with those of the row.
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

/// Rank and bank.
type Number = (u16, u16);

/// Accesses, a row of which has no known row before: the first one after a gap.
fn expected(all: &Accesses, gap: usize) -> (BTreeMap<Number, Outcomes>, Vec<(Number, Outcomes)>) {
    let map = map();
    let mut last: BTreeMap<Number, u32> = BTreeMap::new();
    let mut banks: BTreeMap<Number, Outcomes> = BTreeMap::new();
    let mut each = Vec::new();
    for (at, address) in all.addresses.iter().enumerate() {
        if at == gap {
            last.clear();
        }
        let found = map.to_coordinates(*address);
        let number = (found.rank as u16, found.bank as u16);
        let before = last.insert(number, found.row);
        let one = Outcomes {
            same_row_accesses: u64::from(before == Some(found.row)),
            other_row_accesses: u64::from(before.is_some_and(|row| row != found.row)),
            first_accesses: u64::from(before.is_none()),
        };
        *banks.entry(number).or_default() = sum(banks.get(&number).copied(), one);
        each.push((number, one));
    }
    (banks, each)
}

fn sum(one: Option<Outcomes>, other: Outcomes) -> Outcomes {
    let one = one.unwrap_or_default();
    Outcomes {
        same_row_accesses: one.same_row_accesses + other.same_row_accesses,
        other_row_accesses: one.other_row_accesses + other.other_row_accesses,
        first_accesses: one.first_accesses + other.first_accesses,
    }
}

fn by_bank(found: &MemoryRows) -> BTreeMap<Number, Outcomes> {
    found.banks.iter().map(|one| ((one.rank, one.bank), one.outcomes)).collect()
}

/// Accesses to both ranks.
fn spread() -> impl Strategy<Value = Accesses> {
    (accesses(1500), 0u32..16).prop_map(|(mut all, time)| {
        all.clocks.iter_mut().for_each(|clock| *clock <<= time);
        for (address, row) in all.addresses.iter_mut().zip(0u64..) {
            *address += row % 5 / 4 << 26;
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_compared_with_the_last_one_of_their_bank(
        all in spread(),
        is_clocked in any::<bool>(),
        gap in 0.0..1.0f64,
    ) {
        let gap = (gap * all.len() as f64) as usize;
        let mut rows = Rows::default();
        rows.known(&known(is_clocked));
        rows.add(&all.batch(0..gap));
        rows.gap(&Gap::default());
        rows.add(&all.batch(gap..all.len()));
        let found = rows.result().remove(0);
        let (banks, each) = expected(&all, gap);
        prop_assert_eq!(by_bank(&found), banks.clone());
        prop_assert_eq!(found.outcomes, banks.values().fold(Outcomes::default(), |all, one| sum(Some(all), *one)));
        let mut slices: BTreeMap<u64, Outcomes> = BTreeMap::new();
        let mut used: BTreeMap<(Number, u64), u64> = BTreeMap::new();
        for (at, (number, one)) in each.into_iter().enumerate() {
            let time = if is_clocked { all.clocks[at] } else { at as u64 };
            let slice = time / found.slice_length;
            *slices.entry(slice).or_default() = sum(slices.get(&slice).copied(), one);
            *used.entry((number, slice)).or_default() += 1;
        }
        let shown: BTreeMap<u64, Outcomes> = found.slices.iter().map(|one| (one.slice, one.outcomes)).collect();
        prop_assert_eq!(shown, slices);
        let mut shown = BTreeMap::new();
        for bank in &found.banks {
            for (count, slice) in bank.counts.iter().zip(found.first_slice..).filter(|(count, _)| **count > 0) {
                shown.insert(((bank.rank, bank.bank), slice), *count);
            }
        }
        prop_assert_eq!(shown, used);
    }

    #[test]
    fn joined_pieces_know_the_rows_before(
        all in spread(),
        cuts in prop::array::uniform2(0.0..1.0f64),
        has_gap in any::<bool>(),
    ) {
        let mut cuts = cuts.map(|cut| (cut * all.len() as f64) as usize);
        cuts.sort_unstable();
        let [one, two] = cuts;
        let piece = |rows: std::ops::Range<usize>, has_gap: bool| {
            let mut piece = Rows::default();
            piece.known(&known(true));
            if has_gap {
                piece.gap(&Gap { after_clock: all.clocks.get(rows.start).copied(), ..Gap::default() });
            }
            piece.add(&all.batch(rows));
            piece
        };
        let mut later = piece(one..two, false);
        later.append(piece(two..all.len(), has_gap));
        let mut joined = piece(0..one, false);
        joined.append(later);
        let gap = if has_gap { two } else { all.len() };
        let (banks, _) = expected(&all, gap);
        let found = joined.result().remove(0);
        prop_assert_eq!(by_bank(&found), banks);
        let slices = found.slices.iter().fold(Outcomes::default(), |all, one| sum(Some(all), one.outcomes));
        prop_assert_eq!(slices, found.outcomes);
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
    let found = rows.result().remove(0);
    assert_eq!(found.unmapped_accesses, 1);
    let expected = Outcomes { same_row_accesses: 1, other_row_accesses: 1, first_accesses: 2 };
    assert_eq!(found.outcomes, expected);
    assert_eq!(found.slices.len(), 5 - 1, "one of the accesses has no bank");
}
