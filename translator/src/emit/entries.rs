//! Generates the entries of a block: the prefix, the check of the ring, and the writing of its
//! number.

use hmtt_files::access_trace::SLOT_BYTES;

use super::register::{R11, RCX};
use super::writer::JUMP;
use super::{Emitter, Form, Goal, LOOKUP_REGISTERS, Section, Side};
use crate::layout::ring;
use crate::state::{Point, Registers, Rip};

/// Alignment of the address at which a block is usually entered.
const ALIGNMENT: u64 = 64;
/// `lea rcx, [rcx + r11]`.
const ADD_R11_TO_RCX: [u8; 4] = [0x4a, 0x8d, 0x0c, 0x19];

impl Emitter<'_> {
    /// Generates the entries of the path, and the beginning of its first block.
    pub(super) fn entries(&mut self) {
        self.begin_recording();
        let is_landing = self.place.form == Form::Landing;
        if is_landing {
            self.prefix();
            self.unloaded = LOOKUP_REGISTERS;
        }
        self.checked = self.entry.len();
        if self.around.ring {
            self.check_ring();
        }
        let before_main = u64::from(self.entry.len());
        if self.is_joined() {
            self.hot.base = self.place.hot;
            if self.around.ring {
                self.entry.point(self.before(self.block.start));
                self.jump(Side::Entry, &[0xe9], Goal::Within(Side::Hot, 0));
            }
        } else if is_landing {
            self.entry.base = self.place.hot.next_multiple_of(ALIGNMENT);
            self.hot.base = self.entry.base + before_main;
        } else {
            self.hot.base = (self.place.hot + before_main).next_multiple_of(ALIGNMENT);
            self.entry.base = self.hot.base - before_main;
        }
        self.begin_block();
    }

    /// Continues at the next landing unless `rcx` is the address of the block: subtracts the
    /// address, so that `rcx` is 0 if both are equal.
    fn prefix(&mut self) {
        let own = self.block.start.0;
        let unknown = self.between(Rip::InRcx, LOOKUP_REGISTERS);
        self.entry.point(unknown);
        self.entry.add_to_rcx(own.wrapping_neg());
        // jrcxz over the jump
        self.entry.put(&[0xe3, 5]);
        let mismatch = self.cold.len();
        self.jump(Side::Entry, &[0xe9], Goal::Within(Side::Cold, mismatch));
        self.cold.add_to_rcx(own);
        self.next = self.cold.jump(&[JUMP], Some(unknown));
        self.fix(Side::Cold, self.next, Goal::Address(self.around.indirect));
    }

    /// Continues at the full stub if the pointer into the ring is behind its chunk.
    fn check_ring(&mut self) {
        let start = self.before(self.block.start);
        let rcx = self.between(start.rip, Registers::one(RCX));
        let is_free = self.unloaded.contains(RCX);
        let full = self.cold.len();
        if !is_free {
            self.cold.point(start);
            self.cold.save(RCX);
        }
        let full_saved = self.cold.len();
        self.entry.point(start);
        // The original code may have changed since, to code that reads the flags.
        let may_change = self.block.may_change;
        if !may_change && self.block.operations[0].live_flags.is_empty() {
            // test r15d, mask; je
            self.entry.put(&[0x41, 0xf7, 0xc7]);
            self.entry.put(&ring::PLACE_MASK.to_le_bytes());
            self.dirty_flags = true;
            self.entry.point(self.before(self.block.start));
            self.jump(Side::Entry, &[0x0f, 0x84], Goal::Within(Side::Cold, full));
        } else {
            if !is_free {
                self.entry.save(RCX);
                self.entry.point(start);
            }
            // mov ecx, r15d; bswap ecx; movzx ecx, ch; jrcxz over the jump; jmp over the other
            self.entry.put(&[0x44, 0x89, 0xf9]);
            for code in [&[0x0f, 0xc9][..], &[0x0f, 0xb6, 0xcd], &[0xe3, 2], &[0xeb, 5]] {
                self.entry.point(rcx);
                self.entry.put(code);
            }
            self.entry.point(rcx);
            self.jump(Side::Entry, &[0xe9], Goal::Within(Side::Cold, full_saved));
            if !is_free {
                self.entry.point(rcx);
                self.entry.restore(RCX);
            }
        }
        self.full(rcx);
    }

    /// Generates the cold code that continues at the full stub. `rcx`: the original state as long
    /// as the value of `rcx` is saved.
    fn full(&mut self, rcx: Point) {
        self.cold.point(rcx);
        if self.unloaded.contains(R11) {
            // The stub saves the value of `r11` itself.
            self.cold.restore(R11);
        }
        let all_but_rcx = Point { borrowed: rcx.borrowed.without(Registers::one(R11)), ..rcx };
        // lea rcx, [rip + 5]; jmp full; the record
        self.cold.point(all_but_rcx);
        self.cold.put(&[0x48, 0x8d, 0x0d, 5, 0, 0, 0]);
        self.cold.point(all_but_rcx);
        self.jump(Side::Cold, &[0xe9], Goal::Address(self.around.full));
        self.cold.put(&self.block.start.0.to_le_bytes());
        self.cold.point(self.before(self.block.start));
        let goal = self.place.after_full.map_or(Goal::Within(Side::Hot, 0), Goal::Address);
        self.jump(Side::Cold, &[0xe9], goal);
    }

    /// Writes the number of the path, if this is its last block. Before that, notes which number a
    /// thread that is stopped in this block has not written.
    pub(super) fn begin_block(&mut self) {
        self.check_source();
        if !self.around.ring || self.is_silent() {
        } else if self.is_inner() {
            self.unwritten = Some(self.number_so_far());
        } else {
            let state = self.before(self.block.start);
            let slots = self.recorded.slots.len();
            self.write_number(Side::Hot, self.place.number, slots, state);
            self.unwritten = None;
        }
    }

    /// Writes a number to the ring, and leaves space for slots: `mov dword [r15], number` and `lea
    /// r15, [r15 + 4]`, or more than 4. `state`: the original state before both.
    pub(super) fn write_number(&mut self, side: Side, number: u32, slots: usize, state: Point) {
        let section = self.section(side);
        section.point(state);
        // With slots the number has 8 bytes, so that all slots are aligned.
        let has_slots = self.around.accesses.is_some();
        let opcode = if has_slots { 0x49 } else { 0x41 };
        let section = self.section(side);
        section.put(&[opcode, 0xc7, 0x07]);
        section.put(&number.to_le_bytes());
        section.point(state);
        let bytes = if has_slots { 8 } else { 4 } + SLOT_BYTES * slots;
        let section = self.section(side);
        match i8::try_from(bytes) {
            Ok(short) => section.put(&[0x4d, 0x8d, 0x7f, short as u8]),
            Err(_) => {
                section.put(&[0x4d, 0x8d, 0xbf]);
                section.put(&(bytes as u32).to_le_bytes());
            }
        }
    }
}

impl Section {
    /// Adds a constant to `rcx` without changing flags. May change `r11`.
    pub(super) fn add_to_rcx(&mut self, value: u64) {
        if let Ok(short) = i32::try_from(value as i64) {
            self.put(&[0x48, 0x8d, 0x89]);
            self.put(&short.to_le_bytes());
        } else {
            self.set(R11, value);
            self.put(&ADD_R11_TO_RCX);
        }
    }
}
