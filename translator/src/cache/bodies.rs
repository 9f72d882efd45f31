//! Generates the code of blocks and paths when it is needed, and writes it to arenas.

use super::arena::Space;
use super::record::{Body, ExitRecord, Record};
use super::{BlockInfo, Cache, CacheError, CacheMemory, Numbered};
use crate::block::{Block, Untranslatable};
use crate::emit::{Emitted, Form, Path, Place, Points, emit};
use crate::recorded::{Recorded, Turn};

/// Superblocks use at most this part of an arena, one half. The rest is left to blocks.
const SUPERBLOCKS_PART: u64 = 2;
/// Size of an arena from which on no further arena is mapped for superblocks, in bytes.
const LARGE: u32 = 128 << 20;

impl<M: CacheMemory> Cache<M> {
    /// Adds a block that was just decoded, with code of one form. Its exits are not linked yet.
    pub(super) fn add_block(&mut self, mut block: Block, form: Form) -> Result<(), CacheError> {
        let number = self.blocks.len() as u32 + 1;
        let blocks = std::slice::from_mut(&mut block);
        let (body, emitted) = self.write(blocks, &[number], number, form)?;
        let info = BlockInfo {
            start: block.start,
            instructions: block.operations.len() as u16,
            bytes: std::mem::take(&mut block.bytes),
            may_change: block.may_change,
            extent: block.extent,
        };
        self.by_address.insert(info.start.0, number);
        self.blocks.push(Record::new(info, None));
        self.add_body(number, body, &emitted);
        Ok(())
    }

    /// Returns the code for direct transfers to a block. If a superblock is entered instead of the
    /// block, returns the code of the superblock. Code that does not exist yet is generated. A
    /// superblock that cannot be generated is undone.
    pub(super) fn main_of(&mut self, block: u32) -> Result<Body, CacheError> {
        self.main_form(block).or_else(|error| {
            let number = self.record_mut(block).superblock.ok_or(error)?;
            self.undo_superblock(number);
            self.main_form(block)
        })
    }

    /// Returns the code for indirect transfers to a block, as [`main_of`](Self::main_of) does for
    /// direct ones.
    pub(super) fn landing_of(&mut self, block: u32) -> Result<Body, CacheError> {
        self.landing_form(block).or_else(|error| {
            let number = self.record_mut(block).superblock.ok_or(error)?;
            self.undo_superblock(number);
            self.landing_form(block)
        })
    }

    /// Returns the main form of a block or of its superblock, without a retry. It is generated if
    /// there is none yet.
    pub(super) fn main_form(&mut self, block: u32) -> Result<Body, CacheError> {
        let number = self.record_mut(block).superblock.unwrap_or(block);
        match self.record_mut(number).main {
            Some(body) => Ok(body),
            None => self.generate(number, Form::Main { joined: false }),
        }
    }

    /// Generates the main form of a number that has none.
    pub(super) fn main_body(&mut self, number: u32) -> Result<Body, CacheError> {
        self.generate(number, Form::Main { joined: false })
    }

    /// Returns the landing of a block or of its superblock, without a retry. It is generated if
    /// there is none yet.
    pub(super) fn landing_form(&mut self, block: u32) -> Result<Body, CacheError> {
        let number = self.record_mut(block).superblock.unwrap_or(block);
        match self.record_mut(number).landing {
            Some(body) => Ok(body),
            None => self.generate(number, Form::Landing),
        }
    }

    /// Generates one form of a number that has no such form.
    fn generate(&mut self, number: u32, form: Form) -> Result<Body, CacheError> {
        let (mut blocks, numbers) = self.decoded(number)?;
        let (body, emitted) = self.write(&mut blocks, &numbers, number, form)?;
        self.add_body(number, body, &emitted);
        Ok(body)
    }

    /// Decodes the blocks that a number stands for from the stored original bytes. Also returns the
    /// numbers of the blocks.
    pub(super) fn decoded(&self, number: u32) -> Result<(Vec<Block>, Vec<u32>), Untranslatable> {
        let record = |number: &u32| &self.blocks[*number as usize - 1];
        let numbers = match &record(&number).path {
            Some(path) => path.blocks[..path.length].to_vec(),
            None => vec![number],
        };
        let blocks = numbers.iter().map(|number| {
            let info = &record(number).info;
            let block = Block::from_code(info.start, &info.bytes, info.may_change)?;
            Ok(Block { extent: info.extent, ..block })
        });
        Ok((blocks.collect::<Result<_, _>>()?, numbers))
    }

