//! Writes machine code, and notes the original state at each instruction.
//!
//! A [`Section`] has code that is placed at one address. A block has a section of hot code and one
//! of cold code, which is placed elsewhere in the arena. All jumps between them have displacements
//! of 32 bits.

use crate::layout::area;
use crate::state::Point;

/// Number of a register in encodings.
pub mod register {
    #![allow(missing_docs)]
    pub const RAX: u8 = 0;
    pub const RCX: u8 = 1;
    pub const RDX: u8 = 2;
    pub const R11: u8 = 11;
    pub const R15: u8 = 15;
}

/// Whether the original states at instructions are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// States are noted, so that the state of a thread that is interrupted in the code can be
    /// found.
    Noted,
    /// States are not noted, so that code is generated faster.
    Omitted,
}

/// Code at an address, with the original states at its instructions.
#[derive(Debug, Default)]
pub struct Section {
    /// Address in the process of its first byte. It may be set after code was added.
    pub base: u64,
    /// The code.
    pub bytes: Vec<u8>,
    /// Offsets of the instructions before which the original state is known, ascending, with the
    /// states.
    pub points: Vec<(u32, Point)>,
    /// Whether states are noted.
    pub notes_points: bool,
}

/// Instructions that do nothing, by their length in bytes (Intel SDM, volume 2, NOP).
const NOPS: [&[u8]; 5] =
    [&[], &[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00], &[0x0f, 0x1f, 0x40, 0x00]];

/// An instruction of 5 bytes that does nothing. It replaces a jump that leads to the next byte.
pub const FALL_THROUGH: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// Opcode of `jmp` with a displacement of 32 bits.
pub const JUMP: u8 = 0xe9;

/// Which bytes of a jump are replaced together: offset and number. A `jmp` is replaced as a whole,
/// a conditional jump without its opcode.
pub const fn jump_extent(opcode_bytes: u64) -> (u64, u64) {
    if opcode_bytes == 1 { (0, 5) } else { (opcode_bytes, 4) }
}

impl Section {
    /// An empty section, with capacity for a number of bytes. `notes_points`: whether states are
    /// noted.
    pub fn with_capacity(bytes: usize, notes_points: bool) -> Self {
        Section { bytes: Vec::with_capacity(bytes), notes_points, ..Section::default() }
    }

    /// Address of the next byte to be added.
    pub fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Number of bytes so far.
    pub fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Notes the original state before the next instruction.
    pub fn point(&mut self, point: Point) {
        if self.notes_points {
            self.points.push((self.len(), point));
        }
    }

    /// Adds bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds `mov gs:[offset], register`.
    pub fn store(&mut self, offset: u32, register: u8) {
        self.put(&[0x65, 0x48 | register >> 3 << 2, 0x89, 0x04 | (register & 7) << 3, 0x25]);
        self.put(&offset.to_le_bytes());
    }

    /// Adds `mov register, gs:[offset]`.
    pub fn load(&mut self, register: u8, offset: u32) {
        self.put(&[0x65, 0x48 | register >> 3 << 2, 0x8b, 0x04 | (register & 7) << 3, 0x25]);
        self.put(&offset.to_le_bytes());
    }

    /// Adds `mov gs:[offset], register` with the low half of one of the first eight registers.
    pub fn store_half(&mut self, offset: u32, register: u8) {
        self.put(&[0x65, 0x89, 0x04 | register << 3, 0x25]);
        self.put(&offset.to_le_bytes());
    }

    /// Adds an instruction that saves a register in the thread area.
    pub fn save(&mut self, register: u8) {
        self.store(area::save(register), register);
    }

    /// Adds an instruction that restores a register from the thread area.
    pub fn restore(&mut self, register: u8) {
        self.load(register, area::save(register));
    }

