//! Splits accesses into groups (kernel and user, marks, functions, or threads), and analyses each
//! group separately.
//!
//! ```text
//! Part -> chooser (pair, tagged, ...) -> groups of the accesses -> labels -> instances -> result of each group
//! ```
//!
//! Invariants: without [`Functions::inclusive`] every access is in exactly one group, so the
//! groups' accesses add up to all accesses. There are at most as many groups as were asked for, and
//! one group for all other accesses. Time is linear in the input: gaps, restarts and facts about
//! the source concern all groups, and are passed to a group with its next access.
//!
//! Accesses whose group a source does not know are in the group [`NOT_KNOWN`], and a note says so.
//! This is no error.

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

#[cfg(feature = "tags")]
use hmtt_files::tag_map::TagMap;
use hmtt_format::config::{MARK_FREE_FIRST, MARK_KERNEL_ENTER, MARK_KERNEL_EXIT};

pub use fold::{GroupResult, SplitFold};

/// Group of the accesses whose thread, function or stretch the source does not know.
pub const NOT_KNOWN: &str = "(not known)";
/// Group of the accesses that are in no other group because there were too many groups.
pub const OTHERS: &str = "(others)";
/// Usual limit of the number of groups.
pub const MOST_GROUPS: usize = 1024;

/// An event that begins or ends a stretch of a trace.
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

/// The events that begin and end stretches of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The event that begins a stretch.
    pub begin: Place,
    /// The event that ends a stretch.
    pub end: Place,
}

impl Pair {
    /// The marks that kernels make when they are entered and left.
    pub const KERNEL: Pair = Pair {
        begin: Place::Mark(MARK_KERNEL_ENTER as u32),
        end: Place::Mark(MARK_KERNEL_EXIT as u32),
    };
}

/// How accesses are attributed to functions.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// Names of the functions of a capture's tags.
    #[cfg(feature = "tags")]
    pub map: Option<TagMap>,
    /// Whether an access belongs to all open functions, and not only to the innermost one.
    pub inclusive: bool,
}

/// The property that decides the group of an access.
#[derive(Clone, Debug)]
pub enum By {
    /// Kernel or user, by the marks or tags that the kernel writes when it is entered and left.
    Kernel(Pair),
    /// Inside or outside of the stretches between a pair of marks or tags.
    Mark(Pair),
    /// The function that made the access.
    Function(Functions),
    /// The thread that made the access.
    Thread,
}

impl By {
    /// Whether an access may be in several groups.
    pub const fn is_inclusive(&self) -> bool {
        matches!(self, By::Function(functions) if functions.inclusive)
    }

    /// The name of the property in outputs.
    pub const fn name(&self) -> &'static str {
        match self {
            By::Kernel(_) => "kernel",
            By::Mark(_) => "mark",
            By::Function(_) => "function",
            By::Thread => "thread",
        }
    }
}
