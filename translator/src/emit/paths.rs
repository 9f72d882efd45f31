//! Generates the transfers between the blocks of a path.
//!
//! Along the path, a direct transfer has no cost. A conditional transfer is a conditional jump that
//! is usually not taken. An indirect transfer is a comparison with the expected target. All other
//! transfers leave the path in cold code, which writes the number of the blocks that were executed.
//!
//! If code of a path changes, a thread in the path must not execute the old code of later blocks.
//! So between two blocks of different pages there is an instruction that does nothing. One store
//! replaces this instruction with a jump out of the path. Changes are seen page by page. A thread
//! that executes code of a page while it is changed may execute the rest of the path in that page
//! as it was.
//!
//! After an indirect transfer the values of `rcx` and `r11` are in the thread area, as in a
//! landing.

use hmtt_probe::address::RunAddr;

use super::ends::{JUMP, condition};
use super::{Emitter, ExitKind, FALL_THROUGH, Goal, LOOKUP_REGISTERS, Side, is_same_page};
use crate::block::{Block, End, Untranslatable, Why};
use crate::state::{Point, Registers, Rip};

/// Whether all code of two blocks is in one page.
fn are_in_one_page(block: &Block, other: &Block) -> bool {
    let last = |block: &Block| block.limit().wrapping_sub(1);
    [last(block), other.start, last(other)].iter().all(|at| is_same_page(block.start, *at))
}

impl<'a> Emitter<'a> {
    /// Generates the transfer to the next block of the path, and the beginning of that block.
    pub(super) fn join(&mut self, next: &'a Block) -> Result<(), Untranslatable> {
        let last = self.block.body_len();
        // If no operation ends the block, all of its slots are stored already.
        if last < self.block.operations.len() {
            self.record(last, false)?;
        }
        match self.block.end {
            End::Direct { .. } | End::FallThrough { .. } => {}
            End::Conditional { to, next: other } => self.join_conditional(next.start, to, other)?,
            End::Call { return_to, .. } => {
                self.hot.point(self.within(last, Registers::NONE));
                self.push(return_to);
            }
            End::Indirect => {
                let after = self.load_target_to_rcx(None)?;
                self.compare(next.start, after);
            }
            End::IndirectCall { return_to } => {
                let after = self.load_target_to_rcx(Some(return_to))?;
                self.compare(next.start, after);
            }
            End::Return { pop } => {
                let after = self.pop_to_rcx(pop);
                self.compare(next.start, after);
            }
            End::Syscall { .. } | End::Untranslatable(_) => return Err(self.no_path()),
        }
        if !are_in_one_page(self.block, next) {
            self.leave(next.start);
        }
        self.before += self.block.operations.len();
        self.position += 1;
        self.block = next;
        self.begin_block();
        Ok(())
    }

    /// The error for a block that cannot be followed by another one in a path.
    fn no_path(&self) -> Untranslatable {
        Untranslatable { at: self.block.start, why: Why::Transfer }
    }

    /// Number of the blocks of the path up to this one.
    pub(super) fn number_so_far(&self) -> u32 {
        self.place.number - (self.path.blocks.len() - 1 - self.position) as u32
    }

    /// Leaves the path unless a conditional jump leads to the next block. `start`: the next block.
    /// `to` and `other`: where the jump leads if it is taken, and if not.
    fn join_conditional(
        &mut self,
        start: RunAddr,
        to: RunAddr,
        other: RunAddr,
    ) -> Result<(), Untranslatable> {
        let last = self.block.body_len();
        let operation = &self.block.operations[last];
        if !operation.instruction.is_jcc_short_or_near() {
            return Err(self.no_path());
        }
        let condition = condition(self.block.bytes_of(operation));
        let (leaves, target) =
            if start == other { (condition, to) } else { (condition ^ 1, other) };
        self.hot.point(self.within(last, Registers::NONE));
        let cold = Goal::Within(Side::Cold, self.cold.len());
        self.jump(Side::Hot, &[0x0f, 0x80 | leaves], cold);
        self.side_exit(target, ExitKind::Direct { checked: self.around.ring });
        Ok(())
    }

    /// Adds a placeholder in front of the next block: an instruction that does nothing. Also adds
    /// the cold code to which a jump in its place leads.
    fn leave(&mut self, next: RunAddr) {
        let before = self.before(next);
        let at = self.hot.jump(&JUMP, Some(before));
        self.hot.bytes.truncate(at as usize - 1);
        self.hot.put(&FALL_THROUGH);
        self.leaves.push((at, self.cold.len()));
        self.side_exit(next, ExitKind::Left);
    }

    /// Adds cold code that leaves the path after the blocks up to this one. `to`: original address
    /// at which the program continues.
    fn side_exit(&mut self, to: RunAddr, kind: ExitKind) {
        let (unloaded, unwritten) = (self.unloaded, self.unwritten);
        for register in unloaded.iter() {
            self.cold.point(self.before(to));
            self.cold.restore(register);
            self.unloaded = self.unloaded.without(Registers::one(register));
        }
        self.write_so_far(self.before(to));
        self.exit(Side::Cold, &JUMP, to, kind, self.before(to));
        (self.unloaded, self.unwritten) = (unloaded, unwritten);
    }

    /// Adds cold code that writes the number of the blocks up to this one. `state`: the original
    /// state before it.
    fn write_so_far(&mut self, state: Point) {
        if self.around.ring && !self.is_silent() {
            let slots = usize::from(self.stored);
            self.write_number(Side::Cold, self.number_so_far(), slots, state);
            self.unwritten = None;
        }
    }

    /// Leaves the path unless the target in `rcx` is the next block. `start`: the next block.
    /// `after`: the state before the comparison.
    fn compare(&mut self, start: RunAddr, after: Point) {
        self.hot.point(Point { borrowed: after.borrowed.with(LOOKUP_REGISTERS), ..after });
        self.hot.add_to_rcx(start.0.wrapping_neg());
        // jrcxz over the jump
        self.hot.put(&[0xe3, 5]);
        let cold = Goal::Within(Side::Cold, self.cold.len());
        self.jump(Side::Hot, &[0xe9], cold);
        self.cold.add_to_rcx(start.0);
        let unwritten = self.unwritten;
        self.write_so_far(self.between(Rip::InRcx, LOOKUP_REGISTERS));
        self.look_up(Side::Cold, self.between(Rip::InRcx, LOOKUP_REGISTERS));
        self.unwritten = unwritten;
        self.unloaded = LOOKUP_REGISTERS;
    }
}
