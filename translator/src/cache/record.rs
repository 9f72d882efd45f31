//! What the cache knows of its blocks and exits.

use hmtt_probe::address::RunAddr;

use super::BlockInfo;
use crate::emit::{Exit, Place};

/// A translated block.
#[derive(Clone, Debug)]
pub struct Record {
    /// What others may know.
    pub info: BlockInfo,
    /// Index of its arena.
    pub space: usize,
    /// Place of its code, and its numbers.
    pub place: Place,
    /// Address of its prefix.
    pub prefix: u64,
    /// Address at which the ring is checked.
    pub checked: u64,
    /// Address without a check.
    pub main: u64,
    /// Address of the displacement of the jump to the next block with the same entry of the table.
    pub next: u64,
    /// That block, or 0.
    pub next_block: u32,
    /// Whether the lookup table leads to it.
    pub is_published: bool,
    /// Exits that are linked to it.
    pub incoming: Vec<u32>,
}

impl Record {
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
