//! Writes and reads the fields of a chunk: numbers of variable length, and texts with their length
//! in front.

use crate::varint;

/// Appends a number.
pub fn push(number: u64, to: &mut Vec<u8>) {
    let mut bytes = [0; varint::BYTES_AT_MOST];
    let length = varint::write(number, &mut bytes);
    to.extend_from_slice(&bytes[..length]);
}

/// Appends a text of at most `most` bytes. A longer text is cut between two characters.
pub fn push_text(text: &str, most: usize, to: &mut Vec<u8>) {
    let text = &text[..text.floor_char_boundary_at(most)];
    push(text.len() as u64, to);
    to.extend_from_slice(text.as_bytes());
}

trait Boundary {
    /// The largest index, at most `most`, at which a character begins or the text ends.
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        let most = most.min(self.len());
        (0..=most).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// The part of a chunk that has not been read yet.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Reads a number; `None` if it is truncated or has more than 64 bits.
    pub fn number(&mut self) -> Option<u64> {
        varint::read(&mut self.0)
    }

    /// Reads a number; `None` if it is truncated or has more than 32 bits.
    pub fn short(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Reads `N` bytes; `None` if there are fewer.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Reads a text; `None` if it is truncated. Bytes that are not UTF-8 are replaced.
    pub fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest): (&'a [u8], _) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
