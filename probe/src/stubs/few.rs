//! A few bytes of instructions: there are many such pieces, so none has memory of its own.

use std::ops::Deref;

/// Most bytes.
const MOST: usize = 8;

/// At most eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Few {
    bytes: [u8; MOST],
    count: u8,
}

impl Few {
    /// These; `None` if they are too many.
    pub fn of(some: &[u8]) -> Option<Few> {
        let mut bytes = [0; MOST];
        bytes.get_mut(..some.len())?.copy_from_slice(some);
        Some(Few { bytes, count: some.len() as u8 })
    }

    /// With zeros behind them.
    pub fn padded(&self) -> [u8; MOST] {
        self.bytes
    }
}

impl<const N: usize> From<[u8; N]> for Few {
    fn from(some: [u8; N]) -> Few {
        const { assert!(N <= MOST) };
        let mut bytes = [0; MOST];
        bytes[..N].copy_from_slice(&some);
        Few { bytes, count: N as u8 }
    }
}

impl Deref for Few {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }
}
