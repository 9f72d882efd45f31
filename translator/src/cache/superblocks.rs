//! Builds and undoes superblocks: code of several blocks one after the other, which is entered
//! instead of the first block.
//!
//! For example, the blocks of a hot loop become one superblock. Its first block keeps its number,
//! and the lookup table and exits lead to the superblock instead.

use std::sync::Arc;

use hmtt_files::access_trace::{MOST_ACCESSES, MOST_PARTS};
use hmtt_probe::address::RunAddr;

use super::record::{Body, PathRecord, Record};
use super::{BlockInfo, Cache, CacheError, CacheMemory};
use crate::block::{Block, End, Untranslatable, Why};
use crate::emit::Leave;
use crate::extent::Extent;
use crate::recorded::{Recorded, Silence, Turn};

/// Maximum number of blocks of a superblock.
const MAX_BLOCKS: usize = MOST_PARTS;

/// Whether the second block can follow the first one in a superblock.
fn leads_to(block: &Block, next: &BlockInfo) -> bool {
    match block.end {
        End::Direct { to } | End::Call { to, .. } | End::FallThrough { next: to } => {
            to == next.start
        }
        End::Conditional { to, next: other } => {
            let operation = &block.operations[block.body_len()];
            let is_short_or_near = operation.instruction.is_jcc_short_or_near();
            is_short_or_near && (next.start == to || next.start == other)
        }
        End::Indirect | End::IndirectCall { .. } | End::Return { .. } => true,
        End::Syscall { .. } | End::Untranslatable(_) => false,
    }
}

impl<M: CacheMemory> Cache<M> {
    /// Builds a superblock from blocks, by their numbers, and enters it instead of the first one
    /// from now on. Returns the number of the whole path. The numbers before it stand for its first
    /// blocks: with three blocks and the result 9, 7 is the first block and 8 the first two.
    ///
    /// The superblock may have fewer blocks. It ends at a block that cannot be followed by the next
    /// one. It ends before a block that is too far away, that may change without a system call, or
    /// with which it would record too many accesses.
    ///
    /// # Errors
    /// Fewer than two blocks are left, one of the blocks is not in use any more, or there is no
    /// memory.
    pub fn add_superblock(&mut self, blocks: &[u32]) -> Result<u32, CacheError> {
        let infos: Option<Vec<&BlockInfo>> =
            blocks.iter().map(|number| self.block_in_use(*number)).collect();
        let head = blocks.first().copied().unwrap_or(0);
        let start = self.block(head).map_or(RunAddr(0), |info| info.start);
        let refused = || Untranslatable { at: start, why: Why::Transfer };
        let infos =
            infos.filter(|all| (2..=MAX_BLOCKS).contains(&all.len())).ok_or_else(refused)?;
        let decode = |info: &BlockInfo| {
            let block = Block::from_bytes(info.start, &info.bytes)?;
            Ok::<_, Untranslatable>(Block { extent: info.extent, ..block })
        };
        let mut path = vec![decode(infos[0])?];
        for pair in infos.windows(2) {
            let may_change = pair.iter().any(|one| one.may_change);
            if may_change || !path.last().is_some_and(|last| leads_to(last, pair[1])) {
                break;
            }
            path.push(decode(pair[1])?);
        }
        let mut length = path.len();
        if let Some(choice) = self.settings.instrument.choice() {
            let fits = |length: &usize| {
                let accesses = Recorded::new(&path[..*length], &choice).accesses;
                accesses.is_possible() && accesses.all() <= MOST_ACCESSES
            };
            length = (2..=length).rev().find(fits).unwrap_or(0);
        }
        if length < 2 {
            return Err(refused().into());
        }
        let (path, number) = self.enter_path(&blocks[..length])?;
        self.add_member(&path, number);
        if self.turn(number) == Turn::First {
            self.add_repeated(&path, number);
        }
        Ok(number)
    }

    /// Notes in each block that it is in a superblock. `number`: the number of its whole path.
    fn add_member(&mut self, blocks: &[u32], number: u32) {
        let mut members = blocks.to_vec();
        members.sort_unstable();
        members.dedup();
        for block in members {
            self.record_mut(block).members_of.push(number);
        }
    }

