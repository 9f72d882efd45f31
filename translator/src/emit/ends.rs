//! Generates the ends of blocks: transfers out of a block or path.
//!
//! A direct transfer becomes an exit that can be linked. An indirect transfer loads its target to
//! `rcx` and looks it up. A call pushes the original return address. A system call asks the
//! controller first if the lookup table says so for its number.

use hmtt_probe::address::RunAddr;

use super::register::{R11, RAX, RCX, RDX};
use super::{Emitter, ExitKind, Goal, Registers, Side};
use crate::block::{End, Untranslatable};
use crate::layout::{area, lookup};
use crate::state::{Point, Rip};

/// `movzx r11d, cx`; `jmp [r11 * 8 + table]` without the address of the table.
const LOOKUP: [u8; 8] = [0x44, 0x0f, 0xb7, 0xd9, 0x42, 0xff, 0x24, 0xdd];
/// Opcode of `jmp`.
pub(super) const JUMP: [u8; 1] = [0xe9];

impl Emitter<'_> {
    /// Generates the end of the last block of the path.
    pub(super) fn end(&mut self) -> Result<(), Untranslatable> {
        let last = self.block.body_len();
        if last < self.block.operations.len() {
            self.record(last, false)?;
        }
        if !matches!(self.block.end, End::Indirect | End::IndirectCall { .. } | End::Return { .. })
        {
            self.load(last, Registers::ALL);
        }
        let before = self.within(last, Registers::NONE);
        match self.block.end {
            End::Direct { to } | End::FallThrough { next: to } => {
                self.direct(&JUMP, to, self.before(to));
            }
            End::Conditional { to, next } => self.conditional(to, next, before),
            End::Call { to, return_to } => {
                self.hot.point(before);
                self.push(return_to);
                self.direct(&JUMP, to, self.before(to));
            }
            End::Indirect => self.indirect(None)?,
            End::IndirectCall { return_to } => self.indirect(Some(return_to))?,
            End::Return { pop } => self.return_from(pop),
            End::Syscall { next } => self.syscall(next, before),
            End::Untranslatable(Untranslatable { at, .. }) => {
                self.exit(Side::Hot, &JUMP, at, ExitKind::Native, self.before(at));
            }
        }
        Ok(())
    }

    /// A conditional jump becomes two exits: the target, and the next instruction.
    fn conditional(&mut self, to: RunAddr, next: RunAddr, before: Point) {
        let operation = &self.block.operations[self.block.body_len()];
        let instruction = &operation.instruction;
        if instruction.is_jcc_short_or_near() {
            let opcode = [0x0f, 0x80 | condition(self.block.bytes_of(operation))];
            self.direct(&opcode, to, before);
            self.direct(&JUMP, next, self.before(next));
            return;
        }
        // `loop` and `jrcxz` have displacements of one byte, so they jump over the exit to the next
        // instruction.
        let bytes = self.block.bytes_of(operation);
        self.hot.point(before);
        self.hot.put(&bytes[..bytes.len() - 1]);
        let at = self.hot.bytes.len();
        self.hot.put(&[0]);
        self.direct(&JUMP, next, self.before(next));
        self.hot.bytes[at] = (self.hot.bytes.len() - at - 1) as u8;
        self.direct(&JUMP, to, self.before(to));
    }

    /// Pushes a constant, such as an original return address, without using a register.
    pub(super) fn push(&mut self, value: RunAddr) {
        if let Ok(short) = i32::try_from(value.0 as i64) {
            self.hot.put(&[0x68]);
            self.hot.put(&short.to_le_bytes());
            return;
        }
        self.cold.align_constant();
        let constant = Goal::Within(Side::Cold, self.cold.len());
        self.cold.put(&value.0.to_le_bytes());
        self.jump(Side::Hot, &[0xff, 0x35], constant);
    }

    /// Saves `rcx` and `r11` before an indirect transfer. Returns the state before the transfer,
    /// and the state once `rcx` has its target.
    pub(super) fn save_pair(&mut self) -> (Point, Point) {
        let before = self.within(self.block.body_len(), Registers::NONE);
        self.hot.point(before);
        for number in [RCX, R11] {
            if !self.unloaded.contains(number) {
                self.hot.save(number);
                self.hot.point(before);
            }
        }
        (before, self.between(Rip::InRcx, Registers::one(RCX)))
    }

    fn indirect(&mut self, return_to: Option<RunAddr>) -> Result<(), Untranslatable> {
        let after = self.load_target_to_rcx(return_to)?;
        self.look_up(Side::Hot, after);
        Ok(())
    }

    /// Loads `rcx` with the target of an indirect transfer. For a call, also pushes the return
    /// address. Returns the state after that.
    pub(super) fn load_target_to_rcx(
        &mut self,
        return_to: Option<RunAddr>,
    ) -> Result<Point, Untranslatable> {
        let last = self.block.body_len();
        let operation = &self.block.operations[last];
        self.load(last, operation.uses.touched());
        let (before, after) = self.save_pair();
        let loaded = Point { borrowed: before.borrowed.with(Registers::one(RCX)), ..before };
        self.load_target(operation, before, if return_to.is_some() { loaded } else { after })?;
        if let Some(return_to) = return_to {
            self.hot.point(loaded);
            self.push(return_to);
        }
        Ok(after)
    }

    fn return_from(&mut self, pop: u16) {
        let after = self.pop_to_rcx(pop);
        self.look_up(Side::Hot, after);
    }

    /// Pops the return address to `rcx`, and removes `pop` further bytes from the stack. Returns
    /// the state after that.
    pub(super) fn pop_to_rcx(&mut self, pop: u16) -> Point {
        let (_, after) = self.save_pair();
        // pop rcx
        self.hot.put(&[0x59]);
        if pop != 0 {
            // lea rsp, [rsp + pop]
            self.hot.put(&[0x48, 0x8d, 0xa4, 0x24]);
            self.hot.put(&u32::from(pop).to_le_bytes());
        }
        after
    }

    /// Continues at the landing for the original address in `rcx`. `after`: the state before the
    /// lookup.
    pub(super) fn look_up(&mut self, side: Side, after: Point) {
        let table = self.around.table.to_le_bytes();
        let section = self.section(side);
        section.point(after);
        section.put(&LOOKUP[..4]);
        section.point(Point { borrowed: after.borrowed.with(Registers::one(R11)), ..after });
        section.put(&LOOKUP[4..]);
        section.put(&table);
    }

    /// Makes a system call, or asks the controller about it first if the table says so for its
    /// number.
    fn syscall(&mut self, next: RunAddr, before: Point) {
        let borrowed = Point { borrowed: before.borrowed.with(Registers::one(RCX)), ..before };
        self.hot.point(before);
        self.hot.save(RCX);
        self.hot.point(before);
        // movzx ecx, al; movzx ecx, byte [rcx + table]; jrcxz asked
        self.hot.put(&[0x0f, 0xb6, 0xc8]);
        self.hot.point(borrowed);
        self.hot.put(&[0x0f, 0xb6, 0x89]);
        self.hot.put(&(self.around.table + lookup::CALLS as u32).to_le_bytes());
        self.hot.point(borrowed);
        self.hot.put(&[0xe3, 0]);
        let short = self.hot.bytes.len();
        let cached = self.hot.here();
        if self.around.ring {
            self.read_clock(borrowed);
        }
        self.hot.point(borrowed);
        self.hot.put(&[0x0f, 0x05]);
        let has_ring = self.around.ring;
        let after = Point { rcx_is_rip: true, unnoted_call: has_ring, ..self.before(next) };
        self.hot.point(after);
        if has_ring {
            self.note_call(next, after);
        } else {
            self.hot.set(RCX, next.0);
        }
        self.direct(&JUMP, next, self.before(next));
        self.hot.bytes[short - 1] = (self.hot.bytes.len() - short) as u8;
        self.hot.point(borrowed);
        self.hot.restore(RCX);
        let at = RunAddr(next.0.wrapping_sub(2));
        let at = self.block.operations.last().map_or(at, |last| RunAddr(last.instruction.ip()));
        self.exit(Side::Hot, &JUMP, at, ExitKind::Syscall { cached }, before);
    }

    /// Stores the current time and the number of the next system call in the thread area.
    fn read_clock(&mut self, before: Point) {
        let with =
            |registers: Registers| Point { borrowed: before.borrowed.with(registers), ..before };
        let (first, both) =
            (with(Registers::one(RAX)), with(Registers::one(RAX).with(Registers::one(RDX))));
        self.hot.point(before);
        self.hot.save(RAX);
        self.hot.point(first);
        self.hot.save(RDX);
        self.hot.point(both);
        // rdtsc; mov gs:[offset], eax; mov gs:[offset], edx
        self.hot.put(&[0x0f, 0x31]);
        for (register, offset) in [(RAX, area::CALLED_AT), (RDX, area::CALLED_AT + 4)] {
            self.hot.point(both);
            self.hot.store_half(offset, register);
        }
        self.hot.point(both);
        self.hot.restore(RDX);
        self.hot.point(both);
        self.hot.restore(RAX);
        self.hot.point(before);
        self.hot.store_half(area::CALL_NUMBER, RAX);
    }

    /// Continues at the stub that notes the system call from which the thread has just returned.
    fn note_call(&mut self, next: RunAddr, after: Point) {
        // lea rcx, [rip + record]; jmp returned
        let record = self.cold.len();
        self.jump(Side::Hot, &[0x48, 0x8d, 0x0d], Goal::Within(Side::Cold, record));
        self.hot.point(after);
        self.jump(Side::Hot, &JUMP, Goal::Address(self.around.returned));
        let noted = self.hot.len();
        self.cold.put(&next.0.to_le_bytes());
        self.cold.point(self.before(next));
        self.jump(Side::Cold, &JUMP, Goal::Within(Side::Hot, noted));
    }
}

/// The condition of a conditional jump, the lowest 4 bits of its opcode. `bytes`: the instruction,
/// which may have prefixes.
pub(super) fn condition(bytes: &[u8]) -> u8 {
    // The opcode is followed by one byte in the short form, and by four in the near form.
    let short = bytes[bytes.len() - 2];
    let is_near = bytes.len() >= 6 && bytes[bytes.len() - 6] == 0x0f;
    let opcode = if is_near { bytes[bytes.len() - 5] } else { short };
    opcode & 0xf
}
