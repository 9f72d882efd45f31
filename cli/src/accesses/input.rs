//! Reads the files of a command into an analysis, and shows the progress on a terminal.

use std::io::IsTerminal;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use hmtt::analysis::source::{Ending, Part};
use hmtt::analysis::{Analysis, Detail, Fold};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::need::Need;
use super::options::Options;
use super::resolution::{Resolution, Resolver};
use super::source::Opened;

const SPINNER: &str = "{spinner} {human_pos} accesses, {per_sec}";
/// Accesses between two updates of the progress.
const SHOWN: u64 = 1 << 20;

/// Text on the missing result of a file without accesses.
const NO_ACCESS: &str = "no access is in it, so that nothing follows from the results";

/// A file that was read to its end.
pub struct Read {
    /// Printable name of the file.
    pub name: String,
    /// Kind of the file, such as "data set".
    pub kind: &'static str,
    /// Counts, notes and missing parts, known at the end of the file.
    pub ending: Ending,
}

/// All files that were read, and the owners of their physical pages.
pub struct Files {
    reads: Vec<Read>,
    /// The owners of pages, if the user has given a map of pages.
    pub resolution: Option<Rc<Resolution>>,
}

impl Deref for Files {
    type Target = [Read];

    fn deref(&self) -> &[Read] {
        &self.reads
    }
}

impl Files {
    /// Files without a map of pages.
    pub const fn without_owners(reads: Vec<Read>) -> Self {
        Files { reads, resolution: None }
    }

    /// Declares that the command computes sums only. For sums it is enough to know the elements of
    /// an access together, so such elements do not count as missing.
    pub fn only_sum(&mut self) {
        self.reads.iter_mut().for_each(|read| read.ending.only_summed.clear());
    }

    /// Adds texts on missing parts. Each text has the number of its memory, counted over all files.
    pub fn add_missing(&mut self, missing: Vec<(usize, String)>) {
        for (mut memory, what) in missing {
            for read in &mut self.reads {
                let memories = read.ending.memories.len();
                if memory < memories {
                    read.ending.missing.push(what);
                    break;
                }
                memory -= memories;
            }
        }
    }

    /// The files without the owners of pages.
    pub fn into_reads(self) -> Vec<Read> {
        self.reads
    }
}

/// Opens the files of a command.
///
/// # Errors
/// A file cannot be opened, or has no accesses.
pub fn open(files: &[PathBuf]) -> Result<Vec<Opened>> {
    files.iter().map(|path| Opened::open(path)).collect()
}

/// Reads the files of a command, as [`analyse_files`] does. `name`: name of the command.
pub fn analyse<A: Analysis + Clone>(
    options: &Options,
    name: &'static str,
    new: A,
) -> Result<(A, Files)> {
    let need = Need::of(name, &new);
    analyse_files(open(&options.files)?, need, options.pagemap.as_deref(), new)
}

/// Reads open files, and passes on their parts. Each part has the number of its memory, counted
/// over all files. `need`: what the command must know of accesses. `pagemap`: path of a map of
/// pages.
///
/// # Errors
/// Nothing in a file can be used, or the map of pages does not fit.
pub fn read(
    sources: Vec<Opened>,
    need: Need,
    pagemap: Option<&Path>,
    with_functions: bool,
    pass_on: &mut dyn FnMut(usize, Part<'_>),
) -> Result<Files> {
    let need = need.with(pagemap.map(|_| "an analysis with --pagemap"), Detail::Page);
    let mut resolver = pagemap.map(Resolver::open).transpose()?;
    if resolver.is_some() {
        sources.iter().try_for_each(Resolver::check)?;
    }
    let is_shown = std::io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let progress = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(SPINNER) {
        progress.set_style(style);
    }
    let (mut first, mut unseen) = (0, 0);
    let mut reads = Vec::new();
    for source in sources {
        let (name, kind) = (source.name.clone(), source.kind());
        let mut fits = Ok(());
        let mut ending = source.read(with_functions, &mut |memory, part| {
            let part = need.usable(part);
            if let (Part::Known(known), Some(_), Ok(())) = (&part, &resolver, &fits) {
                fits = Resolver::check_known(&name, known);
            }
            if let Part::Batch(batch) = &part {
                unseen += batch.len() as u64;
                if unseen >= SHOWN {
                    progress.inc(std::mem::take(&mut unseen));
                }
            }
            if let Some(resolver) = &mut resolver {
                resolver.part(first + memory, &part);
            }
            pass_on(first + memory, part);
        });
        fits?;
        need.check(&name, &mut ending)?;
        if ending.accesses == 0 && ending.failure.is_none() {
            ending.missing.push(NO_ACCESS.to_owned());
        }
        first += ending.memories.len();
        reads.push(Read { name, kind, ending });
    }
    progress.finish_and_clear();
    let memories = reads.iter().flat_map(|read: &Read| &read.ending.memories);
    let resolution = resolver.map(|resolver| resolver.resolve(memories)).transpose()?.map(Rc::new);
    Ok(Files { reads, resolution })
}

/// Reads files into one analysis. Accesses of different files belong to different memories. The
/// result includes everything that was read before an error. `pagemap`: path of a map of pages.
pub fn analyse_files<A: Analysis + Clone>(
    sources: Vec<Opened>,
    need: Need,
    pagemap: Option<&Path>,
    new: A,
) -> Result<(A, Files)> {
    let mut fold = Fold::new(new);
    let files = read(sources, need, pagemap, false, &mut |memory, part| fold.part(memory, part))?;
    Ok((fold.finish(), files))
}
