//! Wraps values read from memory that the traced process can change at any time.
//!
//! Invariant: such a value can only be used after a check against known limits. Each value is read
//! once from memory, so the value that was checked is the value that is used.
//!
//! For example, `Untrusted::new(number).below(limit)` is `None` if the process has written a number
//! that is not less than `limit`.

use std::ops::RangeInclusive;

/// A value that the process may have written.
#[derive(Clone, Copy, Debug)]
pub struct Untrusted<T>(T);

impl<T: Copy + PartialOrd> Untrusted<T> {
    /// Wraps a value that was just read.
    pub fn new(value: T) -> Self {
        Untrusted(value)
    }

    /// Whether the wrapped value equals `value`.
    pub fn is(self, value: T) -> bool {
        self.0 == value
    }

    /// The value, if it is less than a limit.
    pub fn below(self, limit: T) -> Option<T> {
        Some(self.0).filter(|value| *value < limit)
    }

    /// The value, if it is within limits.
    pub fn within(self, limits: RangeInclusive<T>) -> Option<T> {
        Some(self.0).filter(|value| limits.contains(value))
    }

    /// The value without a check, for uses that are safe with any value, such as a comparison with
    /// a later value.
    pub fn any(self) -> T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beyond_its_limits_is_none() {
        let value = Untrusted::new(7u64);
        assert_eq!([value.below(7), value.below(8)], [None, Some(7)]);
        assert_eq!([value.within(8..=9), value.within(7..=7)], [None, Some(7)]);
        assert!(value.is(7) && !value.is(8));
    }
}
