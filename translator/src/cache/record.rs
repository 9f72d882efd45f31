//! What the cache knows of its blocks and exits.

use std::sync::Arc;

use hmtt_probe::address::RunAddr;

use super::BlockInfo;
use crate::emit::{Entries, Exit, Place};
use crate::recorded::Turn;

/// What a number stands for: a translated block, which has code of at least one form, or a path.
#[derive(Clone, Debug)]
pub struct Record {
    /// What others may know of the block; of a path, that of its first block without bytes.
    pub info: BlockInfo,
    /// The path.
    pub path: Option<PathRecord>,
    /// The superblock that is entered instead of this block.
    pub superblock: Option<u32>,
    /// Superblocks that contain the block, and have code in which threads may be.
    pub members_of: Vec<u32>,
    /// Its main form.
    pub main: Option<Body>,
    /// Its landing.
    pub landing: Option<Body>,
    /// The next landing with the same entry of the lookup table, or 0.
    pub next_block: u32,
    /// Whether the lookup table leads to its landing.
    pub is_published: bool,
    /// Exits that are linked to its main form.
    pub incoming: Vec<u32>,
}

/// The code of a block in one form.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Index of its arena.
    pub space: usize,
    /// Place of its code, and its numbers.
    pub place: Place,
    /// Addresses at which it is entered.
    pub entries: Entries,
}

/// A path, or the first part of one.
#[derive(Clone, Debug)]
pub struct PathRecord {
    /// Numbers of all blocks of the whole path.
    pub blocks: Arc<[u32]>,
    /// How many of them belong to this one.
    pub length: usize,
    /// Which execution of the path it is.
    pub turn: Turn,
    /// Of a first path as a whole: number of the repeated one, which has code.
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
    /// Index of its arena.
    pub space: usize,
}
