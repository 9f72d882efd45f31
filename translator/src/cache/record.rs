//! Defines the entries of the cache's tables: one for each block, path and exit.

use std::sync::Arc;

use hmtt_probe::address::RunAddr;

use super::BlockInfo;
use crate::emit::{Entries, Exit, Place};
use crate::recorded::Turn;

/// A block or path of the cache, by its number. A block has code of at least one form.
#[derive(Clone, Debug)]
pub struct Record {
    /// Description of the block for code outside of the cache. For a path: the start of its first
    /// block, and no bytes.
    pub info: BlockInfo,
    /// The path; `None` for a block.
    pub path: Option<PathRecord>,
    /// Number of the superblock that is entered instead of this block.
    pub superblock: Option<u32>,
    /// Numbers of the superblocks with code that contain the block. Threads may be in that code.
    pub members_of: Vec<u32>,
    /// Its code for direct transfers.
    pub main: Option<Body>,
    /// Its code for indirect transfers.
    pub landing: Option<Body>,
    /// Number of the next block in the chain of blocks with the same entry of the lookup table; 0
    /// at the end of the chain.
    pub next_block: u32,
    /// Whether the lookup table leads to the landing of the block.
    pub is_published: bool,
    /// Numbers of the exits that lead to the block or to its superblock.
    pub incoming: Vec<u32>,
}

/// The code of a block in one form.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Index of the arena that contains it.
    pub space: usize,
    /// Where the code is, and the numbers for which it was generated.
    pub place: Place,
    /// Addresses at which it is entered.
    pub entries: Entries,
}

/// A path, or its first blocks.
#[derive(Clone, Debug)]
pub struct PathRecord {
    /// Numbers of all blocks of the whole path.
    pub blocks: Arc<[u32]>,
    /// Number of these blocks, from the first one on, for which the record's own number stands.
    pub length: usize,
    /// The execution of the path for which the code is generated.
    pub turn: Turn,
    /// For a first path as a whole: number of its repeated path, which has code.
    pub repeated: Option<u32>,
}

impl Record {
    /// A block or path without code.
    pub fn new(info: BlockInfo, path: Option<PathRecord>) -> Self {
        Record {
            info,
            path,
            superblock: None,
            members_of: Vec::new(),
            main: None,
            landing: None,
            next_block: 0,
            is_published: false,
            incoming: Vec::new(),
        }
    }

    /// Address after its original bytes.
    pub fn limit(&self) -> RunAddr {
        self.info.start.wrapping_add(self.info.bytes.len() as u64)
    }
}

/// An exit of a block.
#[derive(Clone, Copy, Debug)]
pub struct ExitRecord {
    /// The exit.
    pub exit: Exit,
    /// Index of the arena that contains it.
    pub space: usize,
}
