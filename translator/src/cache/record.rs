//! What the cache knows of its blocks and exits.

use hmtt_probe::address::RunAddr;

use super::BlockInfo;
use crate::emit::{Entries, Exit, Place};

/// A translated block. It has code of at least one form.
#[derive(Clone, Debug)]
pub struct Record {
    /// What others may know.
    pub info: BlockInfo,
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
