//! Stores the block that each open call of a function entered last.
//!
//! A call whose context is paused keeps its block, so that accesses belong to the same block when
//! it is resumed.

use hmtt_format::tag_log::FunctionId;

/// Blocks of open calls; memory grows with the number of calls that are open at a time.
#[derive(Debug, Default)]
pub struct CurrentBlocks {
    blocks: Vec<Option<FunctionId>>,
    free: Vec<usize>,
}

impl CurrentBlocks {
    /// Adds a call, which has entered no block; returns its index.
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

    /// The block that a call entered last.
    pub fn get(&self, call: usize) -> Option<FunctionId> {
        self.blocks[call]
    }

    /// Removes a call.
    pub fn leave(&mut self, call: usize) {
        self.free.push(call);
    }
}
