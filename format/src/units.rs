//! Defines the quantities that modules exchange: clocks, physical addresses, accesses.

use core::fmt;

/// A point in time or a distance, in rising edges of the DDR clock (CK).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cycles(pub u64);

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A physical byte address, as the memory controller uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(pub u64);

impl PhysAddr {
    /// Parses hexadecimal digits without a prefix; `None` for any other text.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let address = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
        address.map(PhysAddr)
    }
}

impl fmt::Display for PhysAddr {
    /// Prints the address in lower-case hexadecimal without a prefix, as in truth files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// READ: from the memory to the controller.
    Read,
    /// WRITE: from the controller to the memory.
    Write,
}

impl Direction {
    /// The bit of this direction in every record: 0 for a read, 1 for a write.
    pub const fn bit(self) -> u64 {
        matches!(self, Direction::Write) as u64
    }

    /// Converts the bit of a record.
    #[inline]
    pub const fn from_bit(write: bool) -> Self {
        if write { Direction::Write } else { Direction::Read }
    }

    /// The letter of this direction in truth files and tables: `R` or `W`.
    pub const fn letter(self) -> char {
        match self {
            Direction::Read => 'R',
            Direction::Write => 'W',
        }
    }

    /// The direction with this letter, which is a capital.
    pub const fn from_letter(letter: char) -> Option<Self> {
        match letter {
            'R' => Some(Direction::Read),
            'W' => Some(Direction::Write),
            _ => None,
        }
    }
}

/// One memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Access {
    /// Clock of the READ or WRITE command; of the first one where bursts were merged into one
    /// access to a line.
    pub clock: Cycles,
    /// Read or write.
    pub direction: Direction,
    /// Address of the first byte of the accessed burst or line.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::event::serialised::prefixed"))]
    pub address: PhysAddr,
}

impl fmt::Display for Access {
    /// Prints `clock R|W hex-address`, one line of a truth file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.clock, self.direction.letter(), self.address)
    }
}
