//! Computes the cumulative distribution of touches over pages: the share of all touches that the
//! hottest pages have.

use std::cmp::Reverse;

use serde::Serialize;

use super::PAGE_LOG2;
use super::page_counts::{PageCount, PageCounts};
use super::pages::{Pages, hexadecimal};

/// The touches of a number of hottest pages, and their share of all touches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HotShare {
    /// Number of the hottest pages, of 4 KiB each.
    pub pages: u64,
    /// Touches of these pages.
    pub touches: u64,
    /// Share of all touches that these pages have, from 0 to 1.
    pub touch_share: f64,
}

/// The shares of increasing numbers of hottest pages. The first number is 1, each further number is
/// about 1 + 1/`steps` times the number before it, and the last number is the number of all pages.
pub fn distribution(counted_pages: &Pages, steps: u64) -> Vec<HotShare> {
    let counts = counted_pages.counts().iter().flat_map(PageCounts::iter);
    let mut touches: Vec<u64> = counts.map(|page: PageCount| page.touches()).collect();
    touches.sort_unstable_by_key(|touches| Reverse(*touches));
    let total = touches.iter().fold(0u64, |sum, more| sum.saturating_add(*more));
    let (last, mut next, mut sum) = (touches.len() as u64, 1, 0u64);
    let mut shares = Vec::new();
    for (touches, pages) in touches.into_iter().zip(1..) {
        sum = sum.saturating_add(touches);
        if pages >= next || pages == last {
            shares.push(HotShare { pages, touches: sum, touch_share: sum as f64 / total as f64 });
            next = pages + (pages / steps.max(1)).max(1);
        }
    }
    shares
}

/// Touches of the pages in a block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AddressBlock {
    /// Number of the memory, from 1.
    pub source: u64,
    /// Address of the first byte.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// Pages of 4 KiB that were touched.
    pub pages: u64,
    /// Touches of these pages.
    pub touches: u64,
}

/// The touches of pages by address: in blocks of addresses, in the order of memories and addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressDistribution {
    /// Bytes of a block: a power of two, at least a page.
    pub block_bytes: u64,
    /// Blocks that were touched.
    pub blocks: Vec<AddressBlock>,
}

/// The distribution by address. Blocks have the smallest size at which at most `most` blocks are
/// touched, or the largest possible size.
pub fn by_address(counted_pages: &Pages, most: usize) -> AddressDistribution {
    let with_source = |(counts, source): (&PageCounts, u64)| {
        counts.iter().map(move |page| (source, page.page, page.touches())).collect::<Vec<_>>()
    };
    let mut pages: Vec<_> = counted_pages.counts().iter().zip(1..).flat_map(with_source).collect();
    pages.sort_unstable();
    let log2 = block_log2(&pages, most);
    let mut blocks: Vec<AddressBlock> = Vec::new();
    for (source, page, touches) in pages {
        let address = page >> log2 << log2 << PAGE_LOG2;
        match blocks.last_mut() {
            Some(last) if (last.source, last.address) == (source, address) => {
                last.pages += 1;
                last.touches = last.touches.saturating_add(touches);
            }
            _ => blocks.push(AddressBlock { source, address, pages: 1, touches }),
        }
    }
    AddressDistribution { block_bytes: 1 << (log2 + PAGE_LOG2), blocks }
}

/// log2 of the smallest number of pages of a block with which at most `most` blocks are touched.
/// `pages`: the memory, the number and the touches of each page, in order.
fn block_log2(pages: &[(u64, u64, u64)], most: usize) -> u32 {
    // Element n: how many pages are in another block than the page before, if blocks have 2^n
    // pages.
    let mut borders = [0; (u64::BITS - PAGE_LOG2) as usize];
    for pair in pages.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let bits = (u64::BITS - (pair[0].1 ^ pair[1].1).leading_zeros()) as usize;
        borders.iter_mut().take(bits).for_each(|count| *count += 1);
    }
    let memories = pages.chunk_by(|page, next| page.0 == next.0).count();
    let fits = |count: &usize| memories + count <= most;
    borders.iter().position(fits).unwrap_or(borders.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Batch, PageRun};

    #[test]
    fn blocks_grow_until_they_are_few() {
        let mut pages = Pages::new(1);
        pages.add(&Batch::new(&[0x1000, 0x2000, 0x2040, 0x9000], &[false; 4]));
        let mut other = Pages::new(1);
        other.page_run(&PageRun { address: 0x1000, reads: 5, ..PageRun::default() });
        pages.merge(other);
        let blocks = |most| {
            let distribution = by_address(&pages, most);
            let block =
                |block: &AddressBlock| (block.source, block.address, block.pages, block.touches);
            (distribution.block_bytes, distribution.blocks.iter().map(block).collect::<Vec<_>>())
        };
        let each = [(1, 0x1000, 1, 1), (1, 0x2000, 1, 2), (1, 0x9000, 1, 1), (2, 0x1000, 1, 5)];
        assert_eq!(blocks(4), (4096, each.to_vec()));
        assert_eq!(blocks(3), (4 << 12, vec![(1, 0, 2, 3), (1, 0x8000, 1, 1), (2, 0, 1, 5)]));
        let whole = vec![(1, 0, 3, 4), (2, 0, 1, 5)];
        assert_eq!((blocks(2), blocks(1).1), ((16 << 12, whole.clone()), whole));
        assert_eq!(by_address(&Pages::new(1), 4).blocks, []);
    }
}
