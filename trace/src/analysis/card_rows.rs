//! Sums up the row outcomes that a card counts itself, in analysis mode. The card sees ACTIVATE and
//! PRECHARGE, which a file of accesses does not have.
//!
//! A card sends its counts in dumps. Each dump counts from 0, so the sums over all dumps are the
//! counts of the capture. A dump with missing records is counted as incomplete, and its received
//! records are in the sums. Memory is bounded by the number of banks.

use std::collections::BTreeMap;

use hmtt_format::Event;
use hmtt_format::record::{ALL_PARTS, CountGroup, other_count};
use serde::Serialize;

use crate::decode::Item;

/// Number of the part of the hot pages that is dumped together with the row outcomes.
const PART_WITH_ROWS: u8 = 0;

/// Difference between the bank numbers of adjacent ranks in count records.
const RANK: u16 = 16;

/// Row outcomes of a bank, as the card counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardBank {
    /// Number of the rank.
    pub rank: u16,
    /// Number of the bank in its rank.
    pub bank: u16,
    /// Accesses to the open row after its first access.
    pub row_hits: u64,
    /// First accesses to a row of a closed bank.
    pub row_misses: u64,
    /// First accesses to a row for which another row was closed.
    pub row_conflicts: u64,
}

/// Row outcomes of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardOutcomes {
    /// Number of the memory, from 1.
    pub source: u64,
    /// Dumps that have row outcomes.
    pub dump_count: u64,
    /// Dumps with row outcomes in which records are missing. If there are any, the sums are lower
    /// bounds.
    pub incomplete_dump_count: u64,
    /// Outcomes that the card did not count, because it was busy or made a dump.
    pub skipped_rows: u64,
    /// Banks that were used.
    pub banks: Vec<CardBank>,
}

/// The dump whose records arrive now.
#[derive(Debug)]
struct Open {
    has_rows: bool,
    number: Option<u8>,
    records: u32,
}

/// Collects the row outcomes of one card.
#[derive(Debug, Default)]
pub struct CardRows {
    /// Hits, misses and conflicts by the number of rank and bank.
    banks: BTreeMap<u16, [u64; 3]>,
    sums: CardOutcomes,
    open: Option<Open>,
}

impl CardRows {
    /// Takes an item between accesses.
    pub fn item(&mut self, item: &Item) {
        match *item {
            Item::Event(Event::Interval { part, .. }) => {
                self.close(false);
                let has_rows = [PART_WITH_ROWS, ALL_PARTS].contains(&part);
                self.sums.dump_count += u64::from(has_rows);
                self.open = Some(Open { has_rows, number: None, records: 1 });
            }
            Item::Event(Event::HotPage { dump, .. }) => drop(self.record(dump)),
            Item::Event(Event::Count { dump, group, index, value }) => {
                if let Some(records) = self.record(dump) {
                    self.count(group, index, value, records);
                }
            }
            _ => {}
        }
    }

    /// Ends the open dump as incomplete, because records are missing here or the card has
    /// restarted.
    pub fn lose(&mut self) {
        self.close(false);
    }

    /// Counts a record of the open dump. Returns the number of records of this dump so far; `None`
    /// if the record is of another dump, or if no dump is open.
    fn record(&mut self, number: u8) -> Option<u32> {
        let open = self.open.as_mut()?;
        if *open.number.get_or_insert(number) != number {
            self.close(false);
            return None;
        }
        open.records = open.records.saturating_add(1);
        Some(open.records)
    }

    fn count(&mut self, group: CountGroup, index: u16, value: u32, records: u32) {
        let outcome = match (group, index) {
            (CountGroup::Other, other_count::ROWS_SKIPPED) => {
                self.sums.skipped_rows = self.sums.skipped_rows.saturating_add(value.into());
                return;
            }
            (CountGroup::Other, other_count::CLOSING) => {
                return self.close(records == value.saturating_add(1));
            }
            (CountGroup::Other | CountGroup::Reuse, _) => return,
            (outcome, _) => outcome as usize,
        };
        if let Some(sum) = self.banks.entry(index).or_default().get_mut(outcome) {
            *sum = sum.saturating_add(value.into());
        }
    }

    fn close(&mut self, is_complete: bool) {
        if self.open.take().is_some_and(|open| open.has_rows && !is_complete) {
            self.sums.incomplete_dump_count += 1;
        }
    }

    /// The sums of the card's counts; `None` if the card has sent no row outcomes. `source`: the
    /// number of the memory, from 1.
    pub fn result(mut self, source: u64) -> Option<CardOutcomes> {
        self.close(false);
        let bank = |(index, [row_hits, row_misses, row_conflicts]): (u16, [u64; 3])| {
            let (rank, bank) = (index / RANK, index % RANK);
            CardBank { rank, bank, row_hits, row_misses, row_conflicts }
        };
        let banks: Vec<CardBank> = self.banks.into_iter().map(bank).collect();
        (self.sums.dump_count > 0).then_some(CardOutcomes { source, banks, ..self.sums })
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::Cycles;

    use super::*;

    fn count(dump: u8, group: CountGroup, index: u16, value: u32) -> Item {
        Item::Event(Event::Count { dump, group, index, value })
    }

    #[test]
    fn dumps_are_added_and_cut_ones_are_counted() {
        let begin = |part| Item::Event(Event::Interval { clock: Cycles(0), part });
        let closing = |dump, records| count(dump, CountGroup::Other, other_count::CLOSING, records);
        let [hits, misses, conflicts] = [0, 1, 2].map(|code| CountGroup::from_code(code).unwrap());
        let mut rows = CardRows::default();
        for item in [
            begin(0),
            count(1, hits, 0x13, 10),
            count(1, conflicts, 0x13, 2),
            count(1, CountGroup::Other, other_count::ROWS_SKIPPED, 5),
            closing(1, 4),
            // The dump of another part has no row outcomes, and its end does not matter.
            begin(7),
            // One record of this dump is missing.
            begin(ALL_PARTS),
            count(3, hits, 0x13, 1),
            count(3, misses, 2, 4),
            closing(3, 4),
            // No end.
            begin(0),
        ] {
            rows.item(&item);
        }
        let bank = |rank, bank, [row_hits, row_misses, row_conflicts]: [u64; 3]| CardBank {
            rank,
            bank,
            row_hits,
            row_misses,
            row_conflicts,
        };
        let expected = CardOutcomes {
            source: 2,
            dump_count: 3,
            incomplete_dump_count: 2,
            skipped_rows: 5,
            banks: vec![bank(0, 2, [0, 4, 0]), bank(1, 3, [11, 0, 2])],
        };
        assert_eq!(rows.result(2), Some(expected));
        assert_eq!(CardRows::default().result(1), None);
    }
}
