//! The result of counting.

use super::calls::Calls;
use super::indirect::Edge;
use super::intervals::Intervals;
use super::models::Models;

/// What was counted of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTally {
    /// Executions.
    pub executions: u64,
    /// Executions that follow no other block.
    pub starts: u64,
    /// Executions that no other block follows.
    pub stops: u64,
    /// Jumps to the target, of a conditional block.
    pub taken: u64,
    /// Edges into the block beyond the limit of edges, from indirect blocks.
    pub other_edges: u64,
}

/// Counts by block.
pub struct Sums {
    /// By number of the block; the first one, and those of paths, are not used.
    pub blocks: Vec<BlockTally>,
    /// Edges of indirect blocks that the table of edges does not contain.
    pub edges: Vec<(Edge, u64)>,
    /// The same within paths.
    pub inner_edges: Vec<(Edge, u64)>,
}

/// What was counted of a superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Numbers of its blocks.
    pub blocks: Vec<u32>,
    /// Executions, each of which wrote one number.
    pub executions: u64,
    /// Executions of the whole path.
    pub completed: u64,
    /// Blocks that were executed in it.
    pub blocks_executed: u64,
    /// Ticks of the time stamp counter that threads have spent in it, as sampled.
    pub ticks: u64,
    /// Whether it was not used any more at the end.
    pub is_undone: bool,
}

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Counts by number of the block; the first one is not used.
    pub blocks: Vec<BlockTally>,
    /// Edges of indirect blocks.
    pub edges: Vec<(Edge, u64)>,
    /// System calls that were noted in the rings.
    pub calls: Calls,
    /// Numbers that were read, with notes.
    pub numbers: u64,
    /// Numbers of no block.
    pub invalid: u64,
    /// Addresses of blocks whose executions differ from the edges into them and their starts;
    /// `None` without edges.
    pub unbalanced: Option<u64>,
    /// Ticks of the time stamp counter that threads have spent in the cache, without pauses.
    pub ticks: u64,
    /// Results of models.
    pub models: Models,
    /// Superblocks, in the order in which they were built.
    pub superblocks: Vec<Superblock>,
    /// Instructions of the first thread by intervals, if they were counted.
    pub intervals: Option<Intervals>,
}
