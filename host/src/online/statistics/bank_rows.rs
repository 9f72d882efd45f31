//! Maps addresses to bank-row indices.
//!
//! A bank-row index holds row, rank and bank in one word. Each of its bits is an XOR of address
//! bits. So the index of an address is the XOR of table entries for parts of the address, and a few
//! small tables replace the matrix. Invariant: the index equals the coordinates of
//! [`AddressMap::to_coordinates`].

use hmtt_format::address_map::{AddressMap, MAX_BANK_BITS, MAX_RANK_BITS};
use hmtt_format::memory::PAGE_LOG2;

/// Number of low bits of an index that hold rank and bank; the row is above them.
const BANK_BITS: u32 = (MAX_RANK_BITS + MAX_BANK_BITS) as u32;
/// Number of banks that are distinguished.
pub(super) const BANKS: usize = 1 << BANK_BITS;

/// Number of page-number bits that select an entry of one table; three tables cover all bits.
const PIECE_BITS: u32 = 10;
const PIECE: usize = 1 << PIECE_BITS;
/// Number of page-offset bits that select an entry of one table; two tables cover all bits.
const OFFSET_BITS: u32 = PAGE_LOG2 as u32 / 2;
const OFFSET: usize = 1 << OFFSET_BITS;

/// Tables of bank-row indices; all 0 while the memory is not known.
#[derive(Debug)]
pub(super) struct BankRowMap {
    pages: [[u32; PIECE]; 3],
    offsets: [[u32; OFFSET]; 2],
    whole_pages: bool,
}

impl Default for BankRowMap {
    fn default() -> Self {
        BankRowMap { pages: [[0; PIECE]; 3], offsets: [[0; OFFSET]; 2], whole_pages: true }
    }
}

impl BankRowMap {
    /// Tables for a memory with this address map.
    pub fn new(map: &AddressMap) -> Self {
        let mut bank_rows = BankRowMap::default();
        let pieces = |at: u32| (0u64..).map(move |value| bank_row(map, value << at));
        for (at, table) in
            (u32::from(PAGE_LOG2)..).step_by(PIECE_BITS as usize).zip(&mut bank_rows.pages)
        {
            table.iter_mut().zip(pieces(at)).for_each(|(to, from)| *to = from);
        }
        for (at, table) in (0..).step_by(OFFSET_BITS as usize).zip(&mut bank_rows.offsets) {
            table.iter_mut().zip(pieces(at)).for_each(|(to, from)| *to = from);
        }
        bank_rows.whole_pages = bank_rows.offsets.iter().flatten().all(|bank_row| *bank_row == 0);
        bank_rows
    }

    /// Whether every page lies in one row.
    pub fn has_whole_pages(&self) -> bool {
        self.whole_pages
    }

    /// Bank-row index of the first byte of a page. `page`: page number.
    #[inline(always)]
    pub fn bank_row_of_page(&self, page: u64) -> u32 {
        let page = page as usize;
        self.pages[0][page % PIECE]
            ^ self.pages[1][(page >> PIECE_BITS) % PIECE]
            ^ self.pages[2][(page >> (2 * PIECE_BITS)) % PIECE]
    }

    /// Value to XOR to the index of an address's page to get the index of the address.
    #[inline(always)]
    pub fn bank_row_of_offset(&self, address: u64) -> u32 {
        let offset = address as usize;
        self.offsets[0][offset % OFFSET] ^ self.offsets[1][(offset >> OFFSET_BITS) % OFFSET]
    }
}

/// Low bits of a bank-row index: rank and bank.
pub(super) fn bank_index(rank: u32, bank: u32) -> u32 {
    rank << MAX_BANK_BITS | bank
}

fn bank_row(map: &AddressMap, address: u64) -> u32 {
    let at = map.to_coordinates(address);
    at.row << BANK_BITS | bank_index(at.rank, at.bank)
}
