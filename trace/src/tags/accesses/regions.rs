//! Stores the parts of functions to which accesses are attributed: tagged blocks, and the natural
//! loops that contain them.
//!
//! Blocks and loops come from a tag map, which is not trusted. The loop around a block or loop is
//! ignored if it belongs to another function. An outer loop is also ignored if its number is not
//! lower than the number of the inner one. A loop that is too deep counts as the loop around it.

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{TaggedBlock, TaggedLoop};

use crate::tags::hash::FastMap;
use crate::tags::names::Names;

/// Maximum number of loops within each other. The limit bounds the cost of an entry of a block. A
/// block in more loops counts for this number of its outermost loops only.
const MAX_DEPTH: usize = 64;

/// The tagged blocks and the loops of all functions.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    blocks: FastMap<FunctionId, Block>,
    loops: FastMap<u32, Loop>,
    /// Functions that have tagged blocks.
    functions: FastMap<FunctionId, ()>,
}

/// A tagged block.
#[derive(Clone, Copy, Debug)]
struct Block {
    function: FunctionId,
    /// Number of the innermost loop that contains the block.
    innermost: Option<u32>,
}

/// A loop with a tagged head.
#[derive(Clone, Copy, Debug)]
struct Loop {
    function: FunctionId,
    /// Number of the loop itself. If the loop is too deep, number of the loop that it counts as.
    number: u32,
    /// Number of the innermost loop that contains it.
    outer: Option<u32>,
    /// Number of loops within each other, from the outermost to this one.
    depth: usize,
}

impl Regions {
    /// Uses the blocks and loops of a map.
    pub fn new(names: &Names) -> Self {
        Regions::of(names.blocks.values(), names.loops.values())
    }

    /// Uses these blocks and loops. Loops must come in ascending order of their numbers.
    pub fn of<'a>(
        blocks: impl IntoIterator<Item = &'a TaggedBlock>,
        loops: impl IntoIterator<Item = &'a TaggedLoop>,
    ) -> Self {
        let mut regions = Regions::default();
        loops.into_iter().for_each(|tagged_loop| regions.add_loop(tagged_loop));
        for block in blocks {
            let function = block.function_number;
            let innermost = regions.number_of(block.loop_number, function);
            regions.blocks.insert(block.number, Block { function, innermost });
            regions.functions.insert(function, ());
        }
        regions
    }

    /// Adds a loop. The loop around it, if it is valid, was added before.
    fn add_loop(&mut self, tagged_loop: &TaggedLoop) {
        let function = tagged_loop.function_number;
        let outer = self.number_of(tagged_loop.outer_number, function);
        let depth = self.depth(outer) + 1;
        let added = match outer.and_then(|outer| self.loops.get(&outer)) {
            Some(last) if depth > MAX_DEPTH => *last,
            _ => Loop { function, number: tagged_loop.number, outer, depth },
        };
        self.loops.insert(tagged_loop.number, added);
    }

    /// The number of the loop that a map calls `named`. `None` if it is not known or belongs to
    /// another function.
    fn number_of(&self, named: Option<u32>, function: FunctionId) -> Option<u32> {
        let named_loop = self.loops.get(&named?)?;
        (named_loop.function == function).then_some(named_loop.number)
    }

    /// Numbers of the blocks, each with the number of its function.
    pub fn blocks(&self) -> impl Iterator<Item = (FunctionId, FunctionId)> {
        self.blocks.iter().map(|(number, block)| (*number, block.function))
    }

    /// The function that contains a block.
    pub fn function_of(&self, block: FunctionId) -> Option<FunctionId> {
        self.blocks.get(&block).map(|block| block.function)
    }

    /// Whether a function has tagged blocks.
    pub fn has_blocks(&self, function: FunctionId) -> bool {
        self.functions.contains_key(&function)
    }

    /// The innermost loop that contains a block.
    pub fn loop_of(&self, block: FunctionId) -> Option<u32> {
        self.blocks.get(&block)?.innermost
    }

    /// The innermost loop that contains loop `number`.
    pub fn outer(&self, number: u32) -> Option<u32> {
        self.loops.get(&number)?.outer
    }

    /// The innermost loop that contains both loops. A loop contains itself: for loop 1 and a loop
    /// in it, the result is loop 1. `None` if there is no such loop.
    pub fn common(&self, mut first: Option<u32>, mut second: Option<u32>) -> Option<u32> {
        while first != second {
            let deeper =
                if self.depth(first) >= self.depth(second) { &mut first } else { &mut second };
            *deeper = deeper.and_then(|number| self.outer(number));
        }
        first
    }

    /// Number of loops from the outermost to this one; 0 without a loop.
    fn depth(&self, number: Option<u32>) -> usize {
        number.and_then(|number| self.loops.get(&number)).map_or(0, |known| known.depth)
    }
}

#[cfg(test)]
mod tests {
    use hmtt_files::tag_map::Exits;

    use super::*;

    fn loop_of(number: u32, function: u32, outer_number: Option<u32>) -> TaggedLoop {
        TaggedLoop {
            number,
            function_number: FunctionId(function),
            code_address: 0,
            outer_number,
            tagged_exits: Exits::All,
        }
    }

    fn block(number: u32, loop_number: Option<u32>) -> TaggedBlock {
        TaggedBlock {
            number: FunctionId(number),
            function_number: FunctionId(1),
            code_address: 0,
            size_bytes: 1,
            loop_number,
        }
    }

    #[test]
    fn loops_that_cannot_be_are_ignored() {
        // The outer loop that a map states is invalid: the loop itself, a later loop, or a loop of
        // another function.
        let loops = [
            loop_of(0, 1, Some(0)),
            loop_of(1, 1, Some(2)),
            loop_of(2, 2, None),
            loop_of(3, 1, Some(2)),
            loop_of(4, 1, Some(1)),
        ];
        let blocks = [block(10, Some(4)), block(11, Some(2)), block(12, Some(9))];
        let regions = Regions::of(&blocks, &loops);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|number| regions.outer(number)),
            [None, None, None, None, Some(1)]
        );
        let loops = [10, 11, 12].map(|block| regions.loop_of(FunctionId(block)));
        assert_eq!(loops, [Some(4), None, None]);
        assert_eq!(regions.common(Some(4), Some(1)), Some(1));
        assert_eq!(regions.common(Some(4), Some(3)), None);
    }

    #[test]
    fn blocks_of_loops_that_are_too_deep_belong_to_outer_ones() {
        let most = MAX_DEPTH as u32;
        let loops = (0..2 * most).map(|number| loop_of(number, 1, number.checked_sub(1)));
        let regions = Regions::of(&[block(1, Some(2 * most - 1))], &loops.collect::<Vec<_>>());
        assert_eq!(regions.loop_of(FunctionId(1)), Some(most - 1));
        assert_eq!(regions.common(Some(most - 1), Some(5)), Some(5));
    }
}