    /// Adds `mov register, value` in the shortest encoding, which changes no flags.
    pub fn set(&mut self, register: u8, value: u64) {
        let (high, low) = (register >> 3, register & 7);
        if let Ok(short) = u32::try_from(value) {
            if high != 0 {
                self.put(&[0x41]);
            }
            self.put(&[0xb8 | low]);
            self.put(&short.to_le_bytes());
        } else if let Ok(short) = i32::try_from(value as i64) {
            self.put(&[0x48 | high, 0xc7, 0xc0 | low]);
            self.put(&short.to_le_bytes());
        } else {
            self.put(&[0x48 | high, 0xb8 | low]);
            self.put(&value.to_le_bytes());
        }
    }

    /// Adds one or two stores of a constant to a field of 8 bytes of the thread area. `state`: the
    /// original state, which is noted between two stores.
    pub fn store_value(&mut self, offset: u32, value: u64, state: Option<Point>) {
        if let Ok(short) = i32::try_from(value as i64) {
            self.put(&[0x65, 0x48, 0xc7, 0x04, 0x25]);
            self.put(&offset.to_le_bytes());
            self.put(&short.to_le_bytes());
        } else {
            self.store_word(offset, value as u32);
            if let Some(state) = state {
                self.point(state);
            }
            self.store_word(offset + 4, (value >> 32) as u32);
        }
    }

    /// Adds `mov dword gs:[offset], value`.
    pub fn store_word(&mut self, offset: u32, value: u32) {
        self.put(&[0x65, 0xc7, 0x04, 0x25]);
        self.put(&offset.to_le_bytes());
        self.put(&value.to_le_bytes());
    }

    /// Adds bytes of value 0 up to a multiple of 8.
    pub fn align_constant(&mut self) {
        let count = self.here().next_multiple_of(8) - self.here();
        self.put(&[0; 8][..count as usize]);
    }

    /// Adds one instruction that does nothing, or none, so that `bytes` bytes at a distance of
    /// `ahead` from here do not cross a multiple of 8.
    pub fn keep_together(&mut self, ahead: u64, bytes: u64) {
        let offset = (self.here() + ahead) % 8;
        if offset + bytes > 8 {
            self.put(NOPS[(8 - offset) as usize]);
        }
    }

    /// Adds a jump that can be replaced by one store. Its displacement, and with an opcode of one
    /// byte the whole jump, does not cross a multiple of 8. Returns the offset of the displacement,
    /// which is 0 so far. `point`: the original state before the jump.
    pub fn jump(&mut self, opcode: &[u8], point: Option<Point>) -> u32 {
        if let Some(point) = point {
            self.point(point);
        }
        let (ahead, bytes) = jump_extent(opcode.len() as u64);
        self.keep_together(ahead, bytes);
        if let Some(point) = point {
            self.point(point);
        }
        self.put(opcode);
        let at = self.len();
        self.put(&[0; 4]);
        at
    }

    /// Sets the displacement at an offset so that its jump leads to an address.
    /// [`base`](Self::base) must be final.
    pub fn set_displacement(&mut self, at: u32, target: u64) {
        let from = self.base + u64::from(at) + 4;
        let displacement = target.wrapping_sub(from) as i64;
        debug_assert!(i32::try_from(displacement).is_ok());
        let at = at as usize;
        self.bytes[at..at + 4].copy_from_slice(&(displacement as i32).to_le_bytes());
    }

    /// Appends a section whose address is directly after this section.
    #[must_use]
    pub fn followed_by(mut self, other: Section) -> Section {
        debug_assert_eq!(self.here(), other.base);
        let offset = self.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.points.extend(other.points.iter().map(|(at, point)| (at + offset, *point)));
        self
    }

    /// The original state before the instruction at an offset; `None` if it is not known.
    pub fn state_at(&self, offset: u32) -> Option<Point> {
        let first = self.points.partition_point(|(at, _)| *at < offset);
        self.points.get(first).filter(|(at, _)| *at == offset).map(|(_, point)| *point)
    }
}
