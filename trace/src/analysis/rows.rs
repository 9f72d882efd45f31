//! Compares the row of each access with the row of its bank's last access, and counts how banks are
//! used over time.
//!
//! A file of accesses has no PRECHARGE, so it does not show whether a row was still open. It shows
//! only the row of the bank's last access. An access to the same row can be a row hit, or a miss if
//! the row was closed in between. An access to another row is no hit, but a conflict or a miss. The
//! card's own analysis (`hmtt analysis`) sees the commands and counts hits, misses and conflicts.
//! After a gap or a restart the last rows are not known.
//!
//! Memory: at most 600 KiB. [`Analysis::append`] is exact if slices are of clocks.
//! [`Analysis::merge`] keeps each memory apart.

use serde::{Deserialize, Serialize};

use super::bank_map::{BankLookup, BankMap, MOST_BANKS, rank_and_bank};
use super::clock::Clock;
use super::columns::{Column, Columns};
use super::slices::SliceUnit;
use super::{Analysis, Batch, FrequencySlice, Gap, Known};

/// Numbers of accesses by outcome: whether an access is to the row of the last access to its bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Accesses to the row of the bank's last access: an upper bound of the row hits.
    pub same_row_accesses: u64,
    /// Accesses to another row than the row of the bank's last access.
    pub other_row_accesses: u64,
    /// Accesses whose bank's last row is not known: the first access to the bank, and the first one
    /// after a gap or a restart.
    pub first_accesses: u64,
}

impl Outcomes {
    /// Accesses of all outcomes.
    pub fn accesses(&self) -> u64 {
        let Outcomes { same_row_accesses, other_row_accesses, first_accesses } = *self;
        same_row_accesses.saturating_add(other_row_accesses).saturating_add(first_accesses)
    }

    fn add(&mut self, more: &Outcomes) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.same_row_accesses, more.same_row_accesses);
        add(&mut self.other_row_accesses, more.other_row_accesses);
        add(&mut self.first_accesses, more.first_accesses);
    }

    /// The outcome of one access to the row `row`. `last`: the row of the bank's last access, if it
    /// is known. Without branches, because it cannot be predicted whether rows are the same.
    #[inline]
    fn of(last: Option<u32>, row: u32) -> Outcomes {
        let (is_known, is_same) = (u64::from(last.is_some()), u64::from(last == Some(row)));
        Outcomes {
            same_row_accesses: is_same,
            other_row_accesses: is_known - is_same,
            first_accesses: 1 - is_known,
        }
    }

    /// Corrects the outcome of an access to the row `row` that was counted as a first access.
    /// `last`: the row of the bank's access before it, which is known now.
    fn correct(&mut self, last: u32, row: u32) {
        self.first_accesses = self.first_accesses.saturating_sub(1);
        self.add(&Outcomes::of(Some(last), row));
    }
}

/// The accesses to a bank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BankRows {
    /// Number of the rank.
    pub rank: u16,
    /// Number of the bank in its rank; on DDR4 with the bank group in its high bits.
    pub bank: u16,
    /// Accesses to the bank.
    pub accesses: u64,
    /// The outcomes of these accesses.
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// Accesses in each slice, from the first one.
    pub counts: Vec<u64>,
}

/// The rows of the accesses in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RowSlice {
    /// Number of the slice, from 0: it begins at this multiple of the length.
    pub slice: u64,
    /// The accesses of all banks.
    #[serde(flatten)]
    pub outcomes: Outcomes,
}

/// The rows and banks of a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryRows {
    /// Number of the memory, from 1.
    pub source: u64,
    /// Accesses that could not be mapped, because no description of the memory was known.
    pub unmapped_accesses: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit: a power of two.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks whose period is known.
    pub slice_seconds: Option<f64>,
    /// Number of the first slice: it begins at this multiple of the length.
    pub first_slice: u64,
    /// The accesses of all banks.
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// Banks with accesses, by rank and number.
    pub banks: Vec<BankRows>,
    /// Slices with mapped accesses.
    pub slices: Vec<RowSlice>,
}

