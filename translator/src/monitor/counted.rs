//! Defines the results of counting blocks.

use super::calls::Calls;
use super::indirect::Edge;
use super::intervals::Intervals;
use super::models::Models;

/// Counts of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTally {
    /// Number of executions.
    pub executions: u64,
    /// Executions that did not follow another block.
    pub starts: u64,
    /// Executions that no other block followed.
    pub stops: u64,
    /// Number of times that the conditional jump at the end was taken.
    pub taken: u64,
    /// Indirect edges into the block that are not listed, because there were too many edges.
    pub other_edges: u64,
}

/// Counts of all blocks.
pub struct Sums {
    /// Counts by number of the block. Index 0 and the numbers of paths are not used.
    pub blocks: Vec<BlockTally>,
    /// Edges of indirect blocks that are missing in the table of edges.
    pub edges: Vec<(Edge, u64)>,
    /// Edges of indirect blocks within paths.
    pub inner_edges: Vec<(Edge, u64)>,
}

/// Counts of a superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Numbers of the superblock's blocks, in order.
    pub blocks: Vec<u32>,
    /// Number of executions. Each of them wrote one number.
    pub executions: u64,
    /// Number of executions of the whole path.
    pub completed: u64,
    /// Number of blocks that were executed in the superblock.
    pub blocks_executed: u64,
    /// Ticks of the time stamp counter that threads have spent in the superblock, estimated from
    /// samples.
    pub ticks: u64,
    /// Whether the superblock was not used any longer at the end.
    pub is_undone: bool,
}

/// All results of counting.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Counts by number of the block. Index 0 is not used.
    pub blocks: Vec<BlockTally>,
    /// Edges of indirect blocks, with the number of transfers.
    pub edges: Vec<(Edge, u64)>,
    /// System calls that threads noted in the rings.
    pub calls: Calls,
    /// Number of words that were read from rings, including notes.
    pub numbers: u64,
    /// Number of words that are the number of no block.
    pub invalid: u64,
    /// Number of addresses of blocks at which executions differ from the edges into the block plus
    /// its starts; `None` if edges were not recorded.
    pub unbalanced: Option<u64>,
    /// Ticks of the time stamp counter that threads have spent in the cache, without pauses.
    pub ticks: u64,
    /// Results of models.
    pub models: Models,
    /// Superblocks, in the order in which they were built.
    pub superblocks: Vec<Superblock>,
    /// Instructions of the first thread, divided into intervals, if they were counted.
    pub intervals: Option<Intervals>,
}
