//! Generates the comparison of a block's original bytes with the bytes that were translated.
//!
//! The comparison is at the start of a block whose code may change without a system call, before
//! the block's number is written. It uses no flags. Its reads are aligned, because the program may
//! have set the flag AC, with which unaligned reads fault (Intel SDM, volume 3, *Alignment Check
//! Exception*). If the bytes have changed, the thread leaves the block for the controller, which
//! translates it again.

use super::register::RCX;
use super::{Emitter, ExitKind, Goal, Registers, Side};

/// Maximum number of bytes that are compared by one instruction.
const WORD: usize = 4;

impl Emitter<'_> {
    /// Compares the original bytes of the block, if they may change.
    pub(super) fn check_source(&mut self) {
        if !self.block.may_change {
            return;
        }
        let (block, unloaded) = (self.block, self.unloaded);
        if !unloaded.contains(RCX) {
            self.hot.point(self.before(block.start));
            self.hot.save(RCX);
        }
        self.unloaded = unloaded.with(Registers::one(RCX));
        let changed = self.cold.len();
        for (at, bytes) in words(block.start.0, &block.bytes) {
            self.compare_source(at, bytes, changed);
        }
        let state = self.before(block.start);
        self.leave_changed();
        self.unloaded = unloaded;
        if !unloaded.contains(RCX) {
            self.hot.point(state);
            self.hot.restore(RCX);
        }
    }

    /// Continues at the offset `changed` of the cold code unless the bytes at an original address
    /// are `bytes`.
    fn compare_source(&mut self, at: u64, bytes: &[u8], changed: u32) {
        let state = self.before(self.block.start);
        self.hot.point(state);
        // movzx ecx, byte [rip + at]; movzx ecx, word [rip + at]; mov ecx, [rip + at]
        let load: &[u8] = match bytes.len() {
            1 => &[0x0f, 0xb6, 0x0d],
            2 => &[0x0f, 0xb7, 0x0d],
            _ => &[0x8b, 0x0d],
        };
        self.jump(Side::Hot, load, Goal::Address(at));
        let expected = bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        // lea ecx, [rcx - expected]; jrcxz over the jump
        self.hot.point(state);
        self.hot.put(&[0x8d, 0x89]);
        self.hot.put(&expected.wrapping_neg().to_le_bytes());
        self.hot.point(state);
        self.hot.put(&[0xe3, 5]);
        self.hot.point(state);
        self.jump(Side::Hot, &[0xe9], Goal::Within(Side::Cold, changed));
    }

    /// Adds the cold code that leaves the block for the controller, after it has loaded the
    /// `unloaded` registers.
    fn leave_changed(&mut self) {
        for register in self.unloaded.iter() {
            self.cold.point(self.before(self.block.start));
            self.cold.restore(register);
            self.unloaded = self.unloaded.without(Registers::one(register));
        }
        let state = self.before(self.block.start);
        self.exit(Side::Cold, &[0xe9], self.block.start, ExitKind::Changed, state);
    }
}

/// Divides bytes into aligned pieces of 1, 2 or 4 bytes, each with its address: 10 bytes at 0x1001
/// become pieces of 1, 2, 4, 2 and 1.
fn words(start: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let (mut at, mut words) = (start, Vec::with_capacity(bytes.len() / WORD + 4));
    while !bytes.is_empty() {
        let fits = |size: &usize| at.is_multiple_of(*size as u64) && *size <= bytes.len();
        let size = [WORD, 2].into_iter().find(fits).unwrap_or(1);
        let (word, rest) = bytes.split_at(size);
        words.push((at, word));
        (at, bytes) = (at.wrapping_add(size as u64), rest);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_and_cover_all_bytes() {
        let sizes = |start, length| -> Vec<usize> {
            let bytes: Vec<u8> = (0..length).collect();
            let words = words(start, &bytes);
            let content: Vec<u8> =
                words.iter().flat_map(|(_, word)| word.iter().copied()).collect();
            assert_eq!(content, bytes);
            assert!(words.iter().all(|(at, word)| at % word.len() as u64 == 0));
            words.iter().map(|(_, word)| word.len()).collect()
        };
        assert_eq!(sizes(0x1000, 8), [4, 4]);
        assert_eq!(sizes(0x1001, 10), [1, 2, 4, 2, 1]);
        assert_eq!(sizes(0x1003, 1), [1]);
        assert_eq!(sizes(0x1002, 3), [2, 1]);
    }
}