/// Counts of a slice. `banks`: accesses by bank, up to the highest bank with accesses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Counts {
    outcomes: Outcomes,
    banks: Vec<u64>,
}

impl Counts {
    #[inline]
    fn bank(&mut self, index: usize) -> &mut u64 {
        if self.banks.len() <= index {
            self.banks.resize(index + 1, 0);
        }
        &mut self.banks[index]
    }
}

impl Column for Counts {
    fn join(&mut self, later: &Self) {
        self.outcomes.add(&later.outcomes);
        for (index, more) in later.banks.iter().enumerate().take(MOST_BANKS) {
            let sum = self.bank(index);
            *sum = sum.saturating_add(*more);
        }
    }
}

/// The state of a bank after the last access.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Bank {
    outcomes: Outcomes,
    /// The row of the last access, if it is known.
    last: Option<u32>,
    /// Row of the first access in this piece, and a time in the slice of this access; `None` if
    /// accesses before this access are missing. When an earlier piece is joined, which has the row
    /// before, the first access gets its outcome.
    first: Option<(u32, u64)>,
}

/// The banks of one memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memory {
    clock: Clock,
    map: Option<BankMap>,
    #[serde(skip)]
    lookup: Option<Box<BankLookup>>,
    unmapped: u64,
    /// Whether rows were forgotten since the piece began.
    is_cut: bool,
    banks: Vec<Bank>,
    columns: Columns<Counts>,
}

impl Memory {
    fn known(&mut self, known: &Known) {
        self.clock.known(known);
        if self.map != known.bank_map {
            if self.unmapped > 0 || !self.banks.is_empty() {
                self.forget();
            }
            (self.map, self.lookup) = (known.bank_map, None);
        }
    }

    /// Forgets the last rows, because accesses may be missing here.
    fn forget(&mut self) {
        self.is_cut = true;
        self.banks.iter_mut().for_each(|bank| bank.last = None);
    }

    fn add(&mut self, batch: &Batch<'_>) {
        let Memory { clock, map, lookup, unmapped, is_cut, banks, columns } = self;
        let Some(map) = map else {
            *unmapped = unmapped.saturating_add(batch.len() as u64);
            // Accesses without a map get columns, too, because rows and timeline have to have the
            // same columns.
            clock.each_column(batch, columns, |_, _, _, _| {});
            return;
        };
        let lookup = lookup.get_or_insert_with(|| BankLookup::new(map));
        banks.resize(MOST_BANKS, Bank::default());
        clock.each_column(batch, columns, |rows, at, _, counts| {
            let mut outcomes = Outcomes::default();
            for address in &batch.addresses()[rows] {
                let place = lookup.place(*address);
                let bank = &mut banks[place.index];
                if bank.last.is_none() && bank.first.is_none() && !*is_cut {
                    bank.first = Some((place.row, at));
                }
                let outcome = Outcomes::of(bank.last, place.row);
                outcomes.add(&outcome);
                *counts.bank(place.index) += 1;
                bank.outcomes.add(&outcome);
                bank.last = Some(place.row);
            }
            counts.outcomes.add(&outcomes);
        });
    }

    fn append(&mut self, later: Memory) {
        let shift = self.clock.shift();
        self.columns.append(later.columns, shift);
        if self.map != later.map {
            self.forget();
        }
        if self.banks.len() < later.banks.len() {
            self.banks.resize(later.banks.len().min(MOST_BANKS), Bank::default());
        }
        for (index, bank) in self.banks.iter_mut().enumerate() {
            let Bank { mut outcomes, last, first } =
                later.banks.get(index).copied().unwrap_or_default();
            let first = first.map(|(row, at)| (row, at.saturating_add(shift)));
            match (bank.last, first) {
                (Some(last), Some((row, at))) => {
                    outcomes.correct(last, row);
                    self.columns.at(at).outcomes.correct(last, row);
                }
                (_, first) if !self.is_cut => bank.first = bank.first.or(first),
                _ => {}
            }
            bank.outcomes.add(&outcomes);
            bank.last = last.or(bank.last.filter(|_| !later.is_cut));
        }
        self.is_cut |= later.is_cut;
        self.unmapped = self.unmapped.saturating_add(later.unmapped);
        (self.map, self.lookup) = (later.map, None);
        self.clock.append(&later.clock);
    }

