//! Splits the results of a command by kernel, marks, function or thread: `--by`.
//!
//! [`analyse_split`] reads the files, [`options`] parses what is wanted, [`forms`] prints the groups as text, JSON and CSV, and [`profile`] writes the accesses of
//! functions for programs that draw them.

pub mod forms;
pub mod options;
pub mod profile;

use anyhow::Result;
use hmtt::analysis::split::{GroupResult, SplitFold};
use hmtt::analysis::{Analysis, Fold};

use super::input::{Files, analyse, open, read};
use super::options::Options;
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

/// What was found in all accesses, and in those of each group.
pub struct Analysed<A: Analysis> {
    pub found: A,
    pub files: Files,
    pub groups: Option<Groups<A::Result>>,
}

/// Reads all files as [`analyse`] does, also into an analysis for each group, if that is wanted.
pub fn analyse_split<A: Analysis + Clone>(
    options: &Options,
    split: &SplitOptions,
    new: A,
) -> Result<Analysed<A>> {
    let Some(by) = split.by()? else {
        let (found, files) = analyse(options, new)?;
        return Ok(Analysed { found, files, groups: None });
    };
    let (name, inclusive) = (by.name(), by.is_inclusive());
    let mut fold = Fold::new(new.clone());
    let mut groups = SplitFold::new(by, new).with_most(split.most());
    let (sources, pagemap) = (open(&options.files)?, options.pagemap.as_deref());
    let files = read(sources, pagemap, split.is_by_function(), &mut |memory, part| {
        fold.part(memory, part);
        groups.part(memory, part);
    })?;
    let (groups, notes) = groups.finish();
    let groups = Some(Groups { by: name, inclusive, groups, notes });
    Ok(Analysed { found: fold.finish(), files, groups })
}
