//! Finds the block or path that a number in the recorded units of a thread stands for.
//!
//! A block has one number. A path has one number for each of its blocks. This number stands for the
//! path up to that block. Numbers are assigned in the order of the descriptions:
//!
//! ```text
//! description                      numbers
//! block A                          1
//! block B                          2
//! path of the blocks A, B and A    3: A    4: A, B    5: A, B, A (the whole path)
//! ```

use std::ops::Range;

use hmtt_files::access_trace::{BlockAccesses, Known};

/// The described blocks and paths, by number.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    described: Vec<Described>,
    /// For each number from 1 on, its description and the part of the path.
    by_number: Vec<UpTo>,
}

/// A description, and values that are computed from it once.
#[derive(Clone, Debug)]
struct Described {
    block: BlockAccesses,
    /// For each part of a path, the range of its accesses. Empty for a block.
    accesses: Vec<Range<usize>>,
    /// Whether all parts of a path are blocks that were described before it.
    is_valid: bool,
    /// The accesses that each recorded access represents; `None` if each represents itself alone.
    represented: Option<Represented>,
}

/// The instructions of the accesses that each recorded access represents.
///
/// Example: there are two recorded accesses, and the first also represents accesses of the
/// instructions 2 and 4. Then `operations` is 2, 4 and `starts` is 0, 2, 2. If only three
/// instructions were executed, the first access represents two accesses: itself, and the access of
/// instruction 2.
#[derive(Clone, Debug)]
pub struct Represented {
    /// For each recorded access, the index of its first entry in `operations`; then the length of
    /// `operations`.
    starts: Vec<u16>,
    /// Indexes of the instructions of the represented accesses, ascending for each recorded access.
    operations: Vec<u16>,
}

impl Represented {
    /// The accesses that the recorded accesses of a block or path represent; `None` if each
    /// represents itself alone.
    fn of(block: &BlockAccesses) -> Option<Self> {
        let by = |known| match known {
            Known::Address(index) => Some(usize::from(index)),
            Known::Chunk(_) | Known::Nothing => None,
        };
        let equal =
            block.others.iter().filter_map(|other| Some((by(other.known)?, other.operation)));
        let mut pairs: Vec<(usize, u16)> = equal.collect();
        if pairs.is_empty() {
            return None;
        }
        pairs.sort();
        let start = |index| pairs.partition_point(|(by, _)| *by < index) as u16;
        let starts = (0..=block.accesses.len()).map(start).collect();
        Some(Represented {
            starts,
            operations: pairs.into_iter().map(|(_, operation)| operation).collect(),
        })
    }

    /// How many accesses a recorded access represents, itself included, if `executed` instructions
    /// were executed.
    #[inline]
    pub fn up_to(&self, access: usize, executed: usize) -> u16 {
        let [from, to] =
            [access, access + 1].map(|index| self.starts.get(index).copied().unwrap_or(0).into());
        let own: &[u16] = self.operations.get(from..to).unwrap_or_default();
        1 + own.partition_point(|operation| usize::from(*operation) < executed) as u16
    }
}

/// The meaning of a number: a description, up to one of its parts.
#[derive(Clone, Copy, Debug)]
struct UpTo {
    /// Index of the description.
    described: u32,
    /// Index of the part; 0 for a block.
    part: u32,
    /// Number of instructions up to the end of the part.
    instructions: u16,
    /// Number of slots up to the end of the part.
    slots: u16,
    /// Number of derived values that are needed up to the end of the part.
    derived: u16,
    /// The number of the whole block or path.
    whole: u32,
}

/// The meaning of a number: a block, or a path up to one of its blocks (the *last block*).
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'n> {
    /// The description of the block or of the whole path.
    pub block: &'n BlockAccesses,
    /// Number of instructions up to the end of the last block.
    pub instructions: u16,
    /// Number of slots up to the end of the last block.
    pub slots: u16,
    /// Number of derived values that the accesses up to the end of the last block need. For a whole
    /// path, the kept values may need further derived values.
    pub derived: u16,
    /// The number of the whole block or path.
    pub whole: u32,
    /// The first number of the description: of a path, the number of the path up to its first
    /// block.
    pub first: u32,
    represented: Option<&'n Represented>,
    /// For each block of a path up to the last block, the range of its accesses. Empty for a block.
    accesses: &'n [Range<usize>],
}

impl<'n> Numbered<'n> {
    /// The accesses that the recorded accesses represent, if fewer than all instructions of the
    /// block or whole path were executed. Otherwise, or if each access represents itself alone,
    /// `None`: then [`Made::represents`](hmtt_files::access_trace::Made::represents) is right.
    #[inline]
    pub fn represented(&self, executed: usize) -> Option<&'n Represented> {
        self.represented.filter(|_| executed < usize::from(self.block.instructions))
    }
}

/// A block of a path.
#[derive(Clone, Debug)]
pub struct PartOf<'n> {
    /// Number of the block.
    pub number: u32,
    /// Description of the block.
    pub block: &'n BlockAccesses,
    /// Indexes of its instructions in the path.
    pub instructions: Range<usize>,
    /// Indexes of its accesses in the path.
    pub accesses: Range<usize>,
}

impl Numbers {
    /// Adds blocks and paths, which get the next numbers.
    pub fn add(&mut self, blocks: impl IntoIterator<Item = BlockAccesses>) {
        for block in blocks {
            let (index, first) = (self.described.len() as u32, self.by_number.len() as u32 + 1);
            let mut from = 0;
            let accesses = block.parts.iter().map(|part| {
                let start = from;
                from =
                    block.accesses.partition_point(|access| access.operation < part.instructions);
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
                number < first && self.get(number).is_some_and(|block| block.block.parts.is_empty())
            };
            let is_valid = block.parts.iter().all(|part| is_block(part.block));
            let represented = Represented::of(&block);
            self.described.push(Described { block, accesses, is_valid, represented });
        }
    }

    /// The block or path that a number stands for. `None` if the number is not described, or if it
    /// stands for a path with a part that is not a block described before the path.
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

    /// The blocks of a path up to the last block, in order. Empty for a block.
    pub fn parts<'n>(&'n self, numbered: &Numbered<'n>) -> impl Iterator<Item = PartOf<'n>> {
        let Numbered { block: path, accesses, .. } = *numbered;
        let starts = std::iter::once(0).chain(path.parts.iter().map(|part| part.instructions));
        let parts = path.parts.iter().zip(starts).zip(accesses);
        parts.filter_map(|((part, start), accesses)| {
            let block = self.get(part.block).map(|numbered| numbered.block);
            let block = block.filter(|block| block.parts.is_empty())?;
            let instructions = usize::from(start)..usize::from(part.instructions);
            Some(PartOf { number: part.block, block, instructions, accesses: accesses.clone() })
        })
    }
}
