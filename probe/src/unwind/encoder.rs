//! Writes `.eh_frame_hdr` and `.eh_frame` (LSB Core, "Exception Frames"; DWARF 5, section 6.4).
//!
//! ```text
//! .eh_frame_hdr   version, encodings, distance to .eh_frame, count | (function, FDE) ... ascending
//! .eh_frame       CIE | FDE ... | 0
//! ```

use hmtt_files::varint;

use super::{Origin, Row};
use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::stubs::SHARED_SAVED;

/// Bytes of the `.eh_frame_hdr` without its table, the CIE and the terminator.
pub(super) const FIXED_BYTES: usize = HEADER_BYTES + 64;
/// Maximum number of bytes of an FDE without its rows, with its entry in the header's table.
pub(super) const FDE_BYTES: usize = 48;
/// Maximum number of bytes of a row: an advance, a CFA offset, an expression with an address.
pub(super) const ROW_BYTES: usize = 5 + 6 + 13;
const HEADER_BYTES: usize = 12;
/// Offset in the header of the distance to `.eh_frame`. The distance is counted from this field.
pub(super) const TABLE_AT: usize = 4;
/// Offset of the pointer encoding in a CIE, and of the bytes behind the addresses in an FDE. Both
/// are counted from the end of the length field.
pub(super) const CIE_ENCODING_AT: usize = 13;
pub(super) const FDE_ROWS_AT: usize = 12;
const ENTRY_BYTES: usize = 8;

/// Pointer encodings: signed 32 bits relative to the field itself; signed 32 bits relative to the
/// header; unsigned 32 bits.
const PC_RELATIVE: u8 = 0x1b;
const HEADER_RELATIVE: u8 = 0x3b;
const UNSIGNED: u8 = 0x03;

/// Call frame instructions.
const ADVANCE: u8 = 0x40;
const ADVANCE_1: u8 = 0x02;
const ADVANCE_2: u8 = 0x03;
const ADVANCE_4: u8 = 0x04;
const OFFSET: u8 = 0x80;
const RESTORE: u8 = 0xc0;
const REGISTER: u8 = 0x09;
const CFA: u8 = 0x0c;
const CFA_OFFSET: u8 = 0x0e;
const VALUE_OFFSET: u8 = 0x14;
const VALUE_EXPRESSION: u8 = 0x16;
/// Expression operations: an address; the return address register plus a number.
const ADDRESS: u8 = 0x03;
const PLUS_RETURN_ADDRESS: u8 = 0x70 + RETURN_ADDRESS;

/// DWARF register numbers (psABI, figure 3.36).
const RSP: u8 = 7;
const R11: u8 = 11;
const RETURN_ADDRESS: u8 = 16;
/// Distance of the CFA above the stack pointer, in bytes.
const CFA_ABOVE: u32 = 8;

/// Encodes one table.
pub(super) struct Encoder {
    at: RunAddr,
    /// The header, then `.eh_frame`.
    bytes: Vec<u8>,
    cie: usize,
    fdes: usize,
}

impl Encoder {
    /// Begins a table. `at`: address of the header; `fdes`: number of FDEs.
    pub fn new(at: RunAddr, fdes: usize) -> Self {
        let mut bytes = vec![0; HEADER_BYTES + ENTRY_BYTES * fdes];
        bytes[..4].copy_from_slice(&[1, PC_RELATIVE, UNSIGNED, HEADER_RELATIVE]);
        // The header and `.eh_frame` begin at multiples of 4.
        let distance = (bytes.len() - 4) as u32;
        bytes[4..8].copy_from_slice(&distance.to_le_bytes());
        bytes[8..12].copy_from_slice(&(fdes as u32).to_le_bytes());
        let mut encoder = Encoder { at, cie: bytes.len(), bytes, fdes: 0 };
        encoder.cie();
        encoder
    }

    fn cie(&mut self) {
        let start = self.begin();
        self.bytes.extend(0u32.to_le_bytes());
        // Version; augmentation; code and data alignment factors 1 and -8; return address register;
        // augmentation data.
        self.bytes.extend([1, b'z', b'R', b'S', 0, 1, 0x78, RETURN_ADDRESS, 1, PC_RELATIVE]);
        self.bytes.extend([CFA, RSP, CFA_ABOVE as u8]);
        self.bytes.extend([VALUE_OFFSET, RSP, 1]);
        self.end(start);
    }

    /// Reserves the length field of an entry.
    fn begin(&mut self) -> usize {
        self.bytes.extend([0; 4]);
        self.bytes.len()
    }

