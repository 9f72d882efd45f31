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

    /// Returns the first byte of the page that has this address. `bytes`: size of a page; 0 counts
    /// as 1.
    ///
    /// ```
    /// # use hmtt_format::PhysAddr;
    /// assert_eq!(PhysAddr(0x1234_5678).page(4096), PhysAddr(0x1234_5000));
    /// ```
    pub const fn page(self, bytes: u64) -> Self {
        self.block(bytes)
    }

    /// Returns the first byte of the cache line that has this address. `bytes`: size of a line; 0
    /// counts as 1.
    ///
    /// ```
    /// # use hmtt_format::PhysAddr;
    /// assert_eq!(PhysAddr(0x1234_5678).line(64), PhysAddr(0x1234_5640));
    /// ```
    pub const fn line(self, bytes: u64) -> Self {
        self.block(bytes)
    }

    const fn block(self, bytes: u64) -> Self {
        PhysAddr(if bytes == 0 { self.0 } else { self.0 - self.0 % bytes })
    }
}

impl fmt::Display for PhysAddr {
    /// Prints the address in lower-case hexadecimal without a prefix, as in truth files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Direction of an access.
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
        self.is_write() as u64
    }

    /// Whether the access is a write.
    pub const fn is_write(self) -> bool {
        matches!(self, Direction::Write)
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
    /// Clock of the READ or WRITE command. If bursts were merged into one access to a line, it is
    /// the clock of the first command.
    pub clock: Cycles,
    /// Direction of the access.
    pub direction: Direction,
    /// Address of the first byte of the accessed burst or line.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::event::serialised::prefixed"))]
    pub address: PhysAddr,
}

impl Access {
    /// Whether the access is a write.
    pub const fn is_write(&self) -> bool {
        self.direction.is_write()
    }
}

impl fmt::Display for Access {
    /// Prints `clock R|W hex-address`, one line of a truth file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.clock, self.direction.letter(), self.address)
    }
}
