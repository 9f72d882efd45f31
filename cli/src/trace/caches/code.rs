//! Finds the functions of the instructions whose accesses missed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use hmtt_files::access_trace::{BlockAccesses, Function as Described};

use super::model::Misses;

/// The functions of a program's instructions, and the instructions with misses.
#[derive(Default)]
pub struct Code {
    functions: Vec<Described>,
    /// Number of the function of each instruction that has accesses, from 1. If a later block has
    /// replaced an earlier one at the same address, the entry belongs to the later block.
    function_of: HashMap<u64, u32>,
    instructions: Vec<Instruction>,
}

/// An instruction whose accesses have missed.
pub struct Instruction {
    /// Address of the instruction in the process.
    pub address: u64,
    /// File that contains its code.
    pub object: Option<PathBuf>,
    /// Name of its function, and its offset in the function.
    pub function: Option<(String, u64)>,
    pub misses: Misses,
}

/// A function whose accesses have missed, with the sum of the misses.
pub struct Function {
    /// Name of the function; `None` for code that belongs to no known function.
    pub name: Option<String>,
    pub object: Option<PathBuf>,
    pub misses: Misses,
}

/// Sort key of reports: the most misses of the last level first. Among equals, the most misses of
/// the level before it, and so on.
fn most_first(misses: &Misses) -> impl Ord + use<> {
    let mut order = *misses;
    order.reverse();
    std::cmp::Reverse(order)
}

impl Code {
    /// Adds further functions. Their numbers continue the earlier ones.
    pub fn add_functions(&mut self, functions: &[Described]) {
        self.functions.extend_from_slice(functions);
    }

    /// Adds blocks. Their functions must have been added before.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        for block in blocks.iter().filter(|block| block.parts.is_empty()) {
            let places = block.accesses.iter().map(|access| (access.pc, block.function));
            self.function_of.extend(places);
        }
    }

    /// Finds the functions of the instructions that have missed. `missed`: address and misses of
    /// each instruction.
    pub fn resolve(&mut self, missed: impl Iterator<Item = (u64, Misses)>) {
        let entries = missed.map(|(address, misses)| {
            let number = self.function_of.get(&address).copied().unwrap_or(0);
            let index = (number as usize).checked_sub(1);
            let owner = index.and_then(|index| self.functions.get(index));
            let named = owner.filter(|one| !one.name.is_empty());
            let function = named.map(|one| (one.name.clone(), address.wrapping_sub(one.start)));
            let object = owner.map(|one| PathBuf::from(&one.path));
            Instruction { address, object, function, misses }
        });
        let mut instructions: Vec<_> = entries.collect();
        instructions.sort_by_cached_key(|instruction| {
            (most_first(&instruction.misses), instruction.address)
        });
        self.instructions = instructions;
    }

    /// Instructions whose accesses have missed, in the order of reports.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Functions whose accesses have missed, in the order of reports.
    pub fn functions(&self) -> Vec<Function> {
        let mut by_function = BTreeMap::<(Option<&PathBuf>, Option<&str>), Misses>::new();
        for Instruction { object, function, misses, .. } in &self.instructions {
            let name = function.as_ref().map(|(name, _)| name.as_str());
            let sums = by_function.entry((object.as_ref(), name)).or_default();
            sums.iter_mut().zip(misses).for_each(|(sum, count)| *sum += count);
        }
        let mut functions: Vec<_> = by_function
            .into_iter()
            .map(|((object, name), misses)| {
                let (name, object) = (name.map(str::to_owned), object.cloned());
                Function { name, object, misses }
            })
            .collect();
        functions.sort_by_key(|function| most_first(&function.misses));
        functions
    }
}
