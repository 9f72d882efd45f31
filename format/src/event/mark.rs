//! Defines the register of a mark, and its name.

use core::fmt;

use crate::config::{MARK_FREE_FIRST, MARK_FREE_LAST, MARK_KERNEL_ENTER, MARK_KERNEL_EXIT};

/// Number of the configuration register that was accessed to make a mark, as the record states it.
/// A damaged record may state a number that is no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkRegister(pub u32);

impl fmt::Display for MarkRegister {
    /// Prints the name of the mark: `kernel_enter`, `kernel_exit`, `free N`, or `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u16::try_from(self.0) {
            Ok(MARK_KERNEL_ENTER) => f.write_str("kernel_enter"),
            Ok(MARK_KERNEL_EXIT) => f.write_str("kernel_exit"),
            Ok(register @ MARK_FREE_FIRST..=MARK_FREE_LAST) => {
                write!(f, "free {}", register - MARK_FREE_FIRST)
            }
            _ => f.write_str("unknown"),
        }
    }
}

impl fmt::LowerHex for MarkRegister {
    /// Prints the number of the register.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