    /// Whether a path leads back to its start, and has fewer slots when it is repeated.
    fn may_repeat(&self, blocks: &[u32]) -> bool {
        let Some(choice) = self.settings.instrument.choice() else { return false };
        let head = &self.blocks[blocks[0] as usize - 1].info;
        let decoded: Result<Vec<Block>, Untranslatable> =
            blocks.iter().map(|number| Ok(self.decoded(*number)?.0.swap_remove(0))).collect();
        let Ok(path) = decoded else { return false };
        let leads_back = path.last().is_some_and(|last| {
            last.may_be_repeated_from() && leads_to(last, head) && !head.may_change
        });
        leads_back && path.len() > 1 && Recorded::saved_by_repeating(&path, &choice) > 0
    }

    /// Adds the repeated path for a first path. From now on the ends of both paths lead to the
    /// repeated path. If there is no memory for it, they lead to the first path. `first`: number of
    /// the first path as a whole.
    fn add_repeated(&mut self, blocks: &Arc<[u32]>, first: u32) {
        let before = self.blocks.len();
        self.push_path(blocks, Turn::Repeated(first));
        let number = self.last_number();
        if self.main_body(number).is_err() {
            self.blocks.truncate(before);
            return;
        }
        self.add_member(blocks, number);
        if let Some(path) = &mut self.record_mut(first).path {
            path.repeated = Some(number);
        }
        self.lead_again(blocks[0]);
    }

    /// The code of the repeated path for a first path, if there is any.
    pub(super) fn repeated_body(&self, first: u32) -> Option<Body> {
        let path = self.blocks.get((first as usize).wrapping_sub(1))?.path.as_ref()?;
        self.blocks[path.repeated? as usize - 1].main
    }

    /// Adds the numbers of a path to the table, one for each block.
    fn push_path(&mut self, blocks: &Arc<[u32]>, turn: Turn) {
        let start = self.blocks[blocks[0] as usize - 1].info.start;
        for length in 1..=blocks.len() {
            let (bytes, may_change) = (Box::default(), false);
            let extent = Extent::Chosen;
            let info = BlockInfo { start, bytes, instructions: 0, may_change, extent };
            let path = PathRecord { blocks: Arc::clone(blocks), length, turn, repeated: None };
            self.blocks.push(Record::new(info, Some(path)));
        }
    }

    /// Replaces a block without recorded accesses by a copy that does not write its number, unless
    /// all blocks are to write their numbers. The copy is a superblock of one block. It has a
    /// number, which it never writes.
    ///
    /// # Errors
    /// The block has accesses that are recorded, is not in use any more, or is in use by a
    /// superblock; or there is no memory.
    pub fn add_silent(&mut self, block: u32) -> Result<(), CacheError> {
        let start = self.block(block).map_or(RunAddr(0), |info| info.start);
        let refused = || Untranslatable { at: start, why: Why::Transfer };
        let info = self.block_in_use(block).ok_or_else(refused)?;
        let choice = self.settings.instrument.choice().filter(|_| !info.may_change);
        let choice =
            choice.filter(|one| one.silence == Silence::Superblocks).ok_or_else(refused)?;
        let (blocks, _) = self.decoded(block)?;
        let is_in_superblock = self.blocks[block as usize - 1].superblock.is_some();
        if is_in_superblock || !Recorded::new(&blocks, &choice).accesses.accesses.is_empty() {
            return Err(refused().into());
        }
        let (_, number) = self.enter_path(&[block])?;
        self.record_mut(block).members_of.push(number);
        Ok(())
    }

