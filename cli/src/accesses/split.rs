//! Splits the results of a command into groups by kernel, marks, function or thread: option `--by`.
//!
//! [`analyse_split`] reads the files. [`options`] parses the option. [`forms`] prints the groups as
//! text, JSON and CSV. [`profile`] writes the accesses of functions for other programs, which draw
//! them.

pub mod forms;
pub mod options;
pub mod profile;

use std::path::Path;

use anyhow::Result;
use hmtt::analysis::source::Part;
use hmtt::analysis::split::{By, GroupResult, SplitFold};
use hmtt::analysis::{Analysis, Detail, Fold};

use super::input::{Files, open, read};
use super::need::Need;
use super::options::Options;
use super::source::Opened;
use options::SplitOptions;

/// Results of each group.
pub struct Groups<R> {
    /// The criterion of the groups, such as "function".
    pub by: &'static str,
    /// Whether an access may be in several groups.
    pub inclusive: bool,
    /// The groups, with most accesses first.
    pub groups: Vec<GroupResult<R>>,
    /// Notes for people on the limits of the division.
    pub notes: Vec<String>,
}

/// The result of all accesses, and the results of the groups. The groups may have another analysis
/// than all accesses.
pub struct Analysed<A, G: Analysis = A> {
    pub found: A,
    pub files: Files,
    pub groups: Option<Groups<G::Result>>,
}

/// A function that receives each part of the sources, with the number of its memory.
pub type Observer<'o> = &'o mut dyn FnMut(usize, Part<'_>);

/// Reads all files as [`analyse`](super::input::analyse) does. If the user wants groups, each group
/// has an analysis of its own.
pub fn analyse_split<A: Analysis + Clone>(
    options: &Options,
    split: &SplitOptions,
    need: Need,
    new: A,
) -> Result<Analysed<A>> {
    analyse_observed(options, split, need, new, &mut |_, _| {})
}

/// Reads all files as [`analyse_split`] does, and also passes each part to an observer.
pub fn analyse_observed<A: Analysis + Clone>(
    options: &Options,
    split: &SplitOptions,
    need: Need,
    new: A,
    observe: Observer<'_>,
) -> Result<Analysed<A>> {
    let by = split.by()?;
    let (sources, pagemap) = (open(&options.files)?, options.pagemap.as_deref());
    let groups = by.map(|by| Grouping::new(by, split, new.clone()));
    analyse_groups(sources, need, pagemap, new, groups, observe)
}

/// The rule that divides accesses into groups, and the analysis of each group.
pub struct Grouping<G> {
    name: &'static str,
    inclusive: bool,
    with_functions: bool,
    fold: SplitFold<G>,
}

impl<G: Analysis + Clone> Grouping<G> {
    /// Creates a grouping without accesses. `new`: initial state of each group's analysis.
    pub fn new(by: By, split: &SplitOptions, new: G) -> Self {
        let (name, inclusive) = (by.name(), by.is_inclusive());
        let with_functions = matches!(by, By::Function(_));
        let fold = SplitFold::new(by, new).with_most(split.most());
        Grouping { name, inclusive, with_functions, fold }
    }

    fn finish(self) -> Groups<G::Result> {
        let (groups, notes) = self.fold.finish();
        Groups { by: self.name, inclusive: self.inclusive, groups, notes }
    }
}

/// Reads open files into one analysis of all accesses. If there is a grouping, each group has an
/// analysis too. `pagemap`: path of a map of pages. `observe`: receives each part.
pub fn analyse_groups<A: Analysis + Clone, G: Analysis + Clone>(
    sources: Vec<Opened>,
    need: Need,
    pagemap: Option<&Path>,
    new: A,
    mut groups: Option<Grouping<G>>,
    observe: Observer<'_>,
) -> Result<Analysed<A, G>> {
    if groups.is_some() {
        sources.iter().try_for_each(Opened::check_groups)?;
    }
    // A slice of frequency mode may have accesses of several groups, so each access needs a page.
    let need = need.with(groups.as_ref().map(|_| "an analysis with --by"), Detail::Page);
    let mut fold = Fold::new(new);
    let with_functions = groups.as_ref().is_some_and(|groups| groups.with_functions);
    let mut files = read(sources, need, pagemap, with_functions, &mut |memory, part| {
        fold.part(memory, part);
        if let Some(groups) = &mut groups {
            groups.fold.part(memory, part);
        }
        observe(memory, part);
    })?;
    if let Some(groups) = &groups {
        files.add_missing(groups.fold.missing());
    }
    Ok(Analysed { found: fold.finish(), files, groups: groups.map(Grouping::finish) })
}
