//! Says which accesses are recorded, and for which execution of a path.

use hmtt_format::Direction;

use crate::selection::{Equality, Selector};

/// Which accesses are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How accesses are chosen within a scope.
    pub selector: Selector,
    /// Where the selector chooses: in each block, or in each superblock.
    pub scope: Scope,
    /// When two accesses are equal, so that one represents the other. Ignored by
    /// [`Selector::Every`].
    pub equality: Equality,
    /// If there is a direction, only its accesses are recorded.
    pub direction: Option<Direction>,
    /// Whether blocks without chosen accesses write their numbers, too.
    pub silence: Silence,
}

/// The code among whose accesses the selector chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A basic block, also where it is part of a superblock.
    Block,
    /// A superblock, or a basic block that is executed by itself. If functions of a superblock are
    /// recorded to different [extents](crate::extent::Extent), each run of successive blocks with
    /// one extent is a scope.
    Superblock,
}

/// Which blocks without chosen accesses write nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No block: all blocks write their numbers.
    Never,
    /// Superblocks, and hot blocks from which no superblock is built. Other blocks still write
    /// their numbers, by which hot paths are found.
    Superblocks,
}

impl Choice {
    /// All accesses are recorded, and all blocks write their numbers.
    pub const EVERY: Choice = Choice {
        selector: Selector::Every,
        scope: Scope::Block,
        equality: Equality::Values,
        direction: None,
        silence: Silence::Never,
    };
}

/// Which execution of a path is meant, where a path leads back to its own start.
///
/// For example, a path loads from `[rdi]`, adds 8 to `rdi` and jumps back to its start. Its first
/// execution stores `rdi` in a slot and keeps `rdi + 8`. Each repeated execution takes that value,
/// so it has no slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// Any execution: it takes and keeps no values.
    #[default]
    Any,
    /// An execution that may be followed by repeated ones. It keeps values for them.
    First,
    /// An execution directly after the first or a repeated one. It takes the values that the
    /// execution before it has kept. The number stands for the first path as a whole.
    Repeated(u32),
}
