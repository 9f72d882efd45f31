//! Passes the parts of a source to one analysis for each group.

use super::super::source::Part;
use super::super::summary::{Summary, Sums};
use super::super::{Analysis, Batch, ElementRange, PageRun};
use super::chooser::Chooser;
use super::instances::Instances;
use super::labels::Labels;
use super::rows::Rows;
use super::{By, MOST_GROUPS};

/// The result for the accesses of a group.
#[derive(Clone, Debug)]
pub struct GroupResult<R> {
    /// Name of the group. A name in parentheses is not the name of a function.
    pub name: String,
    /// Path of the function's file; empty if it has none.
    pub object: String,
    /// Sums of the group's accesses.
    pub sums: Sums,
    /// The result of the analysis.
    pub result: R,
}

/// An analysis and sums for each group of accesses.
///
/// ```
/// use hmtt::analysis::source::Source;
/// use hmtt::analysis::split::{By, SplitFold};
/// use hmtt::analysis::reuse::Reuse;
///
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng");
/// let mut fold = SplitFold::new(By::Thread, Reuse::lines());
/// Source::open(path)?.read(&mut |memory, part| fold.part(memory, part));
/// let (groups, notes) = fold.finish();
/// // Captures do not know threads.
/// assert_eq!((groups.len(), groups[0].sums.accesses, notes.len()), (1, 4, 1));
/// # Ok::<(), hmtt::analysis::source::SourceError>(())
/// ```
pub struct SplitFold<A> {
    by: By,
    choosers: Vec<Option<Chooser>>,
    labels: Labels,
    rows: Rows,
    instances: Instances<(Summary, A)>,
}

impl<A: Analysis + Clone> SplitFold<A> {
    /// Begins without groups. `analysis`: an analysis without accesses, with which each group
    /// begins.
    pub fn new(by: By, analysis: A) -> Self {
        SplitFold {
            by,
            choosers: Vec::new(),
            labels: Labels::new(MOST_GROUPS),
            rows: Rows::default(),
            instances: Instances::new((Summary::default(), analysis)),
        }
    }

    /// Limits the number of groups. Accesses of further groups are in the group
    /// [`OTHERS`](super::OTHERS).
    pub fn with_most(self, groups: usize) -> Self {
        SplitFold { labels: Labels::new(groups), ..self }
    }

    /// Takes a part of a source.
    pub fn part(&mut self, memory: usize, part: Part<'_>) {
        if let Part::Known(known) = part {
            if self.choosers.len() <= memory {
                self.choosers.resize_with(memory + 1, || None);
            }
            self.choosers[memory].get_or_insert_with(|| Chooser::new(&self.by, known));
            self.instances.known(memory, known);
        }
        let Some(Some(chooser)) = self.choosers.get_mut(memory) else { return };
        match part {
            Part::Known(_) => {}
            Part::Batch(batch) => self.batch(memory, &batch),
            Part::Elements(range) => self.elements(memory, &range),
            Part::PageRun(run) => self.page_run(memory, &run),
            // Marks and tags do not end a slice, so its accesses cannot be given to a group.
            Part::FrequencySlice(slice) => self.instances.gap(memory, &slice.as_gap()),
            Part::LeftOut(gap) => self.instances.gap(memory, &gap),
            Part::Gap(gap) => {
                chooser.lose();
                self.instances.gap(memory, &gap);
            }
            Part::Restart => {
                chooser.lose();
                self.instances.restart(memory);
            }
            Part::Item(item) => chooser.item(item),
            // Groups are not divided into pieces.
            Part::PieceEnd => {}
            #[cfg(feature = "access-traces")]
            Part::Functions(functions) => chooser.functions(functions),
        }
    }

    fn batch(&mut self, memory: usize, batch: &Batch<'_>) {
        let SplitFold { choosers, labels, rows, instances, .. } = self;
        let Some(Some(chooser)) = choosers.get_mut(memory) else { return };
        chooser.batch(memory, batch, labels, rows, |group, batch| {
            instances.add(group, memory, batch);
        });
    }

    fn elements(&mut self, memory: usize, range: &ElementRange) {
        let SplitFold { choosers, labels, rows, instances, .. } = self;
        let Some(Some(chooser)) = choosers.get_mut(memory) else { return };
        range.first_element(|batch| {
            chooser.batch(memory, batch, labels, rows, |group, _| {
                instances.elements(group, memory, range);
            });
        });
    }

    /// Adds a page run to the group of its first access. Marks and tags end a run, so all its
    /// accesses are in one group.
    fn page_run(&mut self, memory: usize, run: &PageRun) {
        let SplitFold { choosers, labels, rows, instances, .. } = self;
        let Some(Some(chooser)) = choosers.get_mut(memory) else { return };
        let (addresses, writes, clocks) = ([run.address], [run.reads == 0], [run.clock]);
        let first = Batch::new(&addresses, &writes).with_clocks(&clocks);
        chooser.batch(memory, &first, labels, rows, |group, _| {
            instances.page_run(group, memory, run);
        });
    }

    /// For each memory whose card cannot have seen the tags of some functions: the number of the
    /// memory, and a text for people on these functions.
    pub fn missing(&self) -> Vec<(usize, String)> {
        let missing = |(memory, chooser): (usize, &Option<Chooser>)| {
            Some((memory, chooser.as_ref()?.missing()?))
        };
        self.choosers.iter().enumerate().filter_map(missing).collect()
    }

    /// The results of all groups, in descending order of accesses, and notes for people on the
    /// limits of the groups.
    pub fn finish(self) -> (Vec<GroupResult<A::Result>>, Vec<String>) {
        let SplitFold { by, choosers, labels, instances, .. } = self;
        let mut notes = Vec::new();
        for note in choosers.iter().flatten().flat_map(|chooser| chooser.notes(by.is_inclusive())) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes.extend(labels.note_on_others());
        let results = labels.all().iter().zip(instances.finish());
        let mut groups: Vec<_> = results
            .map(|(label, analysis)| {
                let (sums, result) = analysis.result();
                let (name, object) = (label.name.clone(), label.object.clone());
                GroupResult { name, object, sums, result }
            })
            .collect();
        groups.sort_by(|first, second| {
            let by_count = second.sums.accesses.cmp(&first.sums.accesses);
            by_count.then_with(|| (&first.name, &first.object).cmp(&(&second.name, &second.object)))
        });
        (groups, notes)
    }
}
