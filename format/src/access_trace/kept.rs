//! Values that the execution of a path hands to the next one: what registers hold at its end.
//!
//! A path that leads back to its own start is described twice. The *first* description keeps
//! values, and has slots for all it needs. The *repeated* one is that of an execution right behind
//! the first or the repeated one, as a whole. It takes the values that this has kept, has no slots
//! for them, and keeps values, too.
//!
//! | bytes of a kept value | |
//! |---|---|
//! | 2 | index of a value of the path |
//! | 8 | constant that is added to it, modulo 2^64 |

use super::take;

/// Most values that a path keeps: those of all general registers.
pub const MOST_KEPT: usize = 16;

/// A value that is kept: one of the path's, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Index of the path's value.
    pub value: u16,
    /// The constant, in bytes.
    pub plus: i64,
}

/// Behind what a path is executed that takes kept values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repeated {
    /// Number of the first path as a whole; 0 if the path takes no values.
    pub first: u32,
    /// How many values it takes: as many as that keeps.
    pub taken: u16,
}

impl Kept {
    /// What is kept. `values`: those of the path; missing ones count as 0.
    #[inline]
    pub fn of(self, values: &[u64]) -> u64 {
        let value = values.get(usize::from(self.value)).copied().unwrap_or(0);
        value.wrapping_add(self.plus as u64)
    }

    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.value.to_le_bytes());
        bytes.extend(self.plus.to_le_bytes());
    }

    /// The kept value that is described at the start of bytes, which are taken. `values`: how many
    /// the path has.
    pub(super) fn parse(bytes: &mut &[u8], values: usize) -> Option<Self> {
        let value = u16::from_le_bytes(*take(bytes)?);
        let plus = i64::from_le_bytes(*take(bytes)?);
        (usize::from(value) < values).then_some(Kept { value, plus })
    }
}
