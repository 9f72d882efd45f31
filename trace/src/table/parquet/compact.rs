//! Decodes Thrift's compact protocol, the encoding of a Parquet file's footer and page headers.
//!
//! Source: the Thrift specification "Thrift Compact protocol encoding". Invariant: time is linear in the bytes that are
//! decoded. The Parquet library takes no bytes for the elements of a list of booleans, so that a few bytes state 2^31
//! elements; such lists, which neither a footer nor a page header has, are rejected here.

use std::fmt;

/// Field type of a 32-bit number.
pub(super) const I32: u8 = 5;
/// Field type of a structure.
pub(super) const STRUCT: u8 = 12;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;

/// Deepest nesting accepted. A footer has 7 levels: file, row group, column chunk, metadata, statistics and the like.
const MAX_DEPTH: u32 = 32;
/// Longest encoding of a number, in bytes.
const MAX_NUMBER_BYTES: usize = 10;

/// Why bytes are not a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The structure continues after the last byte.
    Ended,
    /// A type that does not exist, or one that has no place in a Parquet file.
    Type(u8),
    /// A number of more bytes than the protocol allows.
    Number,
    /// Structures or lists within each other, deeper than any Parquet file has them.
    Depth,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Ended => f.write_str("is longer than its place: the file is damaged"),
            Flaw::Type(kind) => write!(f, "has a value of the type {kind}: the file is damaged"),
            Flaw::Number => f.write_str("has a number that does not end: the file is damaged"),
            Flaw::Depth => f.write_str("is nested too deeply: the file is damaged"),
        }
    }
}

/// A decoder; holds the bytes that remain.
pub(super) struct Compact<'a>(pub &'a [u8]);

