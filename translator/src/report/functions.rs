//! Sums the counts of the blocks of each function.

use std::collections::HashMap;

use hmtt_files::profile::{Block, BlockEnd};

use super::Analysis;

/// A function, with sums over its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function<'p> {
    /// Name of the function; `?` for all code of an object without a known function.
    pub name: &'p str,
    /// File that contains it.
    pub object: &'p str,
    /// Instructions that were executed in it.
    pub instructions: u64,
    /// Executions of the block at its first instruction.
    pub entries: u64,
    /// Edges to its first instruction that are calls, or that come from other functions. `None` if
    /// edges were not recorded.
    pub calls: Option<u64>,
    /// Executions of its blocks that end with a return.
    pub returns: u64,
    /// Number of its executed blocks.
    pub blocks: u64,
}

/// Object and name of a block's function.
fn key(block: &Block) -> (&str, &str) {
    (&block.object, block.function.as_deref().unwrap_or("?"))
}

impl<'p> Analysis<'p> {
    /// All functions, in descending order of executed instructions.
    pub fn functions(&self) -> Vec<Function<'p>> {
        let has_edges = self.profile.unbalanced_blocks.is_some();
        let mut functions: HashMap<(&str, &str), Function<'p>> = HashMap::new();
        for block in &self.profile.blocks {
            let (object, name) = key(block);
            let function = functions.entry((object, name)).or_insert(Function {
                name,
                object,
                instructions: 0,
                entries: 0,
                calls: has_edges.then_some(0),
                returns: 0,
                blocks: 0,
            });
            let is_first = block.offset == Some(0);
            let is_return = block.end == BlockEnd::Return;
            let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
            add(&mut function.instructions, block.executed());
            add(&mut function.entries, if is_first { block.entries } else { 0 });
            add(&mut function.returns, if is_return { block.entries } else { 0 });
            function.blocks += 1;
            // Rules select whole functions, so omitted blocks are in others, or in code without a
            // known function.
            if let Some(calls) = function.calls.as_mut().filter(|_| is_first) {
                add(calls, block.from_omitted);
            }
        }
        for edge in self.edges() {
            let Some(to) = edge.to.filter(|to| to.offset == Some(0)) else { continue };
            let is_call = edge.kind.is_call() || key(edge.from) != key(to);
            if let Some(Function { calls: Some(calls), .. }) = functions.get_mut(&key(to))
                && is_call
            {
                *calls = calls.saturating_add(edge.times);
            }
        }
        let mut functions: Vec<_> = functions.into_values().collect();
        functions.sort_by_key(|function| {
            (std::cmp::Reverse(function.instructions), function.object, function.name)
        });
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn edges_from_omitted_functions_are_calls() {
        let mut profile = profile();
        profile.edges.clear();
        profile.blocks[4].from_omitted = 10;
        let calls = Analysis::new(&profile)
            .functions()
            .iter()
            .map(|function| function.calls)
            .collect::<Vec<_>>();
        assert_eq!(calls, [Some(0), Some(10)]);
    }

    #[test]
    fn functions_are_sorted_by_executed_instructions() {
        let profile = profile();
        let functions = Analysis::new(&profile).functions();
        let sums = functions.iter().map(|function| {
            (
                function.name,
                function.instructions,
                function.entries,
                function.calls,
                function.returns,
                function.blocks,
            )
        });
        let expected = [("f", 22 + 10 + 10 + 1, 11, Some(0), 1, 4), ("g", 20, 10, Some(10), 10, 1)];
        assert_eq!(sums.collect::<Vec<_>>(), expected);
    }
}
