//! Checks that any file is read as a list of blocks and written back unchanged, or refused.

use hmtt_files::block_list::{ListedBlock, header, parse};

/// Reads a list, and writes it again.
pub fn check(bytes: &[u8]) {
    let Some(blocks) = parse(bytes) else { return };
    let mut again = header(blocks.len() as u32).to_vec();
    blocks.for_each(|block: ListedBlock| again.extend(block.to_bytes()));
    assert_eq!(again, bytes);
}
