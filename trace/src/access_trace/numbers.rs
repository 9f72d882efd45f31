//! What the numbers in units stand for: blocks, and paths up to some block.

use std::ops::Range;

use hmtt_format::access_trace::{BlockAccesses, Known};

/// Blocks and paths, by number.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    described: Vec<Described>,
    /// For each number from 1 on, what it stands for.
    by_number: Vec<UpTo>,
}

/// A description, with what follows from it.
#[derive(Clone, Debug)]
struct Described {
    block: BlockAccesses,
    /// Of a path: the accesses of each part.
    accesses: Vec<Range<usize>>,
    /// Whether its parts are blocks that were described before it.
    is_valid: bool,
    /// What its accesses represent; `None` if each one represents itself alone.
    represented: Option<Represented>,
}

/// The accesses that each recorded one represents.
#[derive(Clone, Debug)]
pub struct Represented {
    /// Of each recorded access, where its own begin, and where those of the last one end.
    starts: Vec<u16>,
    /// Indexes of their instructions, ascending for each recorded access.
    operations: Vec<u16>,
}

impl Represented {
    /// What the accesses of a block or path represent.
    fn of(block: &BlockAccesses) -> Option<Self> {
        let by = |known| match known {
            Known::Address(index) => Some(usize::from(index)),
            Known::Chunk(_) | Known::Nothing => None,
        };
        let equal = block.others.iter().filter_map(|one| Some((by(one.known)?, one.operation)));
        let mut all: Vec<(usize, u16)> = equal.collect();
        if all.is_empty() {
            return None;
        }
        all.sort();
        let start = |index| all.partition_point(|(by, _)| *by < index) as u16;
        let starts = (0..=block.accesses.len()).map(start).collect();
        Some(Represented { starts, operations: all.into_iter().map(|(_, it)| it).collect() })
    }

    /// How many accesses a recorded one represents, with itself, if only so many instructions were
    /// executed.
    #[inline]
    pub fn up_to(&self, access: usize, executed: usize) -> u16 {
        let [from, to] =
            [access, access + 1].map(|one| self.starts.get(one).copied().unwrap_or(0).into());
        let own: &[u16] = self.operations.get(from..to).unwrap_or_default();
        1 + own.partition_point(|operation| usize::from(*operation) < executed) as u16
    }
}

/// A description up to a part.
#[derive(Clone, Copy, Debug)]
struct UpTo {
    described: u32,
    part: u32,
    /// How many instructions, slots and derived values there are up to its end.
    instructions: u16,
    slots: u16,
    derived: u16,
    /// The number of the whole block or path.
    whole: u32,
}

/// What a number stands for.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'n> {
    /// The block or the whole path.
    pub block: &'n BlockAccesses,
    /// How many instructions and slots there are up to the end of the last block.
    pub instructions: u16,
    /// How many slots there are.
    pub slots: u16,
    /// How many derived values are needed for its accesses, and for what it keeps.
    pub derived: u16,
    /// The number of the whole block or path.
    pub whole: u32,
    /// The number of a block, or of the first block of a path.
    pub first: u32,
    represented: Option<&'n Represented>,
    /// Of a path: the accesses of each of its blocks, up to the last one that is meant.
    accesses: &'n [Range<usize>],
}

impl<'n> Numbered<'n> {
    /// What its accesses represent, if that differs from what they say, because only so many of its
    /// instructions were executed.
    #[inline]
    pub fn represented(&self, executed: usize) -> Option<&'n Represented> {
        self.represented.filter(|_| executed < usize::from(self.block.instructions))
    }
}

/// A block of a path.
#[derive(Clone, Debug)]
pub struct PartOf<'n> {
    /// Its number.
    pub number: u32,
    /// Its own description.
    pub block: &'n BlockAccesses,
    /// Its instructions, among those of the path.
    pub instructions: Range<usize>,
    /// Its accesses, among those of the path.
    pub accesses: Range<usize>,
}

impl Numbers {
    /// Adds the next ones.
    pub fn add(&mut self, blocks: impl IntoIterator<Item = BlockAccesses>) {
        for block in blocks {
            let (index, first) = (self.described.len() as u32, self.by_number.len() as u32 + 1);
            let mut from = 0;
            let accesses = block.parts.iter().map(|part| {
                let start = from;
                from = block.accesses.partition_point(|one| one.operation < part.instructions);
                start..from.max(start)
            });
            let accesses: Vec<Range<usize>> = accesses.collect();
            let mut derived = 0;
            self.by_number.extend((0..block.numbers()).map(|part| {
                let (instructions, slots) = block.up_to(part);
                let own = accesses.get(part).cloned().unwrap_or(0..block.accesses.len());
                derived = block.derived_for(own).max(derived);
                let whole = first + block.numbers() as u32 - 1;
                if first + part as u32 == whole {
                    derived = block.derived_for_kept().max(derived);
                }
                UpTo { described: index, part: part as u32, instructions, slots, derived, whole }
            }));
            let is_block = |number: u32| {
                number < first && self.get(number).is_some_and(|one| one.block.parts.is_empty())
            };
            let is_valid = block.parts.iter().all(|part| is_block(part.block));
            let represented = Represented::of(&block);
            self.described.push(Described { block, accesses, is_valid, represented });
        }
    }

    /// What a number stands for. `None` if nothing is described, or if that is a path with parts
    /// that are no blocks.
    #[inline]
    pub fn get(&self, number: u32) -> Option<Numbered<'_>> {
        let index = (number as usize).checked_sub(1)?;
        let UpTo { described, part, instructions, slots, derived, whole } =
            *self.by_number.get(index)?;
        let Described { block, accesses, is_valid, represented } =
            self.described.get(described as usize)?;
        if !is_valid {
            return None;
        }
        let accesses = accesses.get(..=part as usize).unwrap_or_default();
        let (first, represented) = (number - part, represented.as_ref());
        Some(Numbered { block, instructions, slots, derived, whole, first, represented, accesses })
    }

    /// The blocks of a path, in order; nothing for a block. A part that is no block is left out.
    pub fn parts<'n>(&'n self, numbered: &Numbered<'n>) -> impl Iterator<Item = PartOf<'n>> {
        let Numbered { block: path, accesses, .. } = *numbered;
        let starts = std::iter::once(0).chain(path.parts.iter().map(|part| part.instructions));
        let parts = path.parts.iter().zip(starts).zip(accesses);
        parts.filter_map(|((part, start), accesses)| {
            let block = self.get(part.block).map(|one| one.block);
            let block = block.filter(|block| block.parts.is_empty())?;
            let instructions = usize::from(start)..usize::from(part.instructions);
            Some(PartOf { number: part.block, block, instructions, accesses: accesses.clone() })
        })
    }
}
