//! Addresses to banks and rows.
//!
//! Each bit of rank, bank and row is an XOR of address bits, so the place of an address is the XOR of
//! what its pieces contribute: a few small tables instead of a matrix. Invariant: the place is that
//! of [`AddressMap::to_coordinates`].

use hmtt_format::address_map::{AddressMap, MAX_BANK_BITS, MAX_RANK_BITS};
use hmtt_format::memory::PAGE_LOG2;

/// Bits of a place that say rank and bank; the row is above.
const BANK_BITS: u32 = (MAX_RANK_BITS + MAX_BANK_BITS) as u32;
/// Banks that places tell apart.
pub(super) const BANKS: usize = 1 << BANK_BITS;

/// Address bits of the page that one table takes; three tables take all.
const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;
/// Address bits within the page that one table takes; two tables take all.
const OFFSET_BITS: u32 = PAGE_LOG2 as u32 / 2;
const OFFSET: usize = 1 << OFFSET_BITS;

/// Row, rank and bank of any address; of an unknown memory always 0.
#[derive(Debug)]
pub(super) struct Places {
    pages: [[u32; PIECE]; 3],
    offsets: [[u32; OFFSET]; 2],
    whole_pages: bool,
}

impl Default for Places {
    fn default() -> Self {
        Places { pages: [[0; PIECE]; 3], offsets: [[0; OFFSET]; 2], whole_pages: true }
    }
}

impl Places {
    /// For memory with this map.
    pub fn new(map: &AddressMap) -> Self {
        let mut places = Places::default();
        let pieces = |at: u32| (0u64..).map(move |value| place(map, value << at));
        for (at, table) in
            (u32::from(PAGE_LOG2)..).step_by(PIECE_BITS as usize).zip(&mut places.pages)
        {
            table.iter_mut().zip(pieces(at)).for_each(|(to, from)| *to = from);
        }
        for (at, table) in (0..).step_by(OFFSET_BITS as usize).zip(&mut places.offsets) {
            table.iter_mut().zip(pieces(at)).for_each(|(to, from)| *to = from);
        }
        places.whole_pages = places.offsets.iter().flatten().all(|place| *place == 0);
        places
    }

    /// Whether all of a page lies in one row.
    pub fn has_whole_pages(&self) -> bool {
        self.whole_pages
    }

    /// Place of the first byte of a page. `page`: its number.
    #[inline(always)]
    pub fn of_page(&self, page: u64) -> u32 {
        let page = page as usize;
        self.pages[0][page % PIECE]
            ^ self.pages[1][(page >> PIECE_BITS) % PIECE]
            ^ self.pages[2][(page >> (2 * PIECE_BITS)) % PIECE]
    }

    /// What to XOR to the place of an address's page to get that of the address.
    #[inline(always)]
    pub fn of_offset(&self, address: u64) -> u32 {
        let offset = address as usize;
        self.offsets[0][offset % OFFSET] ^ self.offsets[1][(offset >> OFFSET_BITS) % OFFSET]
    }
}

/// What of a place says rank and bank.
pub(super) fn bank_index(rank: u32, bank: u32) -> u32 {
    rank << MAX_BANK_BITS | bank
}

fn place(map: &AddressMap, address: u64) -> u32 {
    let at = map.to_coordinates(address);
    at.row << BANK_BITS | bank_index(at.rank, at.bank)
}
