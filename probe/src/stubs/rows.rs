//! Collects the rows of the stubs' unwind table while the stubs are generated.

use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};

use super::chunk_switch::{SAVED, SAVED_BYTES};

/// The original instruction whose unwind information holds at an instruction of a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The instruction at this address, for the whole row.
    At(u64),
    /// Copies of consecutive instructions. The row's first instruction is a copy of the instruction
    /// at this address. An instruction 5 bytes later in the stub is a copy of the instruction 5
    /// bytes behind this address.
    Copy(u64),
    /// The instruction whose address in a tag is in `r11`, for the code that tags share. The number
    /// counts the registers that this code has pushed so far.
    Shared(u8),
}

/// Unwind information for the instructions from an address up to the start of the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first instruction.
    pub at: u64,
    /// The original instruction with the same state.
    pub origin: Origin,
    /// Number of bytes by which the stack pointer is lower than at the original instruction.
    pub lowered: u32,
}

impl Row {
    /// Whether the next row is redundant, because this row gives the same information there.
    pub(crate) fn continues_as(&self, next: &Row) -> bool {
        let distance = |row: &Row| match row.origin {
            Origin::Copy(old) => Some(old.wrapping_sub(row.at)),
            _ => None,
        };
        let same = match (distance(self), distance(next)) {
            (None, None) => self.origin == next.origin,
            (own_distance, next_distance) => own_distance == next_distance,
        };
        same && self.lowered == next.lowered
    }
}

/// Registers that the shared code pushes, in order: DWARF number, and offset below the stack
/// pointer of the tag in words. `None` for registers that functions need not preserve. `r11` is
/// listed, because it holds the address in the tag.
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

/// Finds the changes of the stack pointer in some code. Returns for each change the offset behind
/// the instruction, the number of bytes by which the stack pointer is lower from there on than at
/// the start, and the number of registers on the stack. These values do not depend on the path that
/// control takes to a branch target.
///
/// For example, the result for `push rbp; mov rbp, rsp; pop rbp` is (1, 8, 1), (5, 0, 0).
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

/// Number of bytes by which an instruction lowers the stack pointer, and number of registers that
/// it pushes. Both are negative for `pop`.
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

/// Rows in ascending order, without redundant rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Vec<Row>);

impl Rows {
    /// Adds a row, unless it is redundant. A row at the same address as the previous one replaces
    /// it.
    pub fn push(&mut self, row: Row) {
        if self.0.last().is_some_and(|last| last.at == row.at) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|last| !last.continues_as(&row)) {
            self.0.push(row);
        }
    }

    /// Adds the rows of a tag. All stand for one original instruction.
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

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    /// All rows, by address.
    pub fn as_slice(&self) -> &[Row] {
        &self.0
    }
}
