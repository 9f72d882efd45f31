//! Compares the touches of two files by page number, in blocks of the same length.

use std::collections::BTreeMap;

use hmtt::analysis::distribution::AddressDistribution;

use super::SIDES;
use crate::accesses::report::chart::{Content, Unit};
use crate::accesses::report::numbers::text;

/// Touches of both files, by the memory and the address of a block.
type Blocks = BTreeMap<(u64, u64), [u64; 2]>;

/// Adds up the touches of both files in blocks of `block_bytes`. The blocks of the files themselves
/// may not be longer.
fn in_blocks(files: [&AddressDistribution; 2], block_bytes: u64) -> Blocks {
    let mut blocks = Blocks::new();
    for (side, file) in files.into_iter().enumerate() {
        for block in &file.blocks {
            let place = (block.source, block.address & !(block_bytes - 1));
            let touches = &mut blocks.entry(place).or_default()[side];
            *touches = touches.saturating_add(block.touches);
        }
    }
    blocks
}

/// Doubles the length of blocks until at most `most` blocks are touched. Returns the length and the
/// blocks. Example: if one file has blocks of 4 KiB and the other has blocks of 16 KiB, the
/// returned blocks have at least 16 KiB. If there are more memories than `most`, the blocks get the
/// greatest length, 2^63 bytes.
fn blocks(files: [&AddressDistribution; 2], most: usize) -> (u64, Blocks) {
    let mut block_bytes = files[0].block_bytes.max(files[1].block_bytes).max(1);
    loop {
        let blocks = in_blocks(files, block_bytes);
        match block_bytes.checked_mul(2) {
            Some(longer) if blocks.len() > most => block_bytes = longer,
            _ => return (block_bytes, blocks),
        }
    }
}

/// The bars of both files: for each block, the part of each file's touches. Also returns the length
/// of a block in words.
pub fn bars(files: [&AddressDistribution; 2], touches: [u64; 2], most: usize) -> (Content, String) {
    let (block_bytes, blocks) = blocks(files, most);
    let has_sources = blocks.keys().any(|(source, _)| *source > 1);
    let block = text(Unit::Bytes, block_bytes as f64);
    let part = |side: usize, count: u64| count as f64 / touches[side].max(1) as f64;
    let words = |((source, address), counts): (&(u64, u64), &[u64; 2])| {
        let source = if has_sources { format!("source {source}, ") } else { String::new() };
        let parts = [0, 1]
            .map(|side| format!("{} {}", SIDES[side], text(Unit::Share, part(side, counts[side]))));
        let address = format!("{address:#x}");
        let words = format!("{source}{block} from {address} on: {}", parts.join(", "));
        (address, words)
    };
    let words = blocks.iter().map(words).collect();
    let values =
        [0, 1].map(|side| blocks.values().map(|counts| part(side, counts[side])).collect());
    (Content::bars(words, None, SIDES.map(str::to_owned).to_vec(), values.to_vec()), block)
}

#[cfg(test)]
mod tests {
    use hmtt::analysis::distribution::AddressBlock;

    use super::*;

    fn file(block_bytes: u64, blocks: &[(u64, u64, u64)]) -> AddressDistribution {
        let block =
            |&(source, address, touches)| AddressBlock { source, address, pages: 1, touches };
        AddressDistribution { block_bytes, blocks: blocks.iter().map(block).collect() }
    }

    #[test]
    fn blocks_of_two_files_have_one_length() {
        let file_a = file(0x1000, &[(1, 0x1000, 3), (1, 0x3000, 4), (1, 0x9000, 5)]);
        let file_b = file(0x4000, &[(1, 0, 7), (2, 0xc000, 9)]);
        let (block_bytes, joined) = blocks([&file_a, &file_b], 4);
        let expected = [((1, 0), [7, 7]), ((1, 0x8000), [5, 0]), ((2, 0xc000), [0, 9])];
        assert_eq!((block_bytes, joined), (0x4000, Blocks::from(expected)));
        let (block_bytes, joined) = blocks([&file_a, &file_b], 2);
        assert_eq!(block_bytes, 0x10000);
        assert_eq!(joined, Blocks::from([((1, 0), [12, 7]), ((2, 0), [0, 9])]));
        // More memories than blocks.
        assert_eq!(blocks([&file_a, &file_b], 1), (1 << 63, joined));
    }

    #[test]
    fn forged_files_have_blocks() {
        let file_a = file(1 << 63, &[(1, 1 << 63, u64::MAX), (1, 0, 1)]);
        assert_eq!(blocks([&file_a, &file(0, &[(1, 1 << 63, 2)])], 1).1.len(), 2);
    }
}
