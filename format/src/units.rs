//! The quantities that cross module borders: clocks, physical addresses, accesses.

use core::fmt;

/// A point in time or a distance, in rising edges of the DDR clock (CK).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycles(pub u64);

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A physical byte address as the memory controller saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(pub u64);

impl fmt::Display for PhysAddr {
    /// Lower-case hexadecimal without prefix, as truth files write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Whether an access moved data out of the memory or into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// READ: memory to controller.
    Read,
    /// WRITE: controller to memory.
    Write,
}

impl Direction {
    /// The bit that stands for this direction in every record: 0 = read, 1 = write.
    pub const fn bit(self) -> u64 {
        matches!(self, Direction::Write) as u64
    }

    /// The direction a record's bit stands for.
    #[inline]
    pub const fn from_bit(write: bool) -> Self {
        if write { Direction::Write } else { Direction::Read }
    }

    /// `R` or `W`, as truth files write it.
    pub const fn letter(self) -> char {
        match self {
            Direction::Read => 'R',
            Direction::Write => 'W',
        }
    }
}

/// One memory access: when, which way, where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Clock of the READ or WRITE command (of the first one where bursts were merged to a line).
    pub clock: Cycles,
    /// Read or write.
    pub direction: Direction,
    /// First byte of the accessed burst or line.
    pub address: PhysAddr,
}

impl fmt::Display for Access {
    /// `clock R|W hex-address`: one line of a truth file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.clock, self.direction.letter(), self.address)
    }
}
