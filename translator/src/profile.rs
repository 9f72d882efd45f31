//! Holds what a process has executed: its blocks, and how often each was executed.
//!
//! [`Profile::to_file`] adds names, such as files and functions, and converts it to the format of
//! files.

mod code_image;
mod file;
mod files;
mod names;
mod selected;

pub use file::Written;
pub use files::{CodeFiles, OpenFiles, Reason};
pub use names::{Names, Place, Unread};

use std::path::PathBuf;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::Mapping;

use crate::monitor::calls::Calls;
use crate::monitor::code::BlockCode;
use crate::monitor::counted::{BlockTally, Superblock};
use crate::monitor::indirect::Edge;
use crate::monitor::intervals::Intervals;
use crate::monitor::models::{Modelled, Models};

/// A block that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of the block, from 1 on, in the order of translation.
    pub number: u32,
    /// Where it begins and how it ends.
    pub code: BlockCode,
    /// Original bytes of its instructions.
    pub bytes: Box<[u8]>,
    /// Counts of its executions, and of what was executed before and after them.
    pub tally: BlockTally,
    /// Number of instructions that were not executed in these executions, because a signal
    /// interrupted the block. They are executed as a part of another block, if at all.
    pub unexecuted: u64,
    /// Counts of models, such as mispredictions.
    pub modelled: Modelled,
    /// The mapping that contains it; `None` if its memory was unmapped.
    pub mapping: Option<Mapping>,
}

/// An address at which threads left the cache, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCode {
    /// Original address.
    pub at: RunAddr,
    /// Why the instruction there is not translated.
    pub why: String,
    /// How often threads got to it, and for how long.
    pub used: NativeUse,
}

/// Counts of threads that got to an address that is not translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeUse {
    /// How often threads got to it.
    pub times: u64,
    /// Processor time until these threads were in the cache again, in nanoseconds.
    pub processor_ns: u64,
}

/// The result of following a process.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Path of the program.
    pub program: PathBuf,
    /// Number of the process in the system.
    pub process: i32,
    /// Files of its code.
    pub files: CodeFiles,
    /// Processor time of all threads, in nanoseconds.
    pub processor_ns: u64,
    /// Blocks that were executed, by number.
    pub blocks: Vec<BlockCount>,
    /// Addresses at which threads left the cache, because the code there is not translated.
    pub native: Vec<NativeCode>,
    /// Edges from blocks that end with an indirect transfer, in order, each with its number of
    /// transfers.
    pub edges: Vec<(Edge, u64)>,
    /// Addresses at which the edges into blocks and their starts do not add up to their executions;
    /// `None` if edges were not counted.
    pub unbalanced: Option<u64>,
    /// Superblocks, in the order in which they were built.
    pub superblocks: Vec<Superblock>,
    /// System calls.
    pub calls: Calls,
    /// Results of models.
    pub models: Models,
    /// Instructions of the first thread by intervals, if they were counted.
    pub intervals: Option<Intervals>,
    /// Ticks of the time stamp counter that threads have spent in the cache, without pauses.
    pub ticks: u64,
    /// Ticks of the time stamp counter in a second.
    pub tsc_hz: u64,
    /// Block numbers that were dropped because a ring was full.
    pub dropped: u64,
    /// Numbers in rings that belong to no block.
    pub invalid: u64,
    /// Number of threads whose last block numbers are not known.
    pub cut_threads: u64,
    /// Number of threads that were in the cache.
    pub threads: u64,
    /// Number of threads that never were in the cache, because too many were at that time.
    pub native_threads: u64,
    /// Number of child processes that ran natively.
    pub children: u64,
    /// Number of signals whose handlers were called.
    pub signals: u64,
}
