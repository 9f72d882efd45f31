//! Generates the entries of a block: the prefix, the check of the ring, and the writing of its number.

use super::register::{R11, RCX};
use super::{Emitter, Goal, Section, Side};
use crate::layout::ring;
use crate::state::{Registers, Rip};

/// Alignment of the address at which a block is usually entered.
const MAIN_ALIGNMENT: u64 = 32;
/// `lea rcx, [rcx + r11]`.
const ADD_R11_TO_RCX: [u8; 4] = [0x4a, 0x8d, 0x0c, 0x19];

impl Emitter<'_> {
    pub(super) fn entries(&mut self) {
        self.prefix();
        self.checked = self.hot.len();
        if self.around.ring {
            self.check_ring();
        }
        self.main = self.hot.len();
        let before_main = u64::from(self.main);
        let main = (self.place.hot + before_main).next_multiple_of(MAIN_ALIGNMENT);
        self.hot.base = main - before_main;
        if self.around.ring {
            self.push_number();
        }
    }

    /// Compares `rcx` with the address of the block: it is 0 after the address is subtracted.
    fn prefix(&mut self) {
        let pair = Registers::one(RCX).with(Registers::one(R11));
        let own = self.block.start.0;
        let unknown = self.between(Rip::InRcx, pair);
        self.hot.point(unknown);
        self.hot.add_to_rcx(own.wrapping_neg());
        // jrcxz over the jump
        self.hot.put(&[0xe3, 5]);
        let mismatch = self.cold.len();
        self.jump(Side::Hot, &[0xe9], Goal::Within(Side::Cold, mismatch));
        self.cold.add_to_rcx(own);
        self.next = self.cold.jump(&[0xe9], Some(unknown));
        self.fix(Side::Cold, self.next, Goal::Address(self.around.indirect));
        let rip = Rip::Address(self.block.start);
        self.hot.point(self.between(rip, pair));
        self.hot.restore(RCX);
        self.hot.point(self.between(rip, Registers::one(R11)));
        self.hot.restore(R11);
    }

    /// Continues at the full stub if the ring's pointer is behind its chunk.
    fn check_ring(&mut self) {
        let start = self.before(self.block.start);
        let rcx = self.between(start.rip, Registers::one(RCX));
        let full = self.cold.len();
        self.cold.point(start);
        self.cold.save(RCX);
        let full_saved = self.cold.len();
        self.hot.point(start);
        if self.block.operations[0].live_flags.is_empty() {
            // test r15d, mask; je
            self.hot.put(&[0x41, 0xf7, 0xc7]);
            self.hot.put(&ring::PLACE_MASK.to_le_bytes());
            self.dirty_flags = true;
            self.hot.point(self.before(self.block.start));
            self.jump(Side::Hot, &[0x0f, 0x84], Goal::Within(Side::Cold, full));
        } else {
            self.hot.save(RCX);
            self.hot.point(start);
            // mov ecx, r15d; bswap ecx; movzx ecx, ch; jrcxz over the jump; jmp over the other
            self.hot.put(&[0x44, 0x89, 0xf9]);
            for code in [&[0x0f, 0xc9][..], &[0x0f, 0xb6, 0xcd], &[0xe3, 2], &[0xeb, 5]] {
                self.hot.point(rcx);
                self.hot.put(code);
            }
            self.hot.point(rcx);
            self.jump(Side::Hot, &[0xe9], Goal::Within(Side::Cold, full_saved));
            self.hot.point(rcx);
            self.hot.restore(RCX);
        }
        // lea rcx, [rip + 5]; jmp full; the record
        let rcx = self.between(start.rip, Registers::one(RCX));
        self.cold.point(rcx);
        self.cold.put(&[0x48, 0x8d, 0x0d, 5, 0, 0, 0]);
        self.cold.point(rcx);
        self.jump(Side::Cold, &[0xe9], Goal::Address(self.around.full));
        self.cold.put(&self.block.start.0.to_le_bytes());
        self.cold.point(self.before(self.block.start));
        // The number is written where the check ends.
        let main = self.hot.len();
        self.jump(Side::Cold, &[0xe9], Goal::Within(Side::Hot, main));
    }

    /// Adds `mov dword [r15], number` and `lea r15, [r15 + 4]`.
    fn push_number(&mut self) {
        self.hot.point(self.before(self.block.start));
        self.hot.put(&[0x41, 0xc7, 0x07]);
        self.hot.put(&self.place.number.to_le_bytes());
        self.hot.point(self.before(self.block.start));
        self.hot.put(&[0x4d, 0x8d, 0x7f, 4]);
    }
}

impl Section {
    /// Adds a constant to `rcx` without changing flags; may change `r11`.
    fn add_to_rcx(&mut self, value: u64) {
        if let Ok(short) = i32::try_from(value as i64) {
            self.put(&[0x48, 0x8d, 0x89]);
            self.put(&short.to_le_bytes());
        } else {
            self.set(R11, value);
            self.put(&ADD_R11_TO_RCX);
        }
    }
}
