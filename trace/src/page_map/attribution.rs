//! Adds up accesses by the owners of their frames: processes and mappings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Owner, PageMap};

/// Accesses to the frames of one process, or to frames that several processes share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessAccesses {
    /// Process id; `None` for accesses to frames that several processes share.
    pub pid: Option<u32>,
    /// Name of the process's first thread; empty if it is not known.
    pub comm: String,
    /// Number of accesses.
    pub accesses: u64,
}

/// Number of accesses of all mappings with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappingAccesses {
    /// Name of the mapping, as [`label`](super::label) returns it. `None` for accesses to frames
    /// that are in mappings with different names.
    pub mapping: Option<String>,
    /// Number of accesses.
    pub accesses: u64,
}

/// The snapshots by which owners were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// All snapshots of the map, because the clocks of map and captures are not related.
    #[default]
    AllSnapshots,
    /// The snapshots around each access, because the captures have marks of them.
    Time,
    /// The snapshots around each access in some memories, and all snapshots in the others.
    Both,
}

/// Accesses by the owners of their frames. The first four counts add up to all accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attribution {
    /// Accesses to frames that belonged to one page of one process in all deciding snapshots.
    pub resolved_accesses: u64,
    /// Accesses to frames that belonged to the same several pages in all deciding snapshots.
    pub shared_accesses: u64,
    /// Accesses to frames whose owners changed between the deciding snapshots. Also accesses to
    /// frames that had owners, at a time that is not between two snapshots.
    pub ambiguous_accesses: u64,
    /// Accesses to frames that belonged to no recorded page.
    pub unresolved_accesses: u64,
    /// The deciding snapshots.
    pub owner_rule: Rule,
    /// Number of snapshots whose ends are marked in the captures.
    pub marked_snapshots: u64,
    /// Accesses before the first or after the last marked snapshot. Their owners cannot be found by
    /// time.
    pub outside_accesses: u64,
    /// Resolved and shared accesses by process, most accesses first.
    pub processes: Vec<ProcessAccesses>,
    /// Resolved and shared accesses by mapping, most accesses first.
    pub mappings: Vec<MappingAccesses>,
}

/// The value that all elements have; `None` if they differ or if there are none.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

impl PageMap {
    /// The process that owns all pages which share a frame. `count`: number of these pages. `None`
    /// if there are several processes, or if `owners` does not list all pages.
    pub fn common_process(&self, owners: &[(usize, u64)], count: u64) -> Option<u32> {
        let is_listed = owners.len() as u64 == count;
        common(owners.iter().map(|(held, _)| self.held[*held].process)).filter(|_| is_listed)
    }

    /// The name of all listed mappings that share a frame; `None` if their names differ.
    pub fn common_label(&self, owners: &[(usize, u64)]) -> Option<String> {
        common(owners.iter().map(|(held, _)| self.held[*held].label(self)))
    }
}

/// Sums of accesses by owner, while accesses are added.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The sums. Their lists of processes and mappings are empty until [`Tally::finish`].
    pub sums: Attribution,
    processes: BTreeMap<Option<u32>, u64>,
    mappings: BTreeMap<Option<String>, u64>,
}

impl Tally {
    /// Adds accesses to a frame of this owner.
    pub fn add(&mut self, map: &PageMap, owner: Owner, accesses: u64) {
        let sums = &mut self.sums;
        let (sum, counted) = match owner {
            Owner::Resolved { held, .. } => {
                let held = &map.held[held];
                (&mut sums.resolved_accesses, Some((Some(held.process), Some(held.label(map)))))
            }
            Owner::Shared { owners, count } => {
                let process = map.common_process(&owners, count);
                (&mut sums.shared_accesses, Some((process, map.common_label(&owners))))
            }
            Owner::Ambiguous => (&mut sums.ambiguous_accesses, None),
            Owner::Unresolved => (&mut sums.unresolved_accesses, None),
        };
        *sum = sum.saturating_add(accesses);
        if let Some((process, mapping)) = counted {
            for sum in [
                self.processes.entry(process).or_default(),
                self.mappings.entry(mapping).or_default(),
            ] {
                *sum = sum.saturating_add(accesses);
            }
        }
    }

    /// Adds the sums of another tally.
    pub fn merge(&mut self, other: Tally) {
        let (own, sums) = (&mut self.sums, &other.sums);
        for (sum, more) in [
            (&mut own.resolved_accesses, sums.resolved_accesses),
            (&mut own.shared_accesses, sums.shared_accesses),
            (&mut own.ambiguous_accesses, sums.ambiguous_accesses),
            (&mut own.unresolved_accesses, sums.unresolved_accesses),
            (&mut own.marked_snapshots, sums.marked_snapshots),
            (&mut own.outside_accesses, sums.outside_accesses),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (process, accesses) in other.processes {
            let sum = self.processes.entry(process).or_default();
            *sum = sum.saturating_add(accesses);
        }
        for (mapping, accesses) in other.mappings {
            let sum = self.mappings.entry(mapping).or_default();
            *sum = sum.saturating_add(accesses);
        }
    }

    /// Returns all sums with their lists, most accesses first.
    pub fn finish(self, map: &PageMap) -> Attribution {
        let Tally { mut sums, processes, mappings } = self;
        let process = |(number, accesses): (Option<u32>, u64)| {
            let process = number.and_then(|number| map.process(number)).map(|known| &known.process);
            let comm = process.map_or_else(String::new, |process| process.comm.clone());
            ProcessAccesses { pid: process.map(|process| process.pid), comm, accesses }
        };
        sums.processes = processes.into_iter().map(process).collect();
        sums.processes.sort_by_key(|process| Reverse(process.accesses));
        let mapping = |(mapping, accesses)| MappingAccesses { mapping, accesses };
        sums.mappings = mappings.into_iter().map(mapping).collect();
        sums.mappings.sort_by_key(|mapping| Reverse(mapping.accesses));
        sums
    }
}
