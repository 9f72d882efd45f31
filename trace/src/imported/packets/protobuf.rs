//! Splits messages of Protocol Buffers into their fields.
//!
//! A field is a varint `number << 3 | type`, followed by a value. Each byte of a varint has 7 bits
//! of the number, the low bits first. The high bit of a byte states that another byte follows.
//! Example: the bytes `96 01` are the number 150. Invariant: no length in a message is trusted
//! beyond the end of the message.

/// Maximum number of bytes of a varint for a 64-bit number.
pub const MOST_VARINT_BYTES: usize = 10;
/// Number of low bits in a field's tag that are the type.
const TYPE_BITS: u32 = 3;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'m> {
    /// A number of any width.
    Number(u64),
    /// A text, or a nested message.
    Bytes(&'m [u8]),
}

/// Error: the bytes are no field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoField;

/// Decodes a varint. `bytes`: all bytes of the varint. Returns `None` if the number has more than
/// 64 bits.
pub fn varint(bytes: &[u8]) -> Option<u64> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = u32::try_from(place * 7).ok()?;
        let shifted = bits.checked_shl(shift)?;
        if shifted >> shift != bits {
            return None;
        }
        value |= shifted;
    }
    Some(value)
}

/// Iterates over the fields of a message: numbers and values.
pub struct Fields<'m>(pub &'m [u8]);

impl<'m> Fields<'m> {
    fn take(&mut self, bytes: usize) -> Option<&'m [u8]> {
        let (value, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(value)
    }

    fn take_varint(&mut self) -> Option<u64> {
        let is_last = |byte: &u8| *byte < 0x80;
        let last = self.0.iter().take(MOST_VARINT_BYTES).position(is_last)?;
        varint(self.take(last + 1)?)
    }

    fn take_field(&mut self) -> Option<(u64, Value<'m>)> {
        let tag = self.take_varint()?;
        let value = match tag & ((1 << TYPE_BITS) - 1) {
            0 => Value::Number(self.take_varint()?),
            1 => Value::Number(u64::from_le_bytes(*self.take(8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(self.take_varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(u32::from_le_bytes(*self.take(4)?.first_chunk()?).into()),
            _ => return None,
        };
        Some((tag >> TYPE_BITS, value))
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u64, Value<'m>), NoField>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.take_field().ok_or(NoField);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &[u8]) -> Vec<Result<(u64, Value<'_>), NoField>> {
        Fields(message).collect()
    }

    #[test]
    fn fields_of_each_type_are_read() {
        let message = [
            &[0x08, 0x96, 0x01][..],
            &[0x12, 2, b'h', b'i'],
            &[0x1d, 1, 0, 0, 0],
            &[0xa1, 0x01, 0, 0, 0, 0, 0, 0, 0, 0x80],
        ];
        let expected = [
            Ok((1, Value::Number(150))),
            Ok((2, Value::Bytes(b"hi"))),
            Ok((3, Value::Number(1))),
            Ok((20, Value::Number(1 << 63))),
        ];
        assert_eq!(fields(&message.concat()), expected);
    }

    #[test]
    fn lengths_beyond_the_message_and_long_varints_are_no_fields() {
        for message in [
            &[0x12, 3, b'h', b'i'][..],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x08, 0xff],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            &[0x0b],
        ] {
            assert_eq!(fields(message), [Err(NoField)], "{message:x?}");
        }
        let largest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&largest), [Ok((1, Value::Number(u64::MAX)))]);
    }
}