impl Compact<'_> {
    /// Takes the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Reads a number; `None` if it is negative.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for place in 0..5 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                // Zigzag encoding: even codes are numbers that are not negative.
                return (number & 1 == 0).then_some(number >> 1);
            }
        }
        None
    }

    /// Reads the number and the type of the next field. `before`: number of the field before it.
    pub fn field(&mut self, before: u8) -> Option<(u8, u8)> {
        let byte = self.byte()?;
        let (distance, kind) = (byte >> 4, byte & 15);
        (distance != 0).then_some((before.checked_add(distance)?, kind))
    }

    /// Reads the `i32` field with this number, in a structure whose fields up to it are all `i32`.
    pub fn i32_field(&mut self, wanted: u8) -> Option<u64> {
        let mut field = 0;
        loop {
            let (next, kind) = self.field(field)?;
            let number = (kind == I32 && next <= wanted).then(|| self.number())??;
            if next == wanted {
                return Some(number);
            }
            field = next;
        }
    }

    /// Skips a structure with all its fields.
    ///
    /// # Errors
    /// If the bytes are not a structure of the protocol.
    pub fn skip_struct(&mut self) -> Result<(), Flaw> {
        self.skip_fields(0)
    }

    fn skip_fields(&mut self, depth: u32) -> Result<(), Flaw> {
        if depth == MAX_DEPTH {
            return Err(Flaw::Depth);
        }
        loop {
            let header = self.byte().ok_or(Flaw::Ended)?;
            if header == 0 {
                return Ok(());
            }
            // A distance of 0: the field's number follows.
            if header >> 4 == 0 {
                self.skip_number()?;
            }
            match header & 15 {
                // The type is the value.
                TRUE | FALSE => {}
                kind => self.skip_value(kind, depth)?,
            }
        }
    }

    fn skip_value(&mut self, kind: u8, depth: u32) -> Result<(), Flaw> {
        match kind {
            BYTE => self.skip_bytes(1),
            I16 | I32 | I64 => self.skip_number().map(drop),
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let length = self.skip_number()?;
                self.skip_bytes(length)
            }
            LIST | SET => self.skip_list(depth + 1),
            MAP => self.skip_map(depth + 1),
            STRUCT => self.skip_fields(depth + 1),
            kind => Err(Flaw::Type(kind)),
        }
    }

    fn skip_list(&mut self, depth: u32) -> Result<(), Flaw> {
        const LENGTH_FOLLOWS: u8 = 15;
        if depth == MAX_DEPTH {
            return Err(Flaw::Depth);
        }
        let header = self.byte().ok_or(Flaw::Ended)?;
        let length = match header >> 4 {
            LENGTH_FOLLOWS => self.skip_number()?,
            length => u64::from(length),
        };
        // Each element takes a byte or more, so the loop ends with the bytes.
        (0..length).try_for_each(|_| self.skip_value(header & 15, depth))
    }

    fn skip_map(&mut self, depth: u32) -> Result<(), Flaw> {
        if depth == MAX_DEPTH {
            return Err(Flaw::Depth);
        }
        let length = self.skip_number()?;
        if length == 0 {
            return Ok(());
        }
        let kinds = self.byte().ok_or(Flaw::Ended)?;
        (0..length).try_for_each(|_| {
            self.skip_value(kinds >> 4, depth)?;
            self.skip_value(kinds & 15, depth)
        })
    }

    /// Skips a number and returns it without zigzag decoding.
    fn skip_number(&mut self) -> Result<u64, Flaw> {
        let mut number = 0;
        for place in 0..MAX_NUMBER_BYTES {
            let byte = self.byte().ok_or(Flaw::Ended)?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Flaw::Number)
    }

    fn skip_bytes(&mut self, length: u64) -> Result<(), Flaw> {
        let length = usize::try_from(length).map_err(|_| Flaw::Ended)?;
        self.0 = self.0.get(length..).ok_or(Flaw::Ended)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field 15 with a list of `count` elements of a type.
    fn list(kind: u8, count: [u8; 5]) -> Vec<u8> {
        [&[0xf9, 0xf0 | kind][..], &count].concat()
    }

    #[test]
    fn values_of_every_type_are_skipped() {
        let fields: [&[u8]; 10] = [
            &[0x11],
            &[0x12],
            &[0x13, 7],
            &[0x16, 0x80, 1],
            &[0x17, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x18, 2, b'a', b'b'],
            &[0x19, 0x25, 2, 4],
            &[0x1b, 1, 0x55, 2, 4],
            &[0x1c, 0x15, 2, 0],
            &[0x05, 0xc8, 1, 2],
        ];
        let mut bytes = fields.concat();
        bytes.extend([0, 0xff]);
        let mut compact = Compact(&bytes);
        assert_eq!(compact.skip_struct(), Ok(()));
        assert_eq!(compact.0, [0xff], "stops after the structure");
        for length in 0..bytes.len() - 1 {
            assert_eq!(Compact(&bytes[..length]).skip_struct(), Err(Flaw::Ended), "{length}");
        }
    }

    #[test]
    fn lists_whose_elements_take_no_bytes_are_rejected() {
        let many = [0xff, 0xff, 0xff, 0xff, 7];
        for kind in [0, TRUE, FALSE, 13, 15] {
            let bytes = list(kind, many);
            assert_eq!(Compact(&bytes).skip_struct(), Err(Flaw::Type(kind)));
        }
        assert_eq!(Compact(&list(BYTE, many)).skip_struct(), Err(Flaw::Ended));
        let deep = [vec![0x19], vec![0x19; 100]].concat();
        assert_eq!(Compact(&deep).skip_struct(), Err(Flaw::Depth));
        assert_eq!(Compact(&[0x1c; 100]).skip_struct(), Err(Flaw::Depth));
        assert_eq!(Compact(&[0x15; 1]).skip_struct(), Err(Flaw::Ended));
        let long = [&[0x15][..], &[0x80; 10]].concat();
        assert_eq!(Compact(&long).skip_struct(), Err(Flaw::Number));
    }
}
