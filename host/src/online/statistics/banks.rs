//! Places that were accessed to how often the row used last in a bank was used again.

use hmtt_format::address_map::{AddressMap, Axis};

use super::places::{BANKS, bank_index};
use crate::online::activity::RowUse;

/// The row of no access: places have fewer bits.
const NO_PLACE: u32 = u32::MAX;
const ACCESSES_AT: u32 = 32;
/// Accesses that [`Banks::add`] may count between two calls of [`Banks::collect`].
pub(super) const MAX_UNCOLLECTED: u64 = (1 << ACCESSES_AT) - 1;

/// Counts row hits by bank.
#[derive(Debug)]
pub(super) struct Banks {
    /// The place of the last access.
    last: [u32; BANKS],
    /// Since the last collection, in one word so that one addition counts both: 63..32 accesses,
    /// 31..0 hits. In two lanes, so that an addition to a bank need not wait for the one before.
    counts: [[u64; BANKS]; 2],
    slice: [RowUse; BANKS],
    total: [RowUse; BANKS],
    ranks: u32,
    banks_of_rank: u32,
}

impl Default for Banks {
    /// Of an unknown memory.
    fn default() -> Self {
        Banks {
            last: [NO_PLACE; BANKS],
            counts: [[0; BANKS]; 2],
            slice: [RowUse::default(); BANKS],
            total: [RowUse::default(); BANKS],
            ranks: 0,
            banks_of_rank: 0,
        }
    }
}

impl Banks {
    /// For memory with this map.
    pub fn new(map: &AddressMap) -> Self {
        let (ranks, banks_of_rank) = (1 << map.bits(Axis::Rank), 1 << map.bits(Axis::Bank));
        Banks { ranks, banks_of_rank, ..Banks::default() }
    }

    /// Counts an access to a place. `LANE`: 0 and 1 in turn, or whatever comes.
    #[inline(always)]
    pub fn add<const LANE: usize>(&mut self, place: u32) {
        let bank = place as usize % BANKS;
        self.counts[LANE][bank] += 1 << ACCESSES_AT | u64::from(self.last[bank] == place);
        self.last[bank] = place;
    }

    /// Counts a run of accesses to a place, at least one: all but the first are hits.
    pub fn add_run(&mut self, place: u32, accesses: u64) {
        self.add::<0>(place);
        let again = RowUse { accesses: accesses - 1, hits: accesses - 1 };
        self.slice[place as usize % BANKS].add(again);
    }

    /// Moves what was counted to where there is room for it.
    pub fn collect(&mut self) {
        for lane in &mut self.counts {
            for (counts, slice) in lane.iter_mut().zip(&mut self.slice) {
                let counts = std::mem::take(counts);
                slice.add(RowUse {
                    accesses: counts >> ACCESSES_AT,
                    hits: counts & ((1 << ACCESSES_AT) - 1),
                });
            }
        }
    }

    /// What each bank did in the slice, which ends; nothing when the memory is not known.
    pub fn end_slice(&mut self) -> Vec<Used> {
        self.collect();
        let slice = std::mem::replace(&mut self.slice, [RowUse::default(); BANKS]);
        self.total.iter_mut().zip(slice).for_each(|(total, slice)| total.add(slice));
        let mut banks = Vec::new();
        for rank in 0..self.ranks {
            for bank in 0..self.banks_of_rank {
                let index = bank_index(rank, bank) as usize % BANKS;
                banks.push(Used { rank, bank, slice: slice[index], total: self.total[index] });
            }
        }
        banks
    }
}

/// How a bank was used.
pub(super) struct Used {
    pub rank: u32,
    pub bank: u32,
    pub slice: RowUse,
    pub total: RowUse,
}
