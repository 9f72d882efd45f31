//! Encodes and decodes block lists: the blocks of a program file that earlier runs executed.
//! `hmtt monitor` translates them in advance, so that it starts faster.
//!
//! A list is only a hint: a wrong list costs time, but does not change results. All numbers are
//! little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 4 | number of blocks |
//! | 16 | 8 each | the blocks, about in the order in which they were first executed |
//!
//! | bits of a block | |
//! |---|---|
//! | 0 to 61 | offset in the file of its first instruction, in bytes |
//! | 62 | [`DIRECT`]: direct transfers lead to it |
//! | 63 | [`INDIRECT`]: indirect transfers or returns lead to it |

/// First bytes of a list.
pub const MAGIC: [u8; 8] = *b"HMTTBLKS";
/// Version of the format. Lists of other versions are ignored.
pub const VERSION: u32 = 1;
/// Maximum number of blocks of a list.
pub const MOST_BLOCKS: usize = 1 << 18;
/// Bytes before the blocks.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a block.
pub const BLOCK_BYTES: usize = 8;

/// Bit of a block to which direct transfers lead.
pub const DIRECT: u64 = 1 << 62;
/// Bit of a block to which indirect transfers or returns lead.
pub const INDIRECT: u64 = 1 << 63;

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedBlock {
    /// Offset of the block's first instruction in the file, in bytes, below 2^62.
    pub offset: u64,
    /// Whether direct transfers lead to the block.
    pub direct: bool,
    /// Whether indirect transfers or returns lead to the block.
    pub indirect: bool,
}

impl ListedBlock {
    /// Bytes of the block in a list. The two highest bits of the offset are dropped.
    pub fn to_bytes(self) -> [u8; BLOCK_BYTES] {
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let offset = self.offset & !(DIRECT | INDIRECT);
        (offset | bit(self.direct, DIRECT) | bit(self.indirect, INDIRECT)).to_le_bytes()
    }

    /// The block with these bytes.
    pub fn from_bytes(bytes: [u8; BLOCK_BYTES]) -> Self {
        let word = u64::from_le_bytes(bytes);
        ListedBlock {
            offset: word & !(DIRECT | INDIRECT),
            direct: word & DIRECT != 0,
            indirect: word & INDIRECT != 0,
        }
    }
}

/// The header of a list of `blocks` blocks.
pub fn header(blocks: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(&blocks.to_le_bytes());
    header
}

/// The blocks of a list, in its order. `None` if the bytes are no list of this version, if the list
/// is truncated or has more than [`MOST_BLOCKS`].
pub fn parse(bytes: &[u8]) -> Option<impl ExactSizeIterator<Item = ListedBlock> + '_> {
    let (head, blocks) = bytes.split_at_checked(HEADER_BYTES)?;
    let number = u32::from_le_bytes(head[12..].try_into().ok()?);
    let is_whole = blocks.len() == (number as usize).checked_mul(BLOCK_BYTES)?;
    if head != header(number) || !is_whole || number as usize > MOST_BLOCKS {
        return None;
    }
    let blocks = blocks.as_chunks::<BLOCK_BYTES>().0.iter();
    Some(blocks.map(|bytes| ListedBlock::from_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(blocks: &[ListedBlock]) -> Vec<u8> {
        let mut bytes = header(blocks.len() as u32).to_vec();
        blocks.iter().for_each(|block| bytes.extend(block.to_bytes()));
        bytes
    }

    proptest! {
        #[test]
        fn a_list_is_read_as_it_was_written(
            blocks in prop::collection::vec((0..1u64 << 62, any::<bool>(), any::<bool>()), 0..50),
            cut in 1usize..1000,
        ) {
            let blocks: Vec<ListedBlock> = blocks
                .into_iter()
                .map(|(offset, direct, indirect)| ListedBlock { offset, direct, indirect })
                .collect();
            let bytes = list(&blocks);
            prop_assert_eq!(parse(&bytes).unwrap().collect::<Vec<_>>(), blocks);
            let cut = bytes.len().saturating_sub(cut);
            prop_assert!(parse(&bytes[..cut]).is_none());
        }

        #[test]
        fn any_bytes_are_a_list_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut forged = list(&[]);
            forged.extend(&bytes);
            for bytes in [&bytes, &forged] {
                if let Some(blocks) = parse(bytes) {
                    prop_assert_eq!(&list(&blocks.collect::<Vec<_>>()), bytes);
                }
            }
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = list(&[]);
        bytes[8] += 1;
        assert!(parse(&bytes).is_none());
    }
}
