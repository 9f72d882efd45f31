//! Splits accesses into groups, by kernel and user, by marks, by functions, or by threads, each
//! with its own analysis.
//!
//! ```text
//! Part -> chooser (pair, tagged, ...) -> groups of the accesses -> labels -> instances -> result of each group
//! ```
//!
//! Invariants: without [`Functions::inclusive`] every access is in exactly one group, so the sums
//! of the groups' accesses are those of the whole. There are at most as many groups as were asked
//! for, and one of all others. Time is linear in the input: what concerns all groups (gaps,
//! restarts, what is known) is passed to a group with its next access.
//!
//! What a source does not know gives a group of its own, [`NOT_KNOWN`], and a note: it is no error.

mod chooser;
mod fold;
mod instances;
mod instructions;
mod labels;
mod pair;
mod rows;
#[cfg(feature = "tags")]
mod tagged;
#[cfg(all(test, feature = "access-traces"))]
mod tests;
pub mod tracks;

use hmtt_format::config::{MARK_FREE_FIRST, MARK_KERNEL_ENTER, MARK_KERNEL_EXIT};
#[cfg(feature = "tags")]
use hmtt_format::tag_map::TagMap;

pub use fold::{GroupResult, SplitFold};

/// Group of accesses whose group the source does not know.
pub const NOT_KNOWN: &str = "(not known)";
/// Group of the accesses for which there were too many groups.
pub const OTHERS: &str = "(others)";
/// Usual limit of groups.
pub const MOST_GROUPS: usize = 1024;

/// What begins or ends a stretch of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A mark, by its configuration register.
    Mark(u32),
    /// A write to the card's window, by its offset there in bytes.
    Tag(u32),
}

impl Place {
    /// The mark for free use with a number from 0 to 255.
    pub const fn free_mark(number: u8) -> Place {
        Place::Mark(MARK_FREE_FIRST as u32 + number as u32)
    }
}

/// What begins and what ends a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What begins it.
    pub begin: Place,
    /// What ends it.
    pub end: Place,
}

impl Pair {
    /// The marks that kernels make when they are entered and left.
    pub const KERNEL: Pair = Pair {
        begin: Place::Mark(MARK_KERNEL_ENTER as u32),
        end: Place::Mark(MARK_KERNEL_EXIT as u32),
    };
}

/// How accesses belong to functions.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// Names of the functions of a capture's tags.
    #[cfg(feature = "tags")]
    pub map: Option<TagMap>,
    /// Whether an access belongs to all open functions, and not only to the innermost one.
    pub inclusive: bool,
}

/// What decides the group of an access.
#[derive(Clone, Debug)]
pub enum By {
    /// Kernel or user, by what the kernel writes when it is entered and left.
    Kernel(Pair),
    /// Inside or outside of stretches.
    Mark(Pair),
    /// The function.
    Function(Functions),
    /// The thread.
    Thread,
}

impl By {
    /// Whether an access may be in several groups.
    pub const fn is_inclusive(&self) -> bool {
        matches!(self, By::Function(functions) if functions.inclusive)
    }

    /// Its name in outputs.
    pub const fn name(&self) -> &'static str {
        match self {
            By::Kernel(_) => "kernel",
            By::Mark(_) => "mark",
            By::Function(_) => "function",
            By::Thread => "thread",
        }
    }
}
