//! Counts the distinct pages of a set of addresses.
//!
//! A set has one bit for each page of 4 KiB, in blocks for 2 MiB. A set takes at most 1/12,000 of
//! the size of the accessed blocks, for any number of accessed pages in the blocks.

use crate::tags::hash::FastMap;

/// log2 of the bytes of a page.
pub const PAGE_LOG2: u32 = 12;
/// log2 of the pages of a block.
const BLOCK_LOG2: u32 = 9;
/// Words of 64 bits for a block.
const WORDS: usize = (1 << BLOCK_LOG2) / u64::BITS as usize;

/// A set of pages of 4 KiB.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    /// Bits of the pages of each block, by the block's number.
    blocks: FastMap<u64, [u64; WORDS]>,
    count: u64,
}

impl PageSet {
    /// Adds the page that contains an address.
    pub fn insert(&mut self, address: u64) {
        let page = address >> PAGE_LOG2;
        let block = self.blocks.entry(page >> BLOCK_LOG2).or_default();
        let within = page as usize % (1 << BLOCK_LOG2);
        let (word, bit) = (within / u64::BITS as usize, 1 << (within % u64::BITS as usize));
        self.count += u64::from(block[word] & bit == 0);
        block[word] |= bit;
    }

    /// Number of blocks for which the set has memory.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity() as u64
    }

    /// Number of pages in the set.
    pub const fn len(&self) -> u64 {
        self.count
    }

    /// Whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_are_counted_once(addresses in prop::collection::vec(0u64..1 << 26, 0..500), high: u64) {
            let mut pages = PageSet::default();
            let mut plain = BTreeSet::new();
            for address in addresses.into_iter().chain([high, u64::MAX]) {
                pages.insert(address);
                plain.insert(address / 4096);
                prop_assert_eq!(pages.len(), plain.len() as u64);
            }
        }
    }
}