    /// Returns the description of the accesses that the code of a number records. For a path, the
    /// result is the description of the whole path, and the index of the last part that the number
    /// covers. `None` if accesses are not recorded. The number is not trusted.
    ///
    /// A path of three blocks may have the numbers 7, 8 and 9: for 8 the result is the description
    /// of 9, and part 1.
    pub fn recorded(&self, number: u32) -> Option<(Recorded, usize)> {
        let choice = self.settings.instrument.choice()?;
        let (whole, part) = match self.number(number)? {
            Numbered::Block(_) => (number, 0),
            Numbered::Path { blocks, length } => {
                (number + (blocks.len() - length) as u32, length - 1)
            }
        };
        let (blocks, numbers) = self.decoded(whole).ok()?;
        let recorded = if whole == number && self.block(number).is_some() {
            Recorded::new(&blocks, &choice)
        } else {
            Recorded::of_path(&blocks, &numbers, &choice, self.turn(whole))
        };
        Some((recorded, part))
    }

    /// Returns the execution of a path that a number stands for; [`Turn::Any`] for a block.
    pub(super) fn turn(&self, number: u32) -> Turn {
        let record = self.blocks.get((number as usize).wrapping_sub(1));
        record.and_then(|record| record.path.as_ref()).map_or(Turn::Any, |path| path.turn)
    }

    /// Enters code that was written to an arena in the tables. The exits of the code, and the exits
    /// that waited for the code, are added to the exits that must be linked.
    fn add_body(&mut self, number: u32, body: Body, emitted: &Emitted) {
        let (form, space) = (body.place.form, body.space);
        self.spaces[space].note_sections(number, form, emitted);
        let first = self.exits.len() as u32 + 1;
        self.exits.extend(emitted.exits.iter().map(|exit| ExitRecord { exit: *exit, space }));
        self.unlinked.extend(first..first + emitted.exits.len() as u32);
        let record = self.record_mut(number);
        match form {
            Form::Main { .. } => {
                record.main = Some(body);
                let start = record.info.start.0;
                self.unlinked.extend(self.waiting.remove(&start).unwrap_or_default());
            }
            Form::Landing => record.landing = Some(body),
        }
    }

    /// Generates the code of a block or path, and writes it to an arena that has space for it. A
    /// new arena is mapped if needed. A new block is cut before an instruction that cannot be
    /// moved.
    fn write(
        &mut self,
        blocks: &mut [Block],
        numbers: &[u32],
        number: u32,
        form: Form,
    ) -> Result<(Body, Emitted), CacheError> {
        let is_new_block = number as usize > self.blocks.len();
        let first_exit = self.exits.len() as u32 + 1;
        let near = blocks[0].start;
        let turn = self.turn(number);
        let first = match turn {
            Turn::Repeated(first) => self.record_mut(first).main,
            Turn::Any | Turn::First => None,
        };
        let after_full = first.map(|body| body.entries.main);
        let mut space = match self.spaces.iter().rposition(|space| space.reaches(near)) {
            Some(space) => space,
            None => self.new_space(near)?,
        };
        let mut is_new = false;
        loop {
            if first.is_some_and(|first| first.space != space) {
                let why = "a repeated path is in the arena of the first one".to_owned();
                return Err(CacheError::Arena { near, why });
            }
            let Space { hot, cold, around, .. } = &self.spaces[space];
            let is_superblock = blocks.len() > 1 && form != Form::Landing;
            if is_superblock && self.spaces[space].is_full_by(SUPERBLOCKS_PART) {
                // A further arena is larger.
                if self.spaces[space].arena.bytes < LARGE && !std::mem::replace(&mut is_new, true) {
                    space = self.new_space(near)?;
                    continue;
                }
                let why = "superblocks leave one half of each arena to blocks".to_owned();
                return Err(CacheError::Arena { near, why });
            }
            let (hot, cold_limit) = (*hot, *cold & !7);
            let place = Place { hot, cold_limit, number, first_exit, form, turn, after_full };
            let emitted = match (
                emit(Path { blocks, numbers }, around, place, Points::Omitted),
                &mut *blocks,
            ) {
                (Ok(emitted), _) => emitted,
                // Only a new block can be cut. Both forms of an existing block must record the same
                // accesses.
                (Err(untranslatable), [block]) if is_new_block => {
                    block.cut(untranslatable)?;
                    continue;
                }
                (Err(untranslatable), _) => return Err(untranslatable.into()),
            };
            if self.spaces[space].write(&emitted, &mut self.memory) {
                return Ok((Body { space, place, entries: emitted.entries }, emitted));
            }
            if std::mem::replace(&mut is_new, true) {
                let why = "a block does not fit into an arena".to_owned();
                return Err(CacheError::Arena { near, why });
            }
            space = self.new_space(near)?;
        }
    }
}
