//! Gives addresses in a file and in a process different types, and converts them by the load bias.
//!
//! A [`FileAddr`] is in the address space that a file was linked for: symbols, disassembled
//! instructions and generated stubs use it. A [`RunAddr`] is in the memory of a running process:
//! registers, mappings and memory accesses use it. Only a [`LoadBias`] converts one into the other,
//! so the two cannot be confused.
//!
//! For example, a library has a function at the file address 0x1200. A process has loaded the
//! library with the bias 0x7f00_0000_0000, so the function is at the run address 0x7f00_0000_1200.
//!
//! Invariant: the load bias is applied in this module only.

use std::fmt;
use std::ops::{Add, Range, Sub};

/// Defines an address type. Its arithmetic stays in the same address space.
macro_rules! address {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` bytes higher, modulo 2^64.
            pub fn wrapping_add(self, bytes: u64) -> Self {
                $name(self.0.wrapping_add(bytes))
            }

            /// The address `bytes` bytes lower, modulo 2^64.
            pub fn wrapping_sub(self, bytes: u64) -> Self {
                $name(self.0.wrapping_sub(bytes))
            }

            /// The address at a signed distance, modulo 2^64.
            pub fn wrapping_add_signed(self, distance: i64) -> Self {
                $name(self.0.wrapping_add_signed(distance))
            }

            /// The address `bytes` bytes higher, or the highest address.
            pub fn saturating_add(self, bytes: u64) -> Self {
                $name(self.0.saturating_add(bytes))
            }

            /// The address `bytes` bytes lower, or 0.
            pub fn saturating_sub(self, bytes: u64) -> Self {
                $name(self.0.saturating_sub(bytes))
            }

            /// The address `bytes` bytes higher; `None` if there is none.
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map($name)
            }

            /// The address `bytes` bytes lower; `None` if there is none.
            pub fn checked_sub(self, bytes: u64) -> Option<Self> {
                self.0.checked_sub(bytes).map($name)
            }

            /// Number of bytes from `start` to this address; `None` if this address is before it.
            pub fn offset_from(self, start: Self) -> Option<u64> {
                self.0.checked_sub(start.0)
            }

            /// Number of bytes from `start` to this address, modulo 2^64.
            pub fn wrapping_offset_from(self, start: Self) -> u64 {
                self.0.wrapping_sub(start.0)
            }

            /// This address, or the next multiple of `alignment` after it.
            pub fn next_multiple_of(self, alignment: u64) -> Self {
                $name(self.0.next_multiple_of(alignment))
            }
        }

        impl Add<u64> for $name {
            type Output = Self;

            fn add(self, bytes: u64) -> Self {
                $name(self.0 + bytes)
            }
        }

        impl Sub<u64> for $name {
            type Output = Self;

            fn sub(self, bytes: u64) -> Self {
                $name(self.0 - bytes)
            }
        }

        impl Sub for $name {
            type Output = u64;

            fn sub(self, start: Self) -> u64 {
                self.0 - start.0
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address! {
    /// An address in the address space that a file was linked for.
    FileAddr
}

address! {
    /// An address in the memory of a process.
    RunAddr
}

/// Difference between the addresses of a file's contents in a process and in the file, modulo 2^64.
///
/// An address of the file is converted before it is used in the process:
///
/// ```compile_fail,E0308
/// use hmtt_probe::address::FileAddr;
/// use hmtt_probe::ptrace::{Process, PtraceError};
///
/// fn change(process: &mut Process, function: FileAddr) -> Result<(), PtraceError> {
///     process.stopped()?.write(function, &[0xcc])
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadBias(u64);

impl LoadBias {
    /// The bias of a file that is not loaded, or that is loaded where it was linked for.
    pub const NONE: LoadBias = LoadBias(0);

    /// A bias that is known as a number, for example from the dynamic linker's records (`l_addr`).
    pub const fn new(bias: u64) -> Self {
        LoadBias(bias)
    }

    /// The bias with which the contents at `file` of a file are at `run` in the process.
    pub fn between(file: FileAddr, run: RunAddr) -> Self {
        LoadBias(run.0.wrapping_sub(file.0))
    }

    /// Converts an address in the file into the address in the process.
    pub fn to_run(self, address: FileAddr) -> RunAddr {
        RunAddr(address.0.wrapping_add(self.0))
    }

    /// Converts an address in the process into the address in the file.
    pub fn to_file(self, address: RunAddr) -> FileAddr {
        FileAddr(address.0.wrapping_sub(self.0))
    }

    /// Converts a range of addresses in the file into addresses in the process.
    pub fn range_to_run(self, range: &Range<FileAddr>) -> Range<RunAddr> {
        self.to_run(range.start)..self.to_run(range.end)
    }

    /// The bias as a number, for records of the dynamic linker and of unwinders.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_conversions_undo_each_other_for_any_bias() {
        for bias in [0, 1, 0x5555_5555_4000, u64::MAX - 4095, u64::MAX] {
            let bias = LoadBias::new(bias);
            for address in [0, 0x1000, 0x7fff_ffff_f000, u64::MAX] {
                let file = FileAddr(address);
                let run = bias.to_run(file);
                assert_eq!(bias.to_file(run), file);
                assert_eq!(LoadBias::between(file, run), bias);
            }
        }
        let bias = LoadBias::new(0x5555_5555_4000);
        assert_eq!(bias.to_run(FileAddr(0x1139)), RunAddr(0x5555_5555_5139));
        // A file that was linked for a high address and is loaded at a low one.
        assert_eq!(
            LoadBias::between(FileAddr(0x4000), RunAddr(0x1000)).to_file(RunAddr(0)),
            FileAddr(0x3000)
        );
    }
}
