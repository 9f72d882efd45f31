//! Attributes accesses of frames to processes and mappings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Owner, Owners, PageMap};

/// Accesses of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessAccesses {
    /// Number of the process; `None`: of pages that several processes share.
    pub pid: Option<u32>,
    /// Name of its first thread; empty if it is not known.
    pub comm: String,
    /// Accesses.
    pub accesses: u64,
}

/// Accesses of mappings with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappingAccesses {
    /// What it is, as [`label`](super::label) names it; `None`: of pages that are in mappings with different names.
    pub mapping: Option<String>,
    /// Accesses.
    pub accesses: u64,
}

/// Accesses by who owns their frames. The first four add up to all accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attribution {
    /// Of frames that one page of one process had in all snapshots.
    pub resolved_accesses: u64,
    /// Of frames that the same several pages had in all snapshots.
    pub shared_accesses: u64,
    /// Of frames whose owners changed.
    pub ambiguous_accesses: u64,
    /// Of frames that no recorded page had.
    pub unresolved_accesses: u64,
    /// Resolved and shared accesses by process, most accesses first.
    pub processes: Vec<ProcessAccesses>,
    /// Resolved and shared accesses by mapping, most accesses first.
    pub mappings: Vec<MappingAccesses>,
}

/// The one value of all; `None` if they differ or if there are none.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

impl PageMap {
    /// The process that owns all pages that share a frame, as far as they are listed.
    pub fn common_process(&self, owners: &[(usize, u64)], count: u64) -> Option<u32> {
        let is_listed = owners.len() as u64 == count;
        common(owners.iter().map(|(held, _)| self.held[*held].process)).filter(|_| is_listed)
    }

    /// The name of all mappings that share a frame, as far as they are listed.
    pub fn common_label(&self, owners: &[(usize, u64)]) -> Option<String> {
        common(owners.iter().map(|(held, _)| self.held[*held].label(self)))
    }
}

impl Attribution {
    /// Attributes accesses of frames.
    pub fn new(
        map: &PageMap,
        owners: &Owners,
        frames: impl Iterator<Item = (u64, u64)>,
    ) -> Attribution {
        let mut sums = Attribution::default();
        let mut processes: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        let mut mappings: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for (frame, accesses) in frames {
            let (sum, process, mapping) = match owners.find(map, frame) {
                Owner::Resolved { held, .. } => {
                    let held = &map.held[held];
                    (&mut sums.resolved_accesses, Some(held.process), Some(held.label(map)))
                }
                Owner::Shared { owners, count } => {
                    let process = map.common_process(&owners, count);
                    (&mut sums.shared_accesses, process, map.common_label(&owners))
                }
                Owner::Ambiguous => {
                    sums.ambiguous_accesses = sums.ambiguous_accesses.saturating_add(accesses);
                    continue;
                }
                Owner::Unresolved => {
                    sums.unresolved_accesses = sums.unresolved_accesses.saturating_add(accesses);
                    continue;
                }
            };
            for sum in
                [sum, processes.entry(process).or_default(), mappings.entry(mapping).or_default()]
            {
                *sum = sum.saturating_add(accesses);
            }
        }
        let process = |(number, accesses): (Option<u32>, u64)| {
            let of = number.and_then(|number| map.process(number)).map(|of| &of.process);
            let comm = of.map_or_else(String::new, |of| of.comm.clone());
            ProcessAccesses { pid: of.map(|of| of.pid), comm, accesses }
        };
        sums.processes = processes.into_iter().map(process).collect();
        sums.processes.sort_by_key(|of| Reverse(of.accesses));
        let mapping = |(mapping, accesses)| MappingAccesses { mapping, accesses };
        sums.mappings = mappings.into_iter().map(mapping).collect();
        sums.mappings.sort_by_key(|of| Reverse(of.accesses));
        sums
    }
}
