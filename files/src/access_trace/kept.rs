//! Defines the values that an execution of a path passes on to the next execution: contents of
//! registers at the end of the path.
//!
//! A path that leads back to its own start is described twice. The *first* description has slots
//! for all values that it needs. The *repeated* description is used for an execution that directly
//! follows a complete execution of the path. It takes the values that this previous execution has
//! kept, and has no slots for them. Both descriptions keep values.
//!
//! Example: a loop contains `mov rax, [rbx]` and `add rbx, 8`. The first description has a slot for
//! `rbx`, and keeps this value plus 8. The repeated description has no slot: it takes the kept
//! value as `rbx`, and keeps it plus 8.
//!
//! | bytes of a kept value | |
//! |---|---|
//! | 2 | index of a value of the path |
//! | 8 | constant that is added to it, modulo 2^64 |

use super::take;

/// Maximum number of values that a path keeps, one for each general register.
pub const MOST_KEPT: usize = 16;

/// A kept value: a value of the path, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Index of the value of the path.
    pub value: u16,
    /// Constant that is added, in bytes, modulo 2^64.
    pub plus: i64,
}

/// States the path whose kept values another path takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repeated {
    /// Number of the first path as a whole; 0 if this path takes no values.
    pub first: u32,
    /// Number of values that this path takes. The first path keeps the same number.
    pub taken: u16,
}

impl Kept {
    /// Computes the kept value. `values`: the values of the path; a missing one counts as 0.
    #[inline]
    pub fn of(self, values: &[u64]) -> u64 {
        let value = values.get(usize::from(self.value)).copied().unwrap_or(0);
        value.wrapping_add(self.plus as u64)
    }

    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.value.to_le_bytes());
        bytes.extend(self.plus.to_le_bytes());
    }

    /// Parses a kept value and removes its bytes from the start of `bytes`. `values`: number of
    /// values of the path. `None` if the bytes are invalid, or name a value that the path does not
    /// have.
    pub(super) fn parse(bytes: &mut &[u8], values: usize) -> Option<Self> {
        let value = u16::from_le_bytes(*take(bytes)?);
        let plus = i64::from_le_bytes(*take(bytes)?);
        (usize::from(value) < values).then_some(Kept { value, plus })
    }
}
