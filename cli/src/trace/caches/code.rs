//! Finds the functions of instructions whose accesses missed, in the files that the program had mapped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{Mapping, mappings};
use hmtt_probe::selection::Selection;
use hmtt_translator::profile::{CodeFiles, Names};
use nix::unistd::Pid;

use super::model::Misses;

/// Code of a program, while it runs and after that.
#[derive(Default)]
pub struct Code {
    /// Executable mappings in the order in which they were found. A later one may have replaced an earlier one.
    mappings: Vec<Mapping>,
    instructions: Vec<Instruction>,
}

/// An instruction whose accesses missed.
pub struct Instruction {
    /// Its address in the process.
    pub address: u64,
    /// The file of its code.
    pub object: Option<PathBuf>,
    /// Its function, and its offset in that.
    pub function: Option<(String, u64)>,
    pub misses: Misses,
}

/// Misses of the accesses of a function.
pub struct Function {
    /// Its name; `None` for code of no known function.
    pub name: Option<String>,
    pub object: Option<PathBuf>,
    pub misses: Misses,
}

/// The order of reports: the most misses of the last level first, and then of the levels before.
fn most_first(misses: &Misses) -> impl Ord + use<> {
    let mut order = *misses;
    order.reverse();
    std::cmp::Reverse(order)
}

impl Code {
    /// Blocks at these addresses will be executed: reads the mappings if they are in no known one.
    pub fn add(&mut self, pid: Pid, mut starts: impl Iterator<Item = u64>) {
        if starts.any(|start| self.mapping(start).is_none()) {
            let mapped = mappings(pid).unwrap_or_default().into_iter();
            let new = mapped.filter(|one| one.executable && !self.mappings.contains(one));
            let new: Vec<Mapping> = new.collect();
            self.mappings.extend(new);
        }
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let contains = |one: &&Mapping| (one.start..one.end).contains(&RunAddr(address));
        self.mappings.iter().rev().find(contains)
    }

    /// Finds the functions of instructions, once the program has ended.
    pub fn resolve(&mut self, files: &CodeFiles, missed: impl Iterator<Item = (u64, Misses)>) {
        let mut names = Names::new(files.clone(), None::<&Selection>);
        let mut instructions: Vec<_> = missed
            .map(|(address, misses)| {
                let mapping = self.mapping(address);
                let function = mapping.and_then(|one| names.find(one, RunAddr(address)).function);
                let named = mapping.filter(|one| one.path.starts_with("/"));
                let object = named.map(|one| one.path.clone());
                Instruction { address, object, function, misses }
            })
            .collect();
        instructions.sort_by_cached_key(|one| (most_first(&one.misses), one.address));
        self.instructions = instructions;
    }

    /// Instructions whose accesses missed, those with the most misses first.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Functions whose accesses missed, those with the most misses first.
    pub fn functions(&self) -> Vec<Function> {
        let mut all = BTreeMap::<(Option<&PathBuf>, Option<&str>), Misses>::new();
        for Instruction { object, function, misses, .. } in &self.instructions {
            let name = function.as_ref().map(|(name, _)| name.as_str());
            let sums = all.entry((object.as_ref(), name)).or_default();
            sums.iter_mut().zip(misses).for_each(|(sum, count)| *sum += count);
        }
        let mut all: Vec<_> = all
            .into_iter()
            .map(|((object, name), misses)| {
                let (name, object) = (name.map(str::to_owned), object.cloned());
                Function { name, object, misses }
            })
            .collect();
        all.sort_by_key(|one| most_first(&one.misses));
        all
    }
}
