//! What a process has executed: its blocks, and how often.
//!
//! [`Profile::to_file`] adds the names that a user knows.

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
    /// Its executions, and what was before and after them.
    pub tally: BlockTally,
    /// Instructions of these executions that were not executed, because a signal interrupted the
    /// block. They are executed as a part of another block, if at all.
    pub unexecuted: u64,
    /// What models found.
    pub modelled: Modelled,
    /// The mapping that contains it.
    pub mapping: Option<Mapping>,
}

/// Addresses at which threads left the cache, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeCode {
    /// Original address.
    pub at: RunAddr,
    /// Why the instruction there is not translated.
    pub why: String,
    /// What is known of threads that came there.
    pub used: NativeUse,
}

/// What is known of threads that came to an address that is not translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeUse {
    /// How often they came.
    pub times: u64,
    /// Their processor time until they were in the cache again, in nanoseconds.
    pub processor_ns: u64,
}

/// What a process has executed.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Path of the program.
    pub program: PathBuf,
    /// Number of the process.
    pub process: i32,
    /// Files of its code.
    pub files: CodeFiles,
    /// Processor time of threads, in nanoseconds.
    pub processor_ns: u64,
    /// Blocks that were executed, by number.
    pub blocks: Vec<BlockCount>,
    /// Code that ran natively.
    pub native: Vec<NativeCode>,
    /// Edges of blocks that end with an indirect transfer, in order.
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
    /// Numbers that belong to no block.
    pub invalid: u64,
    /// Threads whose last block numbers are not known.
    pub cut_threads: u64,
    /// Threads that were in the cache.
    pub threads: u64,
    /// Threads that never were, because too many were at the same time.
    pub native_threads: u64,
    /// Processes that were started and ran natively.
    pub children: u64,
    /// Signals whose handlers were called.
    pub signals: u64,
}