    fn result(&self, source: u64) -> MemoryRows {
        let log2 = self.columns.log2();
        let bank = |(index, bank): (usize, &Bank)| {
            let (rank, number) = rank_and_bank(index);
            let count = |(_, counts): (u64, &Counts)| counts.banks.get(index).copied().unwrap_or(0);
            let (outcomes, accesses) = (bank.outcomes, bank.outcomes.accesses());
            let counts = || self.columns.iter().map(count).collect();
            (accesses > 0).then(|| BankRows {
                rank,
                bank: number,
                accesses,
                outcomes,
                counts: counts(),
            })
        };
        let slice = |(slice, counts): (u64, &Counts)| {
            let outcomes = counts.outcomes;
            (outcomes.accesses() > 0).then_some(RowSlice { slice, outcomes })
        };
        let mut outcomes = Outcomes::default();
        self.banks.iter().for_each(|bank| outcomes.add(&bank.outcomes));
        MemoryRows {
            source,
            unmapped_accesses: self.unmapped,
            slice_unit: self.clock.unit(),
            slice_length: 1 << log2,
            slice_seconds: self.clock.seconds(1 << log2),
            first_slice: self.columns.first(),
            outcomes,
            banks: self.banks.iter().enumerate().filter_map(bank).collect(),
            slices: self.columns.iter().filter_map(slice).collect(),
        }
    }
}

/// Rows and banks of accesses, as far as the source has a map of its memory.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, rows::Rows};
///
/// let mut rows = Rows::default();
/// rows.add(&Batch::new(&[0x1000, 0x2000], &[false; 2]));
/// let found = &rows.result()[0];
/// assert_eq!((found.unmapped_accesses, found.banks.len()), (2, 0), "no map is known");
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rows {
    memories: Vec<Memory>,
}

impl Default for Rows {
    fn default() -> Self {
        Rows { memories: vec![Memory::default()] }
    }
}

impl Rows {
    fn own(&mut self, change: impl FnOnce(&mut Memory)) {
        if let Some(memory) = self.memories.first_mut() {
            change(memory);
        }
    }
}

impl Analysis for Rows {
    type Result = Vec<MemoryRows>;

    fn known(&mut self, known: &Known) {
        self.own(|memory| memory.known(known));
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.own(|memory| memory.add(batch));
    }

    /// Adds the columns that the [timeline](super::timeline) has for the slice, so that rows and
    /// timeline have the same columns.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.gap(&slice.as_gap());
        self.gap(&Gap { after_clock: Some(slice.last_clock()), ..Gap::default() });
    }

    /// Adds the column that the [timeline](super::timeline) has for the gap, so that rows and
    /// timeline have the same columns.
    fn gap(&mut self, gap: &Gap) {
        self.own(|memory| {
            memory.forget();
            memory.columns.at(memory.clock.of_gap(gap));
        });
    }

    fn restart(&mut self) {
        self.own(|memory| {
            memory.forget();
            memory.clock.restart(memory.columns.end());
        });
    }

    fn append(&mut self, later: Self) {
        let mut later = later.memories.into_iter();
        if let (Some(own), Some(more)) = (self.memories.first_mut(), later.next()) {
            own.append(more);
        }
        self.memories.extend(later);
    }

    fn merge(&mut self, other: Self) {
        self.memories.extend(other.memories);
    }

    fn result(&self) -> Vec<MemoryRows> {
        self.memories.iter().zip(1..).map(|(memory, source)| memory.result(source)).collect()
    }
}