    fn end(&mut self, start: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start - 4..start].copy_from_slice(&length.to_le_bytes());
    }

    /// Adds an FDE for some rows. `end`: address behind the code of the last row.
    pub fn fde(&mut self, rows: &[Row], end: FileAddr, bias: LoadBias) -> Option<()> {
        let first = FileAddr(rows.first()?.at);
        let place = self.at.wrapping_add(self.bytes.len() as u64);
        let entry = HEADER_BYTES + ENTRY_BYTES * self.fdes;
        let to_code = distance(bias.to_run(first), self.at)?;
        let to_fde = distance(place, self.at)?;
        let table = self.bytes.get_mut(entry..entry + ENTRY_BYTES)?;
        table[..4].copy_from_slice(&to_code);
        table[4..].copy_from_slice(&to_fde);
        self.fdes += 1;
        let start = self.begin();
        self.bytes.extend(((start - self.cie) as u32).to_le_bytes());
        self.bytes.extend(distance(bias.to_run(first), place.wrapping_add(8))?);
        self.bytes.extend(u32::try_from(end.offset_from(first)?).ok()?.to_le_bytes());
        // No augmentation data.
        self.bytes.push(0);
        let mut before: Option<&Row> = None;
        for row in rows {
            self.row(before, row, bias)?;
            before = Some(row);
        }
        self.end(start);
        Some(())
    }

    fn row(&mut self, before: Option<&Row>, row: &Row, bias: LoadBias) -> Option<()> {
        if let Some(before) = before {
            self.advance(u32::try_from(row.at.checked_sub(before.at)?).ok()?);
        }
        if before.map_or(0, |before| before.lowered) != row.lowered {
            self.bytes.push(CFA_OFFSET);
            self.unsigned(row.lowered + CFA_ABOVE);
        }
        if before
            .is_some_and(|before| before.continues_as(&Row { lowered: before.lowered, ..*row }))
        {
            return Some(());
        }
        match row.origin {
            Origin::At(address) => {
                self.bytes.extend([VALUE_EXPRESSION, RETURN_ADDRESS, 9, ADDRESS]);
                self.bytes.extend(bias.to_run(FileAddr(address)).0.to_le_bytes());
            }
            Origin::Copy(old) => {
                let mut expression = Vec::with_capacity(8);
                // The load bias applies to both addresses, so their distance needs none.
                signed(&mut expression, old.wrapping_sub(row.at).cast_signed());
                let length = expression.len() as u8 + 1;
                self.bytes.extend([VALUE_EXPRESSION, RETURN_ADDRESS, length, PLUS_RETURN_ADDRESS]);
                self.bytes.extend(expression);
            }
            Origin::Shared(saved) => {
                let before = before.map(|before| before.origin);
                self.shared(before, usize::from(saved));
            }
        }
        Some(())
    }

    /// Describes the registers that the shared code has saved, or has restored, since the last row.
    fn shared(&mut self, before: Option<Origin>, saved: usize) {
        let already = match before {
            Some(Origin::Shared(already)) => usize::from(already),
            _ => 0,
        };
        for (number, slot) in SHARED_SAVED.iter().enumerate() {
            let Some((register, words_below)) = *slot else { continue };
            let register = if register == R11 { RETURN_ADDRESS } else { register };
            match (number < already, number < saved) {
                (false, true) => {
                    self.bytes.push(OFFSET | register);
                    self.unsigned(words_below + CFA_ABOVE / 8);
                }
                (true, false) if register != RETURN_ADDRESS => self.bytes.push(RESTORE | register),
                _ => {}
            }
        }
        if saved == 0 {
            self.bytes.extend([REGISTER, RETURN_ADDRESS, R11]);
        }
    }

    fn advance(&mut self, bytes: u32) {
        match bytes {
            0 => {}
            1..0x40 => self.bytes.push(ADVANCE | bytes as u8),
            0x40..0x100 => self.bytes.extend([ADVANCE_1, bytes as u8]),
            0x100..0x1_0000 => {
                self.bytes.push(ADVANCE_2);
                self.bytes.extend((bytes as u16).to_le_bytes());
            }
            _ => {
                self.bytes.push(ADVANCE_4);
                self.bytes.extend(bytes.to_le_bytes());
            }
        }
    }

    fn unsigned(&mut self, value: u32) {
        varint::push(value.into(), &mut self.bytes);
    }

    /// The complete table; `None` if fewer FDEs were added than announced.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        let fdes = (self.cie - HEADER_BYTES) / ENTRY_BYTES;
        self.bytes.extend([0; 4]);
        (fdes == self.fdes).then_some(self.bytes)
    }
}

/// The distance between two addresses as a signed 32-bit number; `None` if 32 bits are too few.
fn distance(to: RunAddr, from: RunAddr) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_offset_from(from).cast_signed()).ok().map(i32::to_le_bytes)
}

/// Appends a number encoded as SLEB128.
fn signed(bytes: &mut Vec<u8>, mut value: i64) {
    loop {
        let low = value as u8 & 0x7f;
        value >>= 7;
        let is_last = (value == 0 && low & 0x40 == 0) || (value == -1 && low & 0x40 != 0);
        bytes.push(if is_last { low } else { low | 0x80 });
        if is_last {
            return;
        }
    }
}
