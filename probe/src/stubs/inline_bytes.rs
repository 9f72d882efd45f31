//! Holds a short byte string without an allocation, because there are many edits of a few bytes
//! each.

use std::ops::Deref;

/// Capacity in bytes.
const CAPACITY: usize = 8;

/// A byte string of at most eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineBytes {
    bytes: [u8; CAPACITY],
    count: u8,
}

impl InlineBytes {
    /// Copies bytes; `None` if there are more than eight.
    pub fn from_slice(bytes_in: &[u8]) -> Option<InlineBytes> {
        let mut bytes = [0; CAPACITY];
        bytes.get_mut(..bytes_in.len())?.copy_from_slice(bytes_in);
        Some(InlineBytes { bytes, count: bytes_in.len() as u8 })
    }

    /// The bytes, padded with zeros.
    pub fn padded(&self) -> [u8; CAPACITY] {
        self.bytes
    }
}

impl<const N: usize> From<[u8; N]> for InlineBytes {
    fn from(bytes_in: [u8; N]) -> InlineBytes {
        const { assert!(N <= CAPACITY) };
        let mut bytes = [0; CAPACITY];
        bytes[..N].copy_from_slice(&bytes_in);
        InlineBytes { bytes, count: N as u8 }
    }
}

impl Deref for InlineBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }
}
