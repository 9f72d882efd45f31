//! Collects the rows of the stubs' unwind table while the stubs are generated.

use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};

use super::chunk_switch::{SAVED, SAVED_BYTES};

/// The original instruction that an instruction of a stub stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The instruction at this address.
    At(u64),
    /// The row's first instruction is a copy of the one at this address, and each further one is a
    /// copy of the one at the same distance.
    Copy(u64),
    /// The instruction that `r11` leads to, in the code that tags share. The number is that of
    /// registers on the stack.
    Shared(u8),
}

/// Unwind information for the instructions from an address up to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first instruction.
    pub at: u64,
    /// The original instruction, whose state this is.
    pub origin: Origin,
    /// Bytes by which the stack pointer is lower than the original instruction would find it.
    pub lowered: u32,
}

impl Row {
    /// Whether the information of this row also holds at a later row's address, so that the later
    /// row is redundant.
    pub(crate) fn continues_as(&self, next: &Row) -> bool {
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

/// Registers that the shared code pushes, in order: DWARF number, and offset below the stack
/// pointer of the tag in words. `None` for registers that functions need not preserve. `r11` holds
/// the address in the tag.
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

/// Changes of the stack pointer in some code: offset after the changing instruction, by how many
/// bytes the stack pointer is lowered from there on, and how many registers are on the stack. Both
/// paths to a branch target agree.
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

/// By how many bytes an instruction lowers the stack pointer, and how many registers it pushes.
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

/// Rows in ascending order, without redundant ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Vec<Row>);

impl Rows {
    /// Adds a row, unless the previous one also holds for it. A row at the address of the previous
    /// one replaces that.
    pub fn push(&mut self, row: Row) {
        if self.0.last().is_some_and(|last| last.at == row.at) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|last| !last.continues_as(&row)) {
            self.0.push(row);
        }
    }

    /// Adds the rows of a tag, which all stand for one original instruction.
    pub fn push_tag(&mut self, at: u64, origin: u64, lowered: &[(u32, u32, u8)]) {
        let origin = Origin::At(origin);
        self.push(Row { at, origin, lowered: 0 });
        for (offset, lowered, _) in lowered {
            let at = at.wrapping_add(u64::from(*offset));
            self.push(Row { at, origin, lowered: *lowered });
        }
    }

    /// Adds the rows of the code that tags share.
    pub fn push_shared(&mut self, at: u64, code: &[u8]) {
        self.push(Row { at, origin: Origin::Shared(0), lowered: 0 });
        for (offset, lowered, saved) in self::lowered(code) {
            let at = at.wrapping_add(u64::from(offset));
            self.push(Row { at, origin: Origin::Shared(saved), lowered });
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes all but the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    /// All rows, by address.
    pub fn as_slice(&self) -> &[Row] {
        &self.0
    }
}
