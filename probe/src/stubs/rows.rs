//! Finds the rows of unwind tables for stubs while they are made.

use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};

use super::switch::{SAVED, SAVED_BYTES};

/// Which original instruction a stub's instruction stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The one at this address.
    At(u64),
    /// The first instruction of the row is a copy of the one at this address, and the others lie at the same
    /// distance from theirs.
    Copy(u64),
    /// The one to which `r11` leads, as [`super::switch`]'s shared code has it. So many of its registers are on the stack.
    Shared(u8),
}

/// What holds from one address of a stub up to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first instruction.
    pub at: u64,
    /// The original instruction.
    pub origin: Origin,
    /// Bytes by which the stack pointer is lower than the original instruction would find it.
    pub lowered: u32,
}

impl Row {
    /// Whether a row says the same as this one would if it went on up to there.
    pub(crate) fn goes_on(&self, next: &Row) -> bool {
        let distance = |row: &Row| match row.origin {
            Origin::Copy(old) => Some(old.wrapping_sub(row.at)),
            _ => None,
        };
        let same = match (distance(self), distance(next)) {
            (None, None) => self.origin == next.origin,
            (one, other) => one == other,
        };
        same && self.lowered == next.lowered
    }
}

/// Registers that the shared code pushes, in order: the number of each in DWARF, and how many words below the stack
/// pointer of the tag it lies; `None` for those that no function expects to keep. `r11` leads back to the tag.
pub const SHARED_SAVED: [Option<(u8, u32)>; SAVED.len()] = {
    // r11, rax, rcx, rdx, rsi, rdi, r10, rbx, rbp, r12, r13, r14
    let below = (SAVED_BYTES / 8) as u32 + 1;
    let mut slots = [None; SAVED.len()];
    slots[0] = Some((11, below));
    slots[7] = Some((3, below + 7));
    slots[8] = Some((6, below + 8));
    slots[9] = Some((12, below + 9));
    slots[10] = Some((13, below + 10));
    slots[11] = Some((14, below + 11));
    slots
};

/// Where in some code the stack pointer changes: offset behind each such instruction, by how many bytes it is
/// lowered then, and how many registers are on the stack. What branches lead to has the same from both sides.
pub(super) fn lowered(code: &[u8]) -> Vec<(u32, u32, u8)> {
    let mut changes = Vec::new();
    let (mut lowered, mut saved) = (0i64, 0i32);
    for instruction in Decoder::with_ip(64, code, 0, 0) {
        let (by, registers) = change(&instruction);
        if by == 0 {
            continue;
        }
        (lowered, saved) = (lowered + by, saved + registers);
        changes.push((instruction.next_ip() as u32, lowered as u32, saved as u8));
    }
    changes
}

fn change(instruction: &Instruction) -> (i64, i32) {
    let is_register = instruction.op0_kind() == OpKind::Register;
    match instruction.mnemonic() {
        Mnemonic::Push => (8, i32::from(is_register)),
        Mnemonic::Pop => (-8, -1),
        Mnemonic::Pushfq => (8, 0),
        Mnemonic::Popfq => (-8, 0),
        Mnemonic::Lea if instruction.op0_register() == Register::RSP => {
            (-instruction.memory_displacement64().cast_signed(), 0)
        }
        _ => (0, 0),
    }
}

/// Rows in ascending order, without those that say nothing new.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Vec<Row>);

impl Rows {
    pub fn push(&mut self, row: Row) {
        if self.0.last().is_some_and(|last| last.at == row.at) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|last| !last.goes_on(&row)) {
            self.0.push(row);
        }
    }

    /// Code that shares the stack pointer with one original instruction, but for what it pushes.
    pub fn push_tag(&mut self, at: u64, origin: u64, lowered: &[(u32, u32, u8)]) {
        let origin = Origin::At(origin);
        self.push(Row { at, origin, lowered: 0 });
        for (offset, lowered, _) in lowered {
            let at = at.wrapping_add(u64::from(*offset));
            self.push(Row { at, origin, lowered: *lowered });
        }
    }

    /// The code that tags share.
    pub fn push_shared(&mut self, at: u64, code: &[u8]) {
        self.push(Row { at, origin: Origin::Shared(0), lowered: 0 });
        for (offset, lowered, saved) in self::lowered(code) {
            let at = at.wrapping_add(u64::from(offset));
            self.push(Row { at, origin: Origin::Shared(saved), lowered });
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    pub fn as_slice(&self) -> &[Row] {
        &self.0
    }
}
