//! Attributes accesses of frames to processes and mappings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Owner, PageMap};

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
    /// What it is, as [`label`](super::label) names it; `None`: of pages that are in mappings with
    /// different names.
    pub mapping: Option<String>,
    /// Accesses.
    pub accesses: u64,
}

/// By which snapshots owners were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// By all of the map: clocks are not related.
    #[default]
    AllSnapshots,
    /// By those around each access: the captures have their marks.
    Time,
    /// By those around each access in some memories, and by all in the others.
    Both,
}

/// Accesses by who owns their frames. The first four add up to all accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attribution {
    /// Of frames that one page of one process had in all snapshots that decide.
    pub resolved_accesses: u64,
    /// Of frames that the same several pages had in all snapshots that decide.
    pub shared_accesses: u64,
    /// Of frames whose owners changed, or that had owners and whose time is not between two
    /// snapshots.
    pub ambiguous_accesses: u64,
    /// Of frames that no recorded page had.
    pub unresolved_accesses: u64,
    /// Which snapshots decide.
    pub owner_rule: Rule,
    /// Snapshots whose ends are marked in the captures.
    pub marked_snapshots: u64,
    /// Accesses before the first or after the last marked snapshot, where owners by time are not
    /// known.
    pub outside_accesses: u64,
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

/// Sums of accesses by owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Sums without lists.
    pub sums: Attribution,
    processes: BTreeMap<Option<u32>, u64>,
    mappings: BTreeMap<Option<String>, u64>,
}

impl Tally {
    /// Adds accesses to a frame of an owner.
    pub fn add(&mut self, map: &PageMap, owner: Owner, accesses: u64) {
        let sums = &mut self.sums;
        let (sum, found) = match owner {
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
        if let Some((process, mapping)) = found {
            for sum in [
                self.processes.entry(process).or_default(),
                self.mappings.entry(mapping).or_default(),
            ] {
                *sum = sum.saturating_add(accesses);
            }
        }
    }

    /// Adds other sums.
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

    /// All sums, with the lists.
    pub fn finish(self, map: &PageMap) -> Attribution {
        let Tally { mut sums, processes, mappings } = self;
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
