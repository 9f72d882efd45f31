//! Splits the results of a command by kernel, marks, function or thread: `--by`.
//!
//! [`analyse_split`] reads the files, [`options`] parses what is wanted, [`forms`] prints the
//! groups as text, JSON and CSV, and [`profile`] writes the accesses of functions for programs that
//! draw them.

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

/// What was found in each group.
pub struct Groups<R> {
    /// What the groups are of.
    pub by: &'static str,
    /// Whether an access may be in several groups.
    pub inclusive: bool,
    /// The groups, that with most accesses first.
    pub groups: Vec<GroupResult<R>>,
    /// What limits them, for people.
    pub notes: Vec<String>,
}

/// What was found in all accesses, and in those of each group, for which the analysis can be
/// another one.
pub struct Analysed<A, G: Analysis = A> {
    pub found: A,
    pub files: Files,
    pub groups: Option<Groups<G::Result>>,
}

/// Takes parts of sources, with the numbers of their memories.
pub type Observer<'o> = &'o mut dyn FnMut(usize, Part<'_>);

/// Reads all files as [`analyse`](super::input::analyse) does, also into an analysis for each
/// group, if that is wanted.
pub fn analyse_split<A: Analysis + Clone>(
    options: &Options,
    split: &SplitOptions,
    need: Need,
    new: A,
) -> Result<Analysed<A>> {
    analyse_observed(options, split, need, new, &mut |_, _| {})
}

/// Reads all files as [`analyse_split`] does, and passes on their parts to an observer, too.
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

/// What divides accesses into groups, and the analysis of each group.
pub struct Grouping<G> {
    name: &'static str,
    inclusive: bool,
    with_functions: bool,
    fold: SplitFold<G>,
}

impl<G: Analysis + Clone> Grouping<G> {
    /// Groups without accesses. `new`: the begin of each group's analysis.
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

/// Reads open files into one analysis of all accesses and, if there is a grouping, another one of
/// each group. `pagemap`: a map of pages. `observe` takes the parts, too.
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
    // A slice has accesses of any group.
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
