//! Links exits to blocks, and blocks to the lookup table.
//!
//! Landings of addresses with the same low 16 bits share an entry of the lookup table, and form a
//! chain. The table leads to the prefix of the first landing. A prefix that does not match the
//! target leads to the next landing, and the last one to the stub for indirect misses. A block in a
//! chain is *published*.
//!
//! Each change is one store, so a thread sees the old or the new destination, and both are correct.

use hmtt_probe::address::RunAddr;

use super::record::{Body, ExitRecord};
use super::{Cache, CacheError, CacheMemory};
use crate::emit::register::R15;
use crate::emit::{Entries, Exit, ExitKind, FALL_THROUGH, JUMP, LOOKUP_REGISTERS};
use crate::state::{Point, Registers, Rip};

impl<M: CacheMemory> Cache<M> {
    /// Links the exits that are not linked yet. This may generate the main form of a block that had
    /// a landing only.
    pub(super) fn link_all(&mut self) {
        while let Some(number) = self.unlinked.pop() {
            self.link(number);
        }
    }

    /// Makes an exit lead to its target if the target is translated. Otherwise the exit waits for
    /// it.
    fn link(&mut self, number: u32) {
        let Some(ExitRecord { exit, space, .. }) = self.exit(number).copied() else { return };
        let (checked, first) = match exit.kind {
            ExitKind::Direct { checked } => (checked, None),
            ExitKind::Again { first } => (true, Some(first)),
            _ => return,
        };
        let Some(block) = self.by_address.get(&exit.to.0).copied() else {
            self.waiting.entry(exit.to.0).or_default().push(number);
            return;
        };
        let state = self.between(Rip::Address(exit.to));
        // Without memory for the target, the exit asks the controller each time.
        let Ok(Body { entries, .. }) = self.main_of(block) else {
            return self.lead_exit(space, &exit, exit.request, state);
        };
        let record = self.record_mut(block);
        record.incoming.push(number);
        let superblock = record.superblock;
        let is_checked = checked || superblock.is_some();
        let repeated = first.filter(|first| superblock == Some(*first));
        let target = match repeated.and_then(|first| self.repeated_body(first)) {
            Some(body) => body.entries.checked,
            None if is_checked => entries.checked,
            None => entries.main,
        };
        if exit.is_last && target == exit.displacement + 4 {
            let space = &self.spaces[space];
            let at = space.offset(exit.displacement) - 1;
            self.memory.replace(space.number, at, &FALL_THROUGH);
            return;
        }
        self.lead_exit(space, &exit, target, state);
    }

    /// Makes the lookup table lead to a block. Returns the landing that is entered.
    pub(super) fn publish(&mut self, block: u32) -> Result<Body, CacheError> {
        let landing = self.landing_of(block)?;
        let record = self.record_mut(block);
        if std::mem::replace(&mut record.is_published, true) {
            return Ok(landing);
        }
        let (entry, prefix) = (record.info.start.0 as u16, landing.entries.prefix);
        let first = std::mem::replace(&mut self.heads[usize::from(entry)], block);
        self.set_next(block, first);
        self.memory.set_table(entry, RunAddr(prefix));
        Ok(landing)
    }

    /// Address at which a lookup continues for a block: its prefix, or the stub for indirect misses
    /// of an arena if `block` is 0 or has no landing.
    fn prefix_or_stub(&self, block: u32, space: usize) -> u64 {
        let landing = self.current_landing(block);
        landing.map_or(self.spaces[space].around.indirect, |landing| landing.entries.prefix)
    }

    /// The landing that is entered for a block: its own, or the one of its superblock.
    fn current_landing(&self, block: u32) -> Option<Body> {
        let record = &self.blocks[block.checked_sub(1)? as usize];
        match record.superblock {
            Some(number) => self.blocks[number as usize - 1].landing,
            None => record.landing,
        }
    }

    /// Makes a block's prefix lead to the next block with the same entry of the lookup table, or to
    /// the stub if `next` is 0.
    fn set_next(&mut self, block: u32, next: u32) {
        self.record_mut(block).next_block = next;
        let Some(Body { space, entries: Entries { next: at, .. }, .. }) =
            self.current_landing(block)
        else {
            return;
        };
        let target = self.prefix_or_stub(next, space);
        let mut state = self.between(Rip::InRcx);
        state.borrowed = state.borrowed.with(LOOKUP_REGISTERS);
        let otherwise = self.spaces[space].around.indirect;
        self.lead(space, (at, true), [target, otherwise], state);
    }

