//! Holds the parts of functions that accesses are attributed to: tagged blocks.

use hmtt_format::tag_log::FunctionId;

use crate::tags::hash::FastMap;

/// The tagged blocks of all functions.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Function of each block.
    blocks: FastMap<FunctionId, FunctionId>,
    /// Functions that have tagged blocks.
    functions: FastMap<FunctionId, ()>,
}

impl Regions {
    /// Collects blocks, each with the number of its function.
    pub fn new(blocks: impl IntoIterator<Item = (FunctionId, FunctionId)>) -> Self {
        let blocks: FastMap<FunctionId, FunctionId> = blocks.into_iter().collect();
        let functions = blocks.values().map(|function| (*function, ())).collect();
        Regions { blocks, functions }
    }

    /// Numbers of the blocks, each with the number of its function.
    pub fn blocks(&self) -> impl Iterator<Item = (FunctionId, FunctionId)> {
        self.blocks.iter().map(|(block, function)| (*block, *function))
    }

    /// The function that contains a block.
    pub fn function_of(&self, block: FunctionId) -> Option<FunctionId> {
        self.blocks.get(&block).copied()
    }

    /// Whether a function has tagged blocks.
    pub fn has_blocks(&self, function: FunctionId) -> bool {
        self.functions.contains_key(&function)
    }
}
