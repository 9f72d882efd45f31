//! What a reader of a file is told: the blocks that threads execute, and the accesses that they make.

use hmtt_format::access_trace::BlockAccesses;

use super::decode::ThreadAccess;

/// A block that a thread has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'f> {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Number of the block in the file, from 1 on.
    pub number: u32,
    /// Its description, with its code.
    pub block: &'f BlockAccesses,
    /// How many of its instructions were executed. If the next one is a repeated string instruction, it may have accessed
    /// some of its elements. A file that is not what `hmtt trace` writes may have more than the block has.
    pub instructions: usize,
}

/// Receives what threads have done, in the order of each thread.
///
/// A closure that takes a [`ThreadAccess`] is a visitor that receives the accesses alone.
pub trait Visitor {
    /// A block was executed. Its accesses follow before the next block.
    fn block(&mut self, executed: Executed<'_>) {
        let _ = executed;
    }

    /// An access was made, by the last block.
    fn access(&mut self, access: ThreadAccess);
}

impl<F: FnMut(ThreadAccess)> Visitor for F {
    fn access(&mut self, access: ThreadAccess) {
        self(access);
    }
}
