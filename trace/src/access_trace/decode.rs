//! Decodes the accesses of a file.

use std::collections::HashMap;
use std::io::Read;

use hmtt_format::access_trace::{BlockAccesses, CUT, FS_BASE, Made, SLOT_BYTES, START, parse_note};

use super::reader::{ChunkReader, Content, ReadError};
use super::visitor::{Executed, Visitor};

/// An access of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAccess {
    /// Number of the thread in the system.
    pub thread: u32,
    /// The access.
    pub made: Made,
}

/// What is known at the end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Executed blocks.
    pub blocks: u64,
    /// Accesses, with each element of a string instruction counted.
    pub accesses: u64,
    /// Accesses among them whose addresses are not known.
    pub unknown: u64,
    /// Words of 4 bytes that threads have dropped.
    pub dropped: u64,
    /// Threads whose last units are missing.
    pub cut_threads: u64,
    /// Chunks from some place in which nothing could be read: their units name no block, which the program itself must have
    /// written.
    pub invalid_chunks: u64,
    /// Whether the file ends before its last chunk.
    pub is_cut: bool,
}

impl Ending {
    /// Whether accesses are missing.
    pub fn has_loss(&self) -> bool {
        self.dropped > 0 || self.cut_threads > 0 || self.invalid_chunks > 0 || self.is_cut
    }
}

/// Passes what a thread has done on, and counts it.
struct Counted<'v, V> {
    thread: u32,
    ending: &'v mut Ending,
    visitor: &'v mut V,
}

impl<V: Visitor> Counted<'_, V> {
    fn block(&mut self, number: u32, block: &BlockAccesses, instructions: usize) {
        self.ending.blocks += 1;
        self.visitor.block(Executed { thread: self.thread, number, block, instructions });
    }

    fn access(&mut self, made: Made) {
        self.ending.accesses = self.ending.accesses.saturating_add(made.elements);
        self.ending.unknown += u64::from(made.address.is_none());
        self.visitor.access(ThreadAccess { thread: self.thread, made });
    }
}

/// Reads a file to its end. A closure receives the accesses of each thread in order, a [`Visitor`] the executed blocks too.
///
/// # Errors
/// [`ReadError`] if it is another file, is damaged or cannot be read.
pub fn read(input: impl Read, mut visitor: impl Visitor) -> Result<Ending, ReadError> {
    let mut chunks = ChunkReader::new(input)?;
    let (mut blocks, mut bases) = (Vec::new(), HashMap::new());
    let mut ending = Ending { is_cut: true, ..Ending::default() };
    while let Some(content) = chunks.next_chunk()? {
        match content {
            Content::Blocks(more) => blocks.extend(more),
            Content::Units { thread, bytes } => {
                let fs = bases.entry(thread).or_insert(0);
                let visitor = &mut visitor;
                let mut counted = Counted { thread, ending: &mut ending, visitor };
                if !decode(&bytes, &blocks, fs, &mut counted) {
                    ending.invalid_chunks += 1;
                }
            }
            Content::End { dropped, cut_threads } => {
                (ending.dropped, ending.cut_threads, ending.is_cut) = (dropped, cut_threads, false);
                break;
            }
        }
    }
    Ok(ending)
}

/// Decodes units of a thread. `fs`: the base of that segment. Returns whether all units are valid; what follows an invalid one
/// is left out.
fn decode<V: Visitor>(
    units: &[u8],
    blocks: &[BlockAccesses],
    fs: &mut u64,
    counted: &mut Counted<'_, V>,
) -> bool {
    let (units, rest) = units.as_chunks::<SLOT_BYTES>();
    let mut at = 0;
    let mut slots = Vec::new();
    while let Some(unit) = units.get(at) {
        let unit = u64::from_le_bytes(*unit);
        at += 1;
        match parse_note(unit as u32) {
            Some((FS_BASE, _)) => {
                let Some(base) = units.get(at) else { return false };
                *fs = u64::from_le_bytes(*base);
                at += 1;
            }
            // A block that is cut is followed by this note, which was read with it.
            Some((START.., _)) => {}
            None => {
                let number = unit as u32;
                let index = (number as usize).checked_sub(1);
                let Some(block) = index.and_then(|index| blocks.get(index)) else { return false };
                let Some(values) = units.get(at..at + usize::from(block.slots)) else {
                    return false;
                };
                at += values.len();
                slots.clear();
                slots.extend(values.iter().map(|value| u64::from_le_bytes(*value)));
                let next = units.get(at).map(|unit| u64::from_le_bytes(*unit) as u32);
                let instructions = match next.and_then(parse_note) {
                    Some((CUT, instructions)) => instructions as usize,
                    _ => usize::from(block.instructions),
                };
                counted.block(number, block, instructions);
                block.made(instructions, &slots, *fs, |made| counted.access(made));
            }
        }
    }
    rest.is_empty()
}
