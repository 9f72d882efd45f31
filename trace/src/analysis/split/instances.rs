//! Keeps an instance of an analysis for each group and memory. Events that concern all groups are
//! passed on only when a group has its next access.
//!
//! These events are gaps, restarts and new facts about the source. So a source with many gaps does
//! not take longer with many groups. For example, if a thread makes no access between two gaps, its
//! instance receives one gap with the sum of the lost accesses.

use std::collections::BTreeMap;

use super::super::{Analysis, Batch, ElementRange, Gap, Known, PageRun};

/// The facts and events that concern all accesses to a memory so far.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    known: Known,
    /// How often `known` has changed.
    changes: u64,
    restarts: u64,
    gaps: u64,
    /// The last gap, with the accesses that are missing in all gaps.
    gap: Gap,
}

/// An instance, and the numbers in [`Happened`] up to which the instance has received facts and
/// events.
#[derive(Clone, Debug)]
struct Instance<A> {
    analysis: A,
    changes: u64,
    restarts: u64,
    gaps: u64,
    lost: u64,
}

/// All instances of an analysis.
#[derive(Clone, Debug)]
pub struct Instances<A> {
    new: A,
    memories: Vec<Happened>,
    /// The instances, by group and then by memory.
    groups: Vec<BTreeMap<usize, Instance<A>>>,
}

impl<A: Analysis + Clone> Instance<A> {
    /// An instance that begins now. Accesses that were missing before do not count for its group.
    fn new(new: &A, now: &Happened) -> Self {
        let mut analysis = new.clone();
        analysis.known(&now.known);
        let lost = now.gap.lost_accesses.unwrap_or(0);
        let Happened { changes, restarts, gaps, .. } = *now;
        Instance { analysis, changes, restarts, gaps, lost }
    }

    /// Passes on the facts and events since the group's last access.
    fn reach(&mut self, now: &Happened) {
        if self.changes != now.changes {
            self.changes = now.changes;
            self.analysis.known(&now.known);
        }
        if self.gaps != now.gaps {
            self.gaps = now.gaps;
            let lost = now.gap.lost_accesses.map(|total| total.saturating_sub(self.lost));
            self.lost = now.gap.lost_accesses.unwrap_or(self.lost);
            self.analysis.gap(&Gap { lost_accesses: lost, ..now.gap });
        }
        if self.restarts != now.restarts {
            self.restarts = now.restarts;
            self.analysis.restart();
        }
    }
}

impl<A: Analysis + Clone> Instances<A> {
    /// Begins without groups. `new`: an analysis without accesses, with which each instance begins.
    pub fn new(new: A) -> Self {
        Instances { new, memories: Vec::new(), groups: Vec::new() }
    }

    fn of(&mut self, memory: usize) -> &mut Happened {
        if self.memories.len() <= memory {
            self.memories.resize(memory + 1, Happened::default());
        }
        &mut self.memories[memory]
    }

    /// Notes what is known of a memory.
    pub fn known(&mut self, memory: usize, known: &Known) {
        let facts = self.of(memory);
        facts.known = *known;
        facts.changes += 1;
    }

    /// Notes a gap in the accesses to a memory.
    pub fn gap(&mut self, memory: usize, gap: &Gap) {
        let facts = self.of(memory);
        let before = facts.gap.lost_accesses;
        let lost_accesses = match (before, gap.lost_accesses) {
            (Some(earlier), Some(more)) => Some(earlier.saturating_add(more)),
            (earlier, more) => earlier.or(more),
        };
        facts.gap = Gap { lost_accesses, ..*gap };
        facts.gaps += 1;
    }

    /// Notes that the clock of a memory's accesses begins at 0 again.
    pub fn restart(&mut self, memory: usize) {
        self.of(memory).restarts += 1;
    }

    /// Adds accesses to a group.
    pub fn add(&mut self, group: usize, memory: usize, batch: &Batch<'_>) {
        self.instance(group, memory).add(batch);
    }

    /// Adds elements of a string instruction as a whole to a group.
    pub fn elements(&mut self, group: usize, memory: usize, range: &ElementRange) {
        self.instance(group, memory).elements(range);
    }

    /// Adds accesses to one page to a group.
    pub fn page_run(&mut self, group: usize, memory: usize, run: &PageRun) {
        self.instance(group, memory).page_run(run);
    }

    /// The instance of a group and memory, after it has received all facts and events up to here.
    fn instance(&mut self, group: usize, memory: usize) -> &mut A {
        let now = *self.of(memory);
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, BTreeMap::new);
        }
        let instance =
            self.groups[group].entry(memory).or_insert_with(|| Instance::new(&self.new, &now));
        instance.reach(&now);
        &mut instance.analysis
    }

    /// The merged instances of each group.
    pub fn finish(self) -> impl Iterator<Item = A> {
        let Instances { new, memories, groups } = self;
        groups.into_iter().map(move |mut instances| {
            let last = instances.last_key_value().map_or(0, |(memory, _)| *memory);
            // A memory without accesses has an empty instance, so that later memories keep their
            // numbers.
            let mut analyses = (0..=last).map(|memory| match instances.remove(&memory) {
                None => new.clone(),
                Some(Instance { mut analysis, changes, .. }) => {
                    let now = memories.get(memory).copied().unwrap_or_default();
                    if changes != now.changes {
                        analysis.known(&now.known);
                    }
                    analysis
                }
            });
            let first = analyses.next().unwrap_or_else(|| new.clone());
            analyses.fold(first, |mut sum, analysis| {
                sum.merge(analysis);
                sum
            })
        })
    }
}
