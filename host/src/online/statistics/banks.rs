//! Counts row hits: accesses to the row that was accessed last in their bank.

use hmtt_format::address_map::{AddressMap, Axis};

use super::bank_rows::{BANKS, bank_index};
use crate::online::activity::RowUse;

/// Stands for "no access yet": bank-row indices have fewer bits.
const NO_BANK_ROW: u32 = u32::MAX;
const ACCESSES_AT: u32 = 32;
/// Accesses that [`Banks::add`] may count between two calls of [`Banks::collect`].
pub(super) const MAX_UNCOLLECTED: u64 = (1 << ACCESSES_AT) - 1;

/// Counts row hits by bank.
#[derive(Debug)]
pub(super) struct Banks {
    /// Bank-row index of the last access, for each bank.
    last: [u32; BANKS],
    /// Counts since the last collection, in one word so that one addition updates both: bits 63..32
    /// accesses, 31..0 hits. There are two lanes, so that an addition to a bank does not depend on
    /// the previous one.
    counts: [[u64; BANKS]; 2],
    slice: [RowUse; BANKS],
    total: [RowUse; BANKS],
    ranks: u32,
    banks_of_rank: u32,
}

impl Default for Banks {
    /// Counts for a memory that is not known.
    fn default() -> Self {
        Banks {
            last: [NO_BANK_ROW; BANKS],
            counts: [[0; BANKS]; 2],
            slice: [RowUse::default(); BANKS],
            total: [RowUse::default(); BANKS],
            ranks: 0,
            banks_of_rank: 0,
        }
    }
}

impl Banks {
    /// Counts for a memory with this address map.
    pub fn new(map: &AddressMap) -> Self {
        let (ranks, banks_of_rank) = (1 << map.bits(Axis::Rank), 1 << map.bits(Axis::Bank));
        Banks { ranks, banks_of_rank, ..Banks::default() }
    }

    /// Counts an access. `LANE`: 0 or 1, alternating for speed; the result does not depend on it.
    #[inline(always)]
    pub fn add<const LANE: usize>(&mut self, bank_row: u32) {
        let bank = bank_row as usize % BANKS;
        self.counts[LANE][bank] += 1 << ACCESSES_AT | u64::from(self.last[bank] == bank_row);
        self.last[bank] = bank_row;
    }

    /// Counts a run of at least one access to a bank row. All accesses but the first are hits.
    pub fn add_run(&mut self, bank_row: u32, accesses: u64) {
        self.add::<0>(bank_row);
        let again = RowUse { accesses: accesses - 1, row_hits: accesses - 1 };
        self.slice[bank_row as usize % BANKS].add(again);
    }

    /// Moves the packed counts to counters of 64 bits, before they overflow.
    pub fn collect(&mut self) {
        for lane in &mut self.counts {
            for (counts, slice) in lane.iter_mut().zip(&mut self.slice) {
                let counts = std::mem::take(counts);
                slice.add(RowUse {
                    accesses: counts >> ACCESSES_AT,
                    row_hits: counts & ((1 << ACCESSES_AT) - 1),
                });
            }
        }
    }

    /// Ends the slice and returns the counts of each bank; empty if the memory is not known.
    pub fn end_slice(&mut self) -> Vec<BankCounts> {
        self.collect();
        let slice = std::mem::replace(&mut self.slice, [RowUse::default(); BANKS]);
        self.total.iter_mut().zip(slice).for_each(|(total, slice)| total.add(slice));
        let mut banks = Vec::new();
        for rank in 0..self.ranks {
            for bank in 0..self.banks_of_rank {
                let index = bank_index(rank, bank) as usize % BANKS;
                banks.push(BankCounts {
                    rank,
                    bank,
                    slice: slice[index],
                    total: self.total[index],
                });
            }
        }
        banks
    }
}

/// Counts of a bank.
pub(super) struct BankCounts {
    pub rank: u32,
    pub bank: u32,
    pub slice: RowUse,
    pub total: RowUse,
}
