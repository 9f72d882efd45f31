//! Stores for each open call the block that it has entered last.
//!
//! A call keeps its block while its context is paused. When the call is resumed, accesses belong to
//! the same block.

use hmtt_files::tag_log::FunctionId;

/// The blocks of open calls. Memory grows with the highest number of calls that were open at the
/// same time.
#[derive(Debug, Default)]
pub struct CurrentBlocks {
    /// By the index of the call.
    blocks: Vec<Option<FunctionId>>,
    /// Indices that no open call has.
    free: Vec<usize>,
}

impl CurrentBlocks {
    /// Adds a call that has entered no block. Returns its index, which stays valid until
    /// [`leave`](Self::leave).
    pub fn enter(&mut self) -> usize {
        if let Some(call) = self.free.pop() {
            self.blocks[call] = None;
            return call;
        }
        self.blocks.push(None);
        self.blocks.len() - 1
    }

    /// Records that a call has entered a block.
    pub fn begin(&mut self, call: usize, block: FunctionId) {
        self.blocks[call] = Some(block);
    }

    /// The block that a call has entered last; `None` if it has entered none.
    pub fn get(&self, call: usize) -> Option<FunctionId> {
        self.blocks[call]
    }

    /// Removes a call. A later call may get its index.
    pub fn leave(&mut self, call: usize) {
        self.free.push(call);
    }
}