    /// Adds a path, and enters it instead of its first block. Returns its blocks and its number. If
    /// a block cannot be generated there, the path ends before it.
    fn enter_path(&mut self, blocks: &[u32]) -> Result<(Arc<[u32]>, u32), CacheError> {
        let (head, before) = (blocks[0], self.blocks.len());
        let path: Arc<[u32]> = blocks.into();
        let turn = if self.may_repeat(blocks) { Turn::First } else { Turn::Any };
        self.push_path(&path, turn);
        let number = self.last_number();
        let Err(error) = self.enter_instead(head, Some(number)) else { return Ok((path, number)) };
        if self.record_mut(number).main.is_some() {
            return Err(error);
        }
        // No code with these numbers was written.
        self.blocks.truncate(before);
        let CacheError::Untranslatable(Untranslatable { at, .. }) = error else {
            return Err(error);
        };
        let contains = |block: &u32| {
            let record = &self.blocks[*block as usize - 1];
            (record.info.start..record.limit()).contains(&at)
        };
        match path.iter().position(contains) {
            Some(length) if length > 1 => self.enter_path(&path[..length]),
            _ => Err(error),
        }
    }

    /// Enters the first block of a superblock again instead of the superblock. `number`: the number
    /// of the whole path. Nothing happens if the superblock is not entered.
    pub fn undo_superblock(&mut self, number: u32) {
        let record = self.blocks.get((number as usize).wrapping_sub(1));
        let Some(path) = record.and_then(|record| record.path.as_ref()) else { return };
        let head = path.blocks[0];
        if self.record_mut(head).superblock == Some(number) {
            // Without memory for the block's own code, its exits ask the controller.
            let _ = self.enter_instead(head, None);
        }
    }

    /// Whether a superblock is entered. `number`: the number of the whole path.
    pub fn is_superblock_in_use(&self, number: u32) -> bool {
        let record = self.blocks.get((number as usize).wrapping_sub(1));
        let path = record.and_then(|record| record.path.as_ref());
        path.is_some_and(|path| self.blocks[path.blocks[0] as usize - 1].superblock == Some(number))
    }

    /// Undoes all superblocks that contain a block. Threads in one of them leave it at the end of
    /// the block that they execute.
    pub(super) fn leave_superblocks_with(&mut self, block: u32) {
        for number in self.record_mut(block).members_of.clone() {
            self.undo_superblock(number);
            let record = self.record_mut(number);
            for body in [record.main, record.landing].into_iter().flatten() {
                self.leave_between_blocks(number, &body);
            }
            let path = self.record_mut(number).path.as_ref();
            let blocks = path.map_or_else(Arc::default, |path| Arc::clone(&path.blocks));
            for block in blocks.iter() {
                self.record_mut(*block).members_of.retain(|other| *other != number);
            }
        }
    }

    /// Replaces the instructions that do nothing between the blocks of a superblock with jumps out
    /// of it.
    fn leave_between_blocks(&mut self, number: u32, body: &Body) {
        let Some(emitted) = self.emitted_again(number, body) else { return };
        for Leave { displacement, to } in emitted.leaves {
            // The displacement and its target are in one arena.
            let distance = to.wrapping_sub(displacement + 4) as i32;
            self.write_jump(body.space, (displacement, true), distance);
        }
    }

    /// The block with a number if it is in use: exits and tables may lead to it.
    fn block_in_use(&self, number: u32) -> Option<&BlockInfo> {
        let info = self.block(number)?;
        (self.by_address.get(&info.start.0) == Some(&number)).then_some(info)
    }

    /// Makes exits and tables lead to a superblock instead of a block, or with `None` to the block
    /// itself again.
    fn enter_instead(&mut self, block: u32, superblock: Option<u32>) -> Result<(), CacheError> {
        let record = self.record_mut(block);
        let (is_published, start) = (record.is_published, record.info.start.0);
        let before = std::mem::replace(&mut record.superblock, superblock);
        let mut generated = self.main_form(block).map(drop);
        if is_published {
            generated = generated.and_then(|()| self.landing_form(block).map(drop));
        }
        if let Err(error) = generated {
            if superblock.is_some() {
                self.record_mut(block).superblock = before;
                return Err(error);
            }
            if self.record_mut(block).landing.is_none() && is_published {
                self.record_mut(block).is_published = false;
                self.withdraw(block, start as u16);
            }
        }
        self.lead_again(block);
        Ok(())
    }
}
