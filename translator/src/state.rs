//! Describes the original state of a thread that was interrupted in generated code: where the
//! program's registers, flags and instruction pointer are.
//!
//! For example, generated code has saved `rcx` and loaded it with the target of a return. The state
//! there has [`Rip::InRcx`], and `rcx` is borrowed: its own value is in the thread area.

use hmtt_probe::address::RunAddr;

/// A set of general registers, by their numbers in encodings: `rax` is 0, `rcx` 1, `r15` 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers(pub u16);

impl Registers {
    /// No register.
    pub const NONE: Registers = Registers(0);
    /// All sixteen registers.
    pub const ALL: Registers = Registers(0xffff);

    /// The set of one register, with a number below 16.
    pub const fn one(register: u8) -> Self {
        Registers(1 << register)
    }

    /// Whether a register is in the set.
    pub const fn contains(self, register: u8) -> bool {
        self.0 >> register & 1 != 0
    }

    /// This set and the registers of another.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Registers(self.0 | other.0)
    }

    /// This set without the registers of another.
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
    /// It is this constant address.
    Address(RunAddr),
    /// It is in `rcx`, whose own value is borrowed.
    InRcx,
    /// It is in the field [`TARGET`](crate::layout::area::TARGET) of the thread area.
    InTarget,
}

/// Where the program's flags are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// In the flags of the thread.
    Live,
    /// In the field [`FLAGS`](crate::layout::area::FLAGS) of the thread area.
    Saved,
    /// Nowhere: the program overwrites them before it reads them.
    Dead,
}

/// The original state of a thread that is about to execute an instruction of generated code.
///
/// A register that no field mentions has its original value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The original instruction pointer.
    pub rip: Rip,
    /// Registers whose original values are in the thread area. With a ring, `r15` is always one of
    /// them.
    pub borrowed: Registers,
    /// The program's flags.
    pub flags: Flags,
    /// Whether the original value of `rcx` is the original instruction pointer: the thread has just
    /// returned from a system call.
    pub rcx_is_rip: bool,
    /// Whether the thread has made a system call that it has not noted in its ring yet. The number
    /// of the call is in the field [`CALL_NUMBER`](crate::layout::area::CALL_NUMBER) of the thread
    /// area.
    pub unnoted_call: bool,
    /// Number of the block that the thread is in, and how many of its instructions were executed.
    /// `None` between blocks.
    pub inside: Option<(u32, u16)>,
    /// Number of the block or path whose accesses are being recorded, and how many of its
    /// instructions were executed. `None` if no accesses are being recorded.
    pub recorded: Option<(u32, u16)>,
    /// How many slots of the block or path are stored ([`recorded`](crate::recorded)).
    pub stored: u16,
    /// Number for the executed blocks of a superblock, including the block that the thread is in,
    /// if the thread has not written this number to its ring yet. If the controller moves the
    /// thread out of the cache, the controller writes this number.
    pub unwritten: Option<u32>,
}

impl Point {
    /// A state in which all registers and flags have their original values.
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
