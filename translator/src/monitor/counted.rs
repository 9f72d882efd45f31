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
    /// Addresses of blocks whose executions differ from the edges into them and their starts; `None` without edges.
    pub unbalanced: Option<u64>,
    /// Results of models.
    pub models: Models,
    /// Instructions of the first thread by intervals, if they were counted.
    pub intervals: Option<Intervals>,
}
