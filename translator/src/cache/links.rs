//! Links exits to blocks, and blocks to the lookup table.
//!
//! Each change is one store, so a thread sees the old or the new destination, and both are correct.

use super::record::ExitRecord;
use super::{Cache, CacheMemory};
use crate::emit::ExitKind;
use crate::emit::register::{R11, R15, RCX};
use crate::state::{Flags, Point, Registers, Rip};

impl<M: CacheMemory> Cache<M> {
    /// Links an exit to its target if that is translated.
    pub(super) fn link(&mut self, number: u32) {
        let Some(ExitRecord { exit, space, .. }) = self.exit(number).copied() else { return };
        let ExitKind::Direct { checked } = exit.kind else { return };
        let Some(block) = self.by_address.get(&exit.to.0).copied() else {
            self.waiting.entry(exit.to.0).or_default().push(number);
            return;
        };
        let record = self.record_mut(block);
        let target = if checked { record.checked } else { record.main };
        record.incoming.push(number);
        self.lead(space, exit.displacement, target, self.between(Rip::Address(exit.to)));
    }

    /// Links all exits that wait for a block.
    pub(super) fn link_waiting(&mut self, block: u32) {
        let start = self.record_mut(block).info.start.0;
        for number in self.waiting.remove(&start).unwrap_or_default() {
            self.link(number);
        }
    }

    /// Makes the lookup table lead to a block.
    pub(super) fn publish(&mut self, block: u32) {
        let record = self.record_mut(block);
        if std::mem::replace(&mut record.is_published, true) {
            return;
        }
        let (entry, prefix) = (record.info.start.0 as u16, record.prefix);
        let first = std::mem::replace(&mut self.heads[usize::from(entry)], block);
        self.set_next(block, first);
        self.memory.set_table(entry, hmtt_probe::address::RunAddr(prefix));
    }

    /// Makes a block's prefix lead to the next block with the same entry, or to the stub.
    fn set_next(&mut self, block: u32, next: u32) {
        let target = (next != 0).then(|| self.record_mut(next).prefix);
        let record = self.record_mut(block);
        record.next_block = next;
        let (space, at) = (record.space, record.next);
        let target = target.unwrap_or(self.spaces[space].around.indirect);
        let mut state = self.between(Rip::InRcx);
        let pair = Registers::one(RCX).with(Registers::one(R11));
        state.borrowed = state.borrowed.with(pair);
        self.lead(space, at, target, state);
    }

    /// Replaces the displacement of a jump. `state` is the state at the jump.
    fn lead(&mut self, space: usize, at: u64, target: u64, state: Point) {
        let space = &mut self.spaces[space];
        let found = space.displacement(at, target, &mut self.memory);
        // Without space for an island, the jump asks the controller each time.
        let Some((displacement, island)) = found else { return };
        if let Some(island) = island {
            self.islands.insert(island, state);
        }
        self.memory.link(space.number, space.offset(at), displacement);
    }

    fn between(&self, rip: Rip) -> Point {
        let ring = self.settings.instrument == super::Instrument::Ring;
        let borrowed = if ring { Registers::one(R15) } else { Registers::NONE };
        Point { rip, borrowed, flags: Flags::Live, rcx_is_rip: false, inside: None }
    }

    /// Makes nothing lead to a block any more.
    pub(super) fn detach(&mut self, block: u32) {
        let record = self.record_mut(block);
        let start = record.info.start.0;
        let incoming = std::mem::take(&mut record.incoming);
        let is_published = std::mem::replace(&mut record.is_published, false);
        self.by_address.remove(&start);
        for number in incoming {
            let Some(ExitRecord { exit, space, .. }) = self.exit(number).copied() else { continue };
            let state = self.between(Rip::Address(exit.to));
            self.lead(space, exit.displacement, exit.request, state);
            self.waiting.entry(start).or_default().push(number);
        }
        if is_published {
            self.withdraw(block, start as u16);
        }
    }

    /// Takes a block out of the blocks with the same entry of the lookup table.
    fn withdraw(&mut self, block: u32, entry: u16) {
        let next = self.record_mut(block).next_block;
        let mut before = self.heads[usize::from(entry)];
        if before == block {
            self.heads[usize::from(entry)] = next;
            let space = &self.spaces[self.blocks[block as usize - 1].space];
            let stub = space.around.indirect;
            let target = if next == 0 { stub } else { self.record_mut(next).prefix };
            self.memory.set_table(entry, hmtt_probe::address::RunAddr(target));
            return;
        }
        while before != 0 {
            let after = self.record_mut(before).next_block;
            if after == block {
                self.set_next(before, next);
                return;
            }
            before = after;
        }
    }
}
