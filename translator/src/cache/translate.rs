//! Translates blocks into the cache.

use std::collections::VecDeque;

use hmtt_probe::address::RunAddr;

use super::arena::Space;
use super::record::{ExitRecord, Record};
use super::{ArenaNumber, BlockInfo, Cache, CacheError, CacheMemory, Side};
use crate::block::{Block, End};
use crate::code::CodeBytes;
use crate::emit::{Emitted, Place, emit};

impl<M: CacheMemory> Cache<M> {
    /// Translates the block at an address and, up to a limit, those that direct transfers reach from
    /// it. Returns the number of the first.
    pub(super) fn translate_batch(
        &mut self,
        code: &dyn CodeBytes,
        at: RunAddr,
    ) -> Result<u32, CacheError> {
        let first = self.translate(code, at)?;
        let mut found = VecDeque::from([first.1]);
        let mut left = self.settings.batch.saturating_sub(1);
        while let Some(end) = found.pop_front() {
            for (to, is_return) in successors(&end) {
                if let Some(block) = self.by_address.get(&to.0).copied() {
                    if is_return {
                        self.publish(block);
                    }
                    continue;
                }
                if left == 0 {
                    return Ok(first.0);
                }
                left -= 1;
                // What cannot be translated is found out again by the thread that arrives there.
                if let Ok((block, end)) = self.translate(code, to) {
                    if is_return {
                        self.publish(block);
                    }
                    found.push_back(end);
                }
            }
        }
        Ok(first.0)
    }

    /// Translates one block and links it. Returns its number and how it ends.
    fn translate(&mut self, code: &dyn CodeBytes, at: RunAddr) -> Result<(u32, End), CacheError> {
        let mut block = Block::decode(code, at)?;
        let number = self.blocks.len() as u32 + 1;
        let (space, place, emitted) = self.write(&mut block, number)?;
        let info = BlockInfo {
            start: at,
            instructions: block.operations.len() as u16,
            bytes: std::mem::take(&mut block.bytes),
        };
        self.sections.insert(emitted.hot.base, (number, Side::Hot));
        self.sections.insert(emitted.cold.base, (number, Side::Cold));
        self.blocks.push(Record {
            info,
            space,
            place,
            prefix: emitted.prefix,
            checked: emitted.checked,
            main: emitted.main,
            next: emitted.next,
            next_block: 0,
            is_published: false,
            incoming: Vec::new(),
        });
        self.by_address.insert(at.0, number);
        let exits = emitted.exits.iter().map(|exit| ExitRecord { exit: *exit, space });
        self.exits.extend(exits);
        for exit in 0..emitted.exits.len() as u32 {
            self.link(place.first_exit + exit);
        }
        self.link_waiting(number);
        Ok((number, block.end))
    }

    /// Generates the code of a block and writes it to an arena that has space for it.
    fn write(
        &mut self,
        block: &mut Block,
        number: u32,
    ) -> Result<(usize, Place, Emitted), CacheError> {
        let first_exit = self.exits.len() as u32 + 1;
        let mut space = match self.spaces.iter().rposition(|space| space.reaches(block.start)) {
            Some(space) => space,
            None => self.new_space(block.start)?,
        };
        let mut is_new = false;
        loop {
            let Space { hot, cold, around, .. } = &self.spaces[space];
            let place = Place { hot: *hot, cold_limit: *cold & !7, number, first_exit };
            let emitted = match emit(block, around, place) {
                Ok(emitted) => emitted,
                Err(untranslatable) => {
                    block.cut(untranslatable)?;
                    continue;
                }
            };
            if self.spaces[space].write(&emitted, &mut self.memory) {
                return Ok((space, place, emitted));
            }
            if std::mem::replace(&mut is_new, true) {
                let why = "a block does not fit into an arena".to_owned();
                return Err(CacheError::Arena { near: block.start, why });
            }
            space = self.new_space(block.start)?;
        }
    }

    /// Maps a new arena near an address. Returns its index.
    pub(super) fn new_space(&mut self, near: RunAddr) -> Result<usize, CacheError> {
        let fail = |why: String| CacheError::Arena { near, why };
        let index = self.spaces.len();
        let number = ArenaNumber(index as u32);
        let arena = self.memory.new_arena(near).map_err(fail)?;
        let space = Space::new(number, arena, &self.stubs, &self.settings, &mut self.memory);
        self.spaces.push(space.ok_or_else(|| fail("the arena is too small".to_owned()))?);
        if self.spaces[index].reaches(near) {
            Ok(index)
        } else {
            Err(fail("the arena is too far away".to_owned()))
        }
    }
}

/// Addresses at which the program may continue, and whether it gets there by a return.
fn successors(end: &End) -> impl Iterator<Item = (RunAddr, bool)> + use<> {
    let (one, other) = match *end {
        End::Direct { to } | End::FallThrough { next: to } | End::Syscall { next: to } => {
            (Some((to, false)), None)
        }
        End::Conditional { to, next } => (Some((next, false)), Some((to, false))),
        End::Call { to, return_to } => (Some((to, false)), Some((return_to, true))),
        End::IndirectCall { return_to } => (Some((return_to, true)), None),
        End::Indirect | End::Return { .. } | End::Untranslatable(_) => (None, None),
    };
    one.into_iter().chain(other)
}
