//! Generates the transfers between the blocks of a path.
//!
//! A transfer along the path costs nothing if it is direct, a conditional jump that is usually not taken if it is
//! conditional, and a comparison of its target if it is indirect. All others leave the path in cold code, which writes the
//! number of the blocks that were executed.
//!
//! After an indirect transfer the values of `rcx` and `r11` are in the thread area, as in a landing.

use hmtt_probe::address::RunAddr;

use super::ends::{JUMP, condition};
use super::{Emitter, ExitKind, Goal, LOOKUP_REGISTERS, Side};
use crate::block::{Block, End, Untranslatable, Why};
use crate::state::{Point, Registers, Rip};

impl<'a> Emitter<'a> {
    /// Generates the transfer to the next block of the path, and the beginning of that.
    pub(super) fn join(&mut self, next: &'a Block) -> Result<(), Untranslatable> {
        let last = self.block.body_len();
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
        self.position += 1;
        self.block = next;
        self.begin_block();
        Ok(())
    }

    fn no_path(&self) -> Untranslatable {
        Untranslatable { at: self.block.start, why: Why::Transfer }
    }

    /// Number of the blocks of the path up to this one.
    pub(super) fn number_so_far(&self) -> u32 {
        self.place.number - (self.path.blocks.len() - 1 - self.position) as u32
    }

    /// Leaves the path unless a conditional jump leads to the next block.
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
        let taken = condition(self.block.bytes_of(operation));
        let (leaves, target) = if start == other { (taken, to) } else { (taken ^ 1, other) };
        self.hot.point(self.within(last, Registers::NONE));
        let cold = Goal::Within(Side::Cold, self.cold.len());
        self.jump(Side::Hot, &[0x0f, 0x80 | leaves], cold);
        let (unloaded, unwritten) = (self.unloaded, self.unwritten);
        for register in unloaded.iter() {
            self.cold.point(self.before(target));
            self.cold.restore(register);
            self.unloaded = self.unloaded.without(Registers::one(register));
        }
        self.write_so_far(self.before(target));
        let checked = self.around.ring;
        self.exit(Side::Cold, &JUMP, target, ExitKind::Direct { checked }, self.before(target));
        (self.unloaded, self.unwritten) = (unloaded, unwritten);
        Ok(())
    }

    /// Adds cold code that writes the number of the blocks up to this one.
    fn write_so_far(&mut self, state: Point) {
        if self.around.ring {
            self.write_number(Side::Cold, self.number_so_far(), state);
            self.unwritten = None;
        }
    }

    /// Leaves the path unless the target in `rcx` is the next block. `after`: the state before the comparison.
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