    /// Makes the jump of an exit lead to an address. `state`: the original state at the jump.
    fn lead_exit(&mut self, space: usize, exit: &Exit, target: u64, state: Point) {
        self.lead(space, (exit.displacement, exit.is_last), [target, exit.request], state);
    }

    /// Makes a jump lead to an address. `at`: address of its displacement, and whether its opcode
    /// is one byte. `to`: the address, and a second address in the same arena. The second one is
    /// correct too, and is used if there is no space for an island. `state`: the original state at
    /// the jump.
    fn lead(&mut self, index: usize, at: (u64, bool), to: [u64; 2], state: Point) {
        let ((at, is_short), [target, otherwise]) = (at, to);
        let space = &mut self.spaces[index];
        let route = space.displacement(at, target, &mut self.memory);
        // Without space for an island, the jump leads to a request to the controller.
        let route = route.or_else(|| space.displacement(at, otherwise, &mut self.memory));
        let Some((displacement, island)) = route else { return };
        if let Some(island) = island {
            self.islands.insert(island, state);
        }
        self.write_jump(index, (at, is_short), displacement);
    }

    /// Replaces a jump. `at`: address of its displacement, and whether its opcode is one byte.
    pub(super) fn write_jump(&mut self, space: usize, at: (u64, bool), displacement: i32) {
        let ((at, is_short), space) = (at, &self.spaces[space]);
        let [first, second, third, fourth] = displacement.to_le_bytes();
        let jump = [JUMP, first, second, third, fourth];
        let (from, bytes) = if is_short { (1, &jump[..]) } else { (0, &jump[1..]) };
        self.memory.replace(space.number, space.offset(at) - from, bytes);
    }

    /// The state of a thread between blocks.
    fn between(&self, rip: Rip) -> Point {
        let ring = self.settings.instrument.has_ring();
        let borrowed = if ring { Registers::one(R15) } else { Registers::NONE };
        Point { borrowed, ..Point::at(rip) }
    }

    /// Takes a block out of use. Exits that led to it ask the controller again, and the lookup
    /// table no longer leads to it.
    pub(super) fn detach(&mut self, block: u32) {
        let record = self.record_mut(block);
        let start = record.info.start.0;
        let incoming = std::mem::take(&mut record.incoming);
        let is_published = std::mem::replace(&mut record.is_published, false);
        self.by_address.remove(&start);
        for number in incoming {
            let Some(ExitRecord { exit, space, .. }) = self.exit(number).copied() else { continue };
            let state = self.between(Rip::Address(exit.to));
            self.lead_exit(space, &exit, exit.request, state);
            self.waiting.entry(start).or_default().push(number);
        }
        if is_published {
            self.withdraw(block, start as u16);
        }
    }

    /// Makes all exits and the lookup table lead to the code that is now entered for a block: its
    /// own, or a superblock's. That code must exist.
    pub(super) fn lead_again(&mut self, block: u32) {
        let record = self.record_mut(block);
        let (entry, is_published) = (record.info.start.0 as u16, record.is_published);
        let (next, incoming) = (record.next_block, std::mem::take(&mut record.incoming));
        if is_published {
            self.set_next(block, next);
            match self.before_in_chain(block, entry) {
                Some(before) => self.set_next(before, block),
                None => self.memory.set_table(entry, RunAddr(self.prefix_or_stub(block, 0))),
            }
        }
        self.unlinked.extend(incoming);
        self.link_all();
    }

    /// The published block whose prefix leads to a block in the chain of an entry. `None` if the
    /// block is the first one, to which the table leads. The block must be in the chain.
    fn before_in_chain(&mut self, block: u32, entry: u16) -> Option<u32> {
        let mut before = Some(self.heads[usize::from(entry)]).filter(|first| *first != block)?;
        loop {
            match self.record_mut(before).next_block {
                next if next == block => return Some(before),
                next => before = next,
            }
        }
    }

    /// Takes a block out of the chain of blocks with one entry of the lookup table.
    pub(super) fn withdraw(&mut self, block: u32, entry: u16) {
        let next = self.record_mut(block).next_block;
        match self.before_in_chain(block, entry) {
            Some(before) => self.set_next(before, next),
            None => {
                self.heads[usize::from(entry)] = next;
                let target = self.prefix_or_stub(next, 0);
                self.memory.set_table(entry, RunAddr(target));
            }
        }
    }
}
