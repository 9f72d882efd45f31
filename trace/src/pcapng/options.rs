//! Splits the options of a block. An option has a code, a length, a value, and padding to 32 bits
//! (draft-ietf-opsawg-pcapng, 3.5).
//!
//! Values are returned as bytes, so that an option that nobody uses cannot be wrong. The only error
//! is an option that extends beyond the end of its block, because the begin of the next option is
//! not known then.

/// The code of `opt_endofopt`, which ends the options of a block but may be absent.
const END: u16 = 0;
/// The code of `opt_comment`, in all blocks.
pub const COMMENT: u16 = 1;
/// Bytes of an option's code and length.
const HEADER_BYTES: usize = 4;
/// A value is padded to a multiple of this many bytes.
const PADDED_TO: usize = 4;

/// One option of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOption<'a> {
    /// The code, whose meaning depends on the block's type.
    pub code: u16,
    /// The value without its padding.
    pub value: &'a [u8],
}

impl BlockOption<'_> {
    /// The value as text. Bytes that are not UTF-8 become `\xHH`, so that different values stay
    /// different.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.value.len());
        for chunk in self.value.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        text
    }

    /// The value as an array; `None` if it has another length.
    pub fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.value.try_into().ok()
    }
}

/// Iterates over the options of a block, in their order.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Whether the section is in big-endian byte order.
    big_endian: bool,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Creates an iterator over the options in `bytes`: the bytes between the block's fields and
    /// the length at its end.
    pub fn new(big_endian: bool, bytes: &'a [u8]) -> Self {
        Options { big_endian, rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<BlockOption<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let Some((header, values)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Some(Err("its options end within an option"));
        };
        let [a, b, c, d] = *header;
        let number = if self.big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
        let [code, length] = [number([a, b]), number([c, d])];
        if code == END {
            return None;
        }
        let length = usize::from(length);
        let Some(value) = values.get(..length) else {
            return Some(Err("an option is longer than the rest of the block"));
        };
        self.rest = values.get(length.next_multiple_of(PADDED_TO)..).unwrap_or_default();
        Some(Ok(BlockOption { code, value }))
    }
}
