//! The original state of a thread that was interrupted in generated code.

use hmtt_probe::address::RunAddr;

/// A set of general registers, by their numbers in encodings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub u16);

impl Registers {
    /// No register.
    pub const NONE: Registers = Registers(0);
    /// All sixteen registers.
    pub const ALL: Registers = Registers(0xffff);

    /// The set of one register.
    pub const fn one(register: u8) -> Self {
        Registers(1 << register)
    }

    /// Whether a register is in the set.
    pub const fn contains(self, register: u8) -> bool {
        self.0 >> register & 1 != 0
    }

    /// The set with the registers of another.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Registers(self.0 | other.0)
    }

    /// The set without the registers of another.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Registers(self.0 & !other.0)
    }

    /// Numbers of the registers, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..16).filter(move |register| self.contains(*register))
    }
}

/// Where the original instruction pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rip {
    /// It is this address.
    Address(RunAddr),
    /// It is in `rcx`, whose own value is borrowed.
    InRcx,
    /// It is in the thread area, as [`TARGET`](crate::layout::area::TARGET).
    InTarget,
}

/// What the program's flags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// The flags of the thread.
    Live,
    /// In the thread area, as [`FLAGS`](crate::layout::area::FLAGS).
    Saved,
    /// Unknown, and overwritten by the program before it reads them.
    Dead,
}

/// The original state of a thread that is about to execute an instruction of generated code.
///
/// Registers that are not mentioned have their original values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The original instruction pointer.
    pub rip: Rip,
    /// Registers whose original values are in the thread area. `r15` always is if there is a ring.
    pub borrowed: Registers,
    /// The program's flags.
    pub flags: Flags,
    /// `rcx` must be given the value of the original instruction pointer: the thread has just
    /// returned from a system call.
    pub rcx_is_rip: bool,
    /// The thread has made a system call that it has not noted in its ring yet. Its number is in
    /// the thread area, as [`CALL_NUMBER`](crate::layout::area::CALL_NUMBER).
    pub unnoted_call: bool,
    /// The block that the thread is in, and how many of its instructions it has executed. `None`
    /// between blocks.
    pub inside: Option<(u32, u16)>,
    /// The number of the block or path that the thread is in, if its accesses are recorded, and how
    /// many of its instructions it has executed.
    pub recorded: Option<(u32, u16)>,
    /// How many of its slots are stored ([`recorded`](crate::recorded)).
    pub stored: u16,
    /// The number of the blocks of a superblock that the thread has executed and not yet written to
    /// its ring. If the controller moves the thread out of the cache, it writes this number.
    pub unwritten: Option<u32>,
}

impl Point {
    /// A state in which nothing is in the thread area.
    pub const fn at(rip: Rip) -> Self {
        Point {
            rip,
            borrowed: Registers::NONE,
            flags: Flags::Live,
            rcx_is_rip: false,
            unnoted_call: false,
            inside: None,
            recorded: None,
            stored: 0,
            unwritten: None,
        }
    }
}
