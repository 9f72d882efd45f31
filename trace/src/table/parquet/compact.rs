//! Decodes Thrift's compact protocol, in which the footer and the page headers of a Parquet file
//! are encoded.
//!
//! Source: the Thrift specification "Thrift Compact protocol encoding". Invariant: time is linear
//! in the number of decoded bytes. Two kinds of input are rejected here:
//!
//! - Lists of booleans, which neither a footer nor a page header has. The Parquet library reads no
//!   bytes for their elements, so a few bytes could state 2^31 elements.
//! - Fields whose type differs from the type that the library expects. Behind such a field, the
//!   library would interpret other bytes as lists than the decoder here.

use std::fmt;

use super::thrift_schema::{Fields, Kind};

/// Field type of a 32-bit number.
pub(super) const I32: u8 = 5;
/// Field type of a structure.
pub(super) const STRUCT: u8 = 12;
const STOP: u8 = 0;
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

/// Deepest accepted nesting. A footer has 7 levels: file, row group, column chunk, metadata,
/// statistics and the like.
const MAX_DEPTH: u32 = 32;
/// Longest encoding of a number, in bytes.
const MAX_NUMBER_BYTES: usize = 10;

/// The reason why bytes are no valid structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The structure continues after the last byte.
    Ended,
    /// A value of a type that does not exist, or that a Parquet file does not use.
    Type(u8),
    /// A known field of another type than the format states.
    Field { number: i16, kind: u8 },
    /// Elements of another type than the format states.
    Elements(u8),
    /// A number of more bytes than the protocol allows.
    Number,
    /// Structures or lists are nested more deeply than in any Parquet file.
    Depth,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Ended => f.write_str("is longer than its place: the file is damaged"),
            Flaw::Type(kind) => write!(f, "has a value of the type {kind}: the file is damaged"),
            Flaw::Field { number, kind } => {
                write!(f, "has a field {number} of the type {kind}: the file is damaged")
            }
            Flaw::Elements(kind) => {
                write!(f, "has a list of elements of the type {kind}: the file is damaged")
            }
            Flaw::Number => f.write_str("has a number that does not end: the file is damaged"),
            Flaw::Depth => f.write_str("is nested too deeply: the file is damaged"),
        }
    }
}

/// A decoder of bytes in Thrift's compact protocol.
pub(super) struct Compact<'a> {
    /// The bytes that remain.
    rest: &'a [u8],
    schema: SchemaSize,
}

