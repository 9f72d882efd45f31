//! What a process has executed: its blocks, and how often.

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::Mapping;

/// A block that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of the block, from 1 on, in the order of translation.
    pub number: u32,
    /// Original address of its first instruction.
    pub start: RunAddr,
    /// Number of its bytes.
    pub bytes: u64,
    /// Number of its instructions.
    pub instructions: u64,
    /// How often it was entered.
    pub executions: u64,
    /// Instructions of these executions that were not executed, because a signal interrupted the block. They are executed
    /// as a part of another block, if at all.
    pub unexecuted: u64,
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
    /// How often threads came there.
    pub times: u64,
}

/// What a process has executed.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Blocks that were executed, by number.
    pub blocks: Vec<BlockCount>,
    /// Code that ran natively.
    pub native: Vec<NativeCode>,
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

impl Profile {
    /// Whether all that was executed in the cache is counted.
    pub fn is_complete(&self) -> bool {
        self.dropped == 0 && self.invalid == 0 && self.cut_threads == 0
    }
}
