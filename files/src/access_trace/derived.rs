//! Defines derived values: what a block computes from registers that are in slots, and then uses as
//! addresses.
//!
//! Example: slot 0 contains `rax`, slot 1 contains `rcx`, and the block executes `movsxd rcx, ecx`,
//! `lea rbx, [rax + rcx*4]`, `mov edx, [rbx + 8]`. Value 2 is value 1
//! [sign-extended](Operation::SignExtended) from 32 bits, value 3 is the
//! [product](Operation::Product) of value 2 and the factor 4, and value 4 is the
//! [sum](Operation::Sum) of value 3 and value 0. The address of the load is value 4 plus 8.
//!
//! | bytes of a derived value | |
//! |---|---|
//! | 1 | kind |
//! | 1 | number, by kind |
//! | 2 | index of the source value: values of slots come first, then earlier derived values |
//! | 8 | constant that is added to the source value before the operation, modulo 2^64 |
//!
//! | kind | | number | further bytes |
//! |---|---|---|---|
//! | 0 | [`Sum`](Operation::Sum) | 0 | 2: index of the other value |
//! | 1 | [`Product`](Operation::Product) | 0 | 8: the factor |
//! | 2 | [`ZeroExtended`](Operation::ZeroExtended) | number of bits, 1 to 63 | |
//! | 3 | [`SignExtended`](Operation::SignExtended) | number of bits, 1 to 63 | |
//! | 4 | [`ShiftedRight`](Operation::ShiftedRight) | number of bits, 1 to 63 | |
//! | 5 | [`ArithmeticallyShiftedRight`](Operation::ArithmeticallyShiftedRight) | number of bits, 1 to 63 | |
//! | 6 | [`Masked`](Operation::Masked) | 0 | 8: the mask |

use super::take;

/// An operation on a value. All arithmetic is modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Another value is added.
    Sum {
        /// Index of the other value.
        other: u16,
    },
    /// The value is multiplied by a constant.
    Product {
        /// The factor.
        by: u64,
    },
    /// The low `bits` bits are kept, and all bits above them are cleared.
    ZeroExtended {
        /// Number of bits that are kept, 1 to 63.
        bits: u8,
    },
    /// The low `bits` bits are kept, and all bits above them become copies of the highest kept bit.
    SignExtended {
        /// Number of bits that are kept, 1 to 63.
        bits: u8,
    },
    /// The value is shifted to the right, and zeros are shifted in.
    ShiftedRight {
        /// Number of bits by which it is shifted, 1 to 63.
        by: u8,
    },
    /// The value is shifted to the right, and copies of its highest bit are shifted in.
    ArithmeticallyShiftedRight {
        /// Number of bits by which it is shifted, 1 to 63.
        by: u8,
    },
    /// The bits outside of a mask are cleared.
    Masked {
        /// Bits that are kept.
        mask: u64,
    },
}

/// A value that is computed from one or two earlier values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Derived {
    /// Index of the source value.
    pub of: u16,
    /// Constant that is added to the source value before the operation.
    pub plus: i64,
    /// Operation on that sum.
    pub operation: Operation,
}

impl Operation {
    /// Applies the operation to `value`. `other`: returns the value with an index; only
    /// [`Operation::Sum`] calls it.
    ///
    /// ```
    /// use hmtt_files::access_trace::Operation;
    ///
    /// let none = |_| 0;
    /// assert_eq!(Operation::ZeroExtended { bits: 32 }.apply(u64::MAX, none), 0xffff_ffff);
    /// assert_eq!(Operation::SignExtended { bits: 8 }.apply(0x180, none), 0xffff_ffff_ffff_ff80);
    /// ```
    #[inline]
    pub fn apply(self, value: u64, other: impl FnOnce(u16) -> u64) -> u64 {
        match self {
            Operation::Sum { other: index } => value.wrapping_add(other(index)),
            Operation::Product { by } => value.wrapping_mul(by),
            Operation::ZeroExtended { bits } => {
                let unused = 64 - u32::from(bits);
                value.wrapping_shl(unused).wrapping_shr(unused)
            }
            Operation::SignExtended { bits } => {
                let unused = 64 - u32::from(bits);
                (value.wrapping_shl(unused) as i64).wrapping_shr(unused) as u64
            }
            Operation::ShiftedRight { by } => value.wrapping_shr(by.into()),
            Operation::ArithmeticallyShiftedRight { by } => {
                (value as i64).wrapping_shr(by.into()) as u64
            }
            Operation::Masked { mask } => value & mask,
        }
    }
}

impl Derived {
    /// Computes the value. `values`: all earlier values; a missing one counts as 0.
    #[inline]
    pub fn value(self, values: &[u64]) -> u64 {
        let at = |index: u16| values.get(usize::from(index)).copied().unwrap_or(0);
        self.operation.apply(at(self.of).wrapping_add(self.plus as u64), at)
    }

    /// Indexes of the source values, twice the same one if there is only one.
    fn sources(self) -> [u16; 2] {
        match self.operation {
            Operation::Sum { other } => [self.of, other],
            _ => [self.of; 2],
        }
    }

    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        let (kind, number) = match self.operation {
            Operation::Sum { .. } => (0, 0),
            Operation::Product { .. } => (1, 0),
            Operation::ZeroExtended { bits } => (2, bits),
            Operation::SignExtended { bits } => (3, bits),
            Operation::ShiftedRight { by } => (4, by),
            Operation::ArithmeticallyShiftedRight { by } => (5, by),
            Operation::Masked { .. } => (6, 0),
        };
        bytes.extend([kind, number]);
        bytes.extend(self.of.to_le_bytes());
        bytes.extend(self.plus.to_le_bytes());
        match self.operation {
            Operation::Sum { other } => bytes.extend(other.to_le_bytes()),
            Operation::Product { by: constant } | Operation::Masked { mask: constant } => {
                bytes.extend(constant.to_le_bytes());
            }
            _ => {}
        }
    }

    /// Parses a derived value and removes its bytes from the start of `bytes`. `before`: number of
    /// earlier values. `None` if the bytes are invalid, or name a value that is not earlier.
    pub(super) fn parse(bytes: &mut &[u8], before: usize) -> Option<Self> {
        let [kind, number] = *take(bytes)?;
        let source = u16::from_le_bytes(*take(bytes)?);
        let plus = i64::from_le_bytes(*take(bytes)?);
        let mut constant = || Some(u64::from_le_bytes(*take(bytes)?));
        let bits = Some(number).filter(|bits| (1..64).contains(bits));
        let operation = match (kind, number) {
            (0, 0) => Operation::Sum { other: u16::from_le_bytes(*take(bytes)?) },
            (1, 0) => Operation::Product { by: constant()? },
            (2, _) => Operation::ZeroExtended { bits: bits? },
            (3, _) => Operation::SignExtended { bits: bits? },
            (4, _) => Operation::ShiftedRight { by: bits? },
            (5, _) => Operation::ArithmeticallyShiftedRight { by: bits? },
            (6, 0) => Operation::Masked { mask: constant()? },
            _ => return None,
        };
        let derived = Derived { of: source, plus, operation };
        derived.sources().iter().all(|index| usize::from(*index) < before).then_some(derived)
    }
}