/// The size of a schema that was skipped.
#[derive(Clone, Copy, Default)]
pub(super) struct SchemaSize {
    /// Number of names of columns and groups.
    pub names: u64,
    /// Bytes of the longest name.
    pub longest_name: u64,
    /// Number of elements that have children.
    pub groups: u64,
}

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Compact { rest: bytes, schema: SchemaSize::default() }
    }

    /// Returns the size of the schemas that were skipped.
    pub fn schema(&self) -> SchemaSize {
        self.schema
    }

    /// Takes the next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// Reads a number; `None` if it is negative, incomplete, or longer than 5 bytes.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for place in 0..5 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                // In zigzag encoding, even codes stand for numbers that are not negative.
                return (number & 1 == 0).then_some(number >> 1);
            }
        }
        None
    }

    /// Reads the number and the type of the next field. `None` at the end of the structure, and for
    /// the long form of a field, in which its number follows separately. `before`: number of the
    /// field before it, 0 for the first field.
    pub fn field(&mut self, before: u8) -> Option<(u8, u8)> {
        let byte = self.byte()?;
        let (distance, kind) = (byte >> 4, byte & 15);
        (distance != 0).then_some((before.checked_add(distance)?, kind))
    }

    /// Reads the `i32` field with the number `wanted`. `None` if a field before it has another
    /// type, or if there is no such field.
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

    /// Reads the byte lengths of both kinds of levels and returns their sum. In the header of a
    /// page of version 2, they are the fields 5 and 6, which follow field 4.
    pub fn level_bytes(&mut self) -> Option<u64> {
        let mut sum = 0;
        for wanted in [5, 6] {
            let (field, kind) = self.field(wanted - 1)?;
            sum += ((field, kind) == (wanted, I32)).then(|| self.number())??;
        }
        Some(sum)
    }

    /// Number of bytes that remain.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Skips a structure with all its fields, and checks the types of the fields that are listed in
    /// `fields`.
    ///
    /// # Errors
    /// [`Flaw`]: the bytes are no structure of the protocol, or a field has another type than
    /// `fields` states.
    pub fn skip_struct(&mut self, fields: &Fields) -> Result<(), Flaw> {
        self.skip_fields(fields, 0)
    }

    fn skip_fields(&mut self, fields: &Fields, depth: u32) -> Result<(), Flaw> {
        if depth == MAX_DEPTH {
            return Err(Flaw::Depth);
        }
        let mut number = 0i16;
        loop {
            let header = self.byte().ok_or(Flaw::Ended)?;
            let kind = header & 15;
            if kind == STOP {
                return Ok(());
            }
            number = match header >> 4 {
                // The number of the field follows.
                0 => i16::try_from(zigzag(self.skip_number()?)).map_err(|_| Flaw::Number)?,
                distance => number.checked_add(distance.into()).ok_or(Flaw::Number)?,
            };
            let known = fields.iter().find(|(known, _)| *known == number).map(|(_, known)| known);
            if known.is_some_and(|known| !known.has_code(kind)) {
                return Err(Flaw::Field { number, kind });
            }
            match kind {
                // The type of a boolean field is also its value.
                TRUE | FALSE => {}
                kind => self.skip_value(kind, known, depth)?,
            }
        }
    }

    /// Skips a value. `kind`: its type, as encoded. `known`: its type in the format, if the format
    /// states one.
    fn skip_value(&mut self, kind: u8, known: Option<&Kind>, depth: u32) -> Result<(), Flaw> {
        match kind {
            BYTE => self.skip_bytes(1),
            I16 | I32 | I64 => {
                let number = zigzag(self.skip_number()?);
                if matches!(known, Some(Kind::Children)) && number != 0 {
                    self.schema.groups += 1;
                }
                Ok(())
            }
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let length = self.skip_number()?;
                if matches!(known, Some(Kind::Name)) {
                    self.schema.names += 1;
                    self.schema.longest_name = self.schema.longest_name.max(length);
                }
                self.skip_bytes(length)
            }
            LIST | SET => {
                let elements = match known {
                    Some(Kind::List(elements)) => Some(*elements),
                    _ => None,
                };
                self.skip_list(elements, depth + 1)
            }
            MAP => self.skip_map(depth + 1),
            STRUCT => {
                let fields = match known {
                    Some(Kind::Struct(fields)) => fields,
                    _ => &[][..],
                };
                self.skip_fields(fields, depth + 1)
            }
            kind => Err(Flaw::Type(kind)),
        }
    }

    fn skip_list(&mut self, elements: Option<&Kind>, depth: u32) -> Result<(), Flaw> {
        const LENGTH_FOLLOWS: u8 = 15;
        if depth == MAX_DEPTH {
            return Err(Flaw::Depth);
        }
        let header = self.byte().ok_or(Flaw::Ended)?;
        let (length, kind) = match (header >> 4, header & 15) {
            (LENGTH_FOLLOWS, kind) => (self.skip_number()?, kind),
            // Some writers leave out the type of the elements of an empty list.
            (0, 0) => return Ok(()),
            (length, kind) => (length.into(), kind),
        };
        if elements.is_some_and(|elements| !elements.has_code(kind)) {
            return Err(Flaw::Elements(kind));
        }
        // Each element takes a byte or more, so the loop ends with the bytes.
        (0..length).try_for_each(|_| self.skip_value(kind, elements, depth))
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
            self.skip_value(kinds >> 4, None, depth)?;
            self.skip_value(kinds & 15, None, depth)
        })
    }

    /// Reads a number, and returns it without decoding the zigzag encoding.
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
        self.rest = self.rest.get(length..).ok_or(Flaw::Ended)?;
        Ok(())
    }
}

