//! Writes the code of blocks to arenas.

use super::arena::Space;
use super::record::{Body, ExitRecord, Record};
use super::{BlockInfo, Cache, CacheError, CacheMemory, Side};
use crate::block::Block;
use crate::emit::{Emitted, Form, Place, emit};

impl<M: CacheMemory> Cache<M> {
    /// Adds a block that was just decoded, with code of one form. Its exits are linked later.
    pub(super) fn add_block(&mut self, mut block: Block, form: Form) -> Result<(), CacheError> {
        let number = self.blocks.len() as u32 + 1;
        let (body, emitted) = self.write(&mut block, number, form)?;
        let info = BlockInfo {
            start: block.start,
            instructions: block.operations.len() as u16,
            bytes: std::mem::take(&mut block.bytes),
        };
        self.by_address.insert(info.start.0, number);
        self.blocks.push(Record {
            info,
            main: None,
            landing: None,
            next_block: 0,
            is_published: false,
            incoming: Vec::new(),
        });
        self.add_body(number, body, &emitted);
        Ok(())
    }

    /// The code of a block in its main form, which is generated if it is needed for the first time.
    pub(super) fn main_of(&mut self, number: u32) -> Result<Body, CacheError> {
        match self.record_mut(number).main {
            Some(body) => Ok(body),
            None => self.generate(number, Form::Main { joined: false }),
        }
    }

    /// The landing of a block, which is generated if it is needed for the first time.
    pub(super) fn landing_of(&mut self, number: u32) -> Result<Body, CacheError> {
        match self.record_mut(number).landing {
            Some(body) => Ok(body),
            None => self.generate(number, Form::Landing),
        }
    }

    fn generate(&mut self, number: u32, form: Form) -> Result<Body, CacheError> {
        let info = &self.record_mut(number).info;
        let mut block = Block::from_bytes(info.start, &info.bytes)?;
        let (body, emitted) = self.write(&mut block, number, form)?;
        self.add_body(number, body, &emitted);
        Ok(body)
    }

    fn add_body(&mut self, number: u32, body: Body, emitted: &Emitted) {
        let (form, space) = (body.place.form, body.space);
        self.sections.insert(emitted.hot.base, (number, form, Side::Hot));
        self.sections.insert(emitted.cold.base, (number, form, Side::Cold));
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

    /// Generates the code of a block and writes it to an arena that has space for it.
    fn write(
        &mut self,
        block: &mut Block,
        number: u32,
        form: Form,
    ) -> Result<(Body, Emitted), CacheError> {
        let first_exit = self.exits.len() as u32 + 1;
        let mut space = match self.spaces.iter().rposition(|space| space.reaches(block.start)) {
            Some(space) => space,
            None => self.new_space(block.start)?,
        };
        let mut is_new = false;
        loop {
            let Space { hot, cold, around, .. } = &self.spaces[space];
            let place = Place { hot: *hot, cold_limit: *cold & !7, number, first_exit, form };
            let emitted = match emit(block, around, place) {
                Ok(emitted) => emitted,
                Err(untranslatable) => {
                    block.cut(untranslatable)?;
                    continue;
                }
            };
            if self.spaces[space].write(&emitted, &mut self.memory) {
                return Ok((Body { space, place, entries: emitted.entries }, emitted));
            }
            if std::mem::replace(&mut is_new, true) {
                let why = "a block does not fit into an arena".to_owned();
                return Err(CacheError::Arena { near: block.start, why });
            }
            space = self.new_space(block.start)?;
        }
    }
}