impl Kind {
    /// Whether the protocol writes this type as `code`.
    fn has_code(&self, code: u8) -> bool {
        match self {
            Kind::Bool => code == TRUE || code == FALSE,
            Kind::Byte => code == BYTE,
            Kind::I16 => code == I16,
            Kind::I32 | Kind::Children => code == I32,
            Kind::I64 => code == I64,
            Kind::Double => code == DOUBLE,
            Kind::Binary | Kind::Name => code == BINARY,
            Kind::Struct(_) => code == STRUCT,
            Kind::List(_) => code == LIST,
        }
    }
}

/// Decodes a signed number from the zigzag encoding.
fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
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
        let mut compact = Compact::new(&bytes);
        assert_eq!(compact.skip_struct(&[]), Ok(()));
        assert_eq!(compact.rest, [0xff], "stops after the structure");
        for length in 0..bytes.len() - 1 {
            assert_eq!(
                Compact::new(&bytes[..length]).skip_struct(&[]),
                Err(Flaw::Ended),
                "{length}"
            );
        }
    }

    #[test]
    fn lists_whose_elements_take_no_bytes_are_rejected() {
        let many = [0xff, 0xff, 0xff, 0xff, 7];
        for kind in [0, TRUE, FALSE, 13, 15] {
            let bytes = list(kind, many);
            assert_eq!(Compact::new(&bytes).skip_struct(&[]), Err(Flaw::Type(kind)));
        }
        assert_eq!(Compact::new(&list(BYTE, many)).skip_struct(&[]), Err(Flaw::Ended));
        let deep = [vec![0x19], vec![0x19; 100]].concat();
        assert_eq!(Compact::new(&deep).skip_struct(&[]), Err(Flaw::Depth));
        assert_eq!(Compact::new(&[0x1c; 100]).skip_struct(&[]), Err(Flaw::Depth));
        assert_eq!(Compact::new(&[0x15; 1]).skip_struct(&[]), Err(Flaw::Ended));
        let long = [&[0x15][..], &[0x80; 10]].concat();
        assert_eq!(Compact::new(&long).skip_struct(&[]), Err(Flaw::Number));
    }

    #[test]
    fn known_fields_have_the_types_of_the_format() {
        const INNER: Kind = Kind::Struct(&[(2, Kind::Bool)]);
        let fields = &[(1, Kind::I32), (3, Kind::List(&Kind::I64)), (4, Kind::List(&INNER))];
        let skip = |bytes: &[u8]| Compact::new(bytes).skip_struct(fields);
        // The last field is unknown, and of any type.
        let good = [0x15, 2, 0x29, 0x16, 2, 0x19, 0x1c, 0x21, 0, 0x18, 0, 0];
        assert_eq!(skip(&good), Ok(()));
        assert_eq!(skip(&[0x29, 0, 0]), Ok(()), "an empty list without a type");
        assert_eq!(skip(&[0x16, 2, 0]), Err(Flaw::Field { number: 1, kind: I64 }));
        assert_eq!(skip(&[0x05, 6, 2, 0]), Err(Flaw::Field { number: 3, kind: I32 }));
        assert_eq!(skip(&[0x39, 0x15, 2, 0]), Err(Flaw::Elements(I32)));
        assert_eq!(skip(&[0x49, 0x1c, 0x25, 2, 0, 0]), Err(Flaw::Field { number: 2, kind: I32 }));
        // Number 32767, and one more.
        let last = [0x05, 0xfe, 0xff, 3, 2];
        assert_eq!(skip(&[&last[..], &[0]].concat()), Ok(()));
        assert_eq!(skip(&[&last[..], &[0x15, 2, 0]].concat()), Err(Flaw::Number));
        assert_eq!(skip(&[0x05, 0x80, 0x80, 4, 2, 0]), Err(Flaw::Number));
    }
}
