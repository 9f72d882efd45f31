//! Reads the files of a command into an analysis, and shows on a terminal how far it is.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use hmtt::analysis::source::{Ending, Part, Source};
use hmtt::analysis::{Analysis, Fold};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::options::Options;
use crate::standard_io::{input, is_standard, name_of_input};

const SPINNER: &str = "{spinner} {human_pos} accesses, {per_sec}";
/// Accesses between two changes of what is shown.
const SHOWN: u64 = 1 << 20;

/// A file that was read.
pub struct Read {
    /// Its printable name.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// What is known at its end.
    pub ending: Ending,
}

/// An open file.
fn open(options: &Options) -> Result<Vec<(String, Source)>> {
    let one = |path: &std::path::PathBuf| {
        let name = name_of_input(path);
        let source = if is_standard(path) {
            input().map(Source::capture).map_err(Into::into)
        } else {
            Source::open(path)
        };
        let source = source.with_context(|| name.clone())?;
        Ok((name, source))
    };
    options.files.iter().map(one).collect()
}

/// Reads all files. Accesses of different files are of different memories. What could be read before an error is in the
/// result.
pub fn analyse<A: Analysis + Clone>(options: &Options, new: A) -> Result<(A, Vec<Read>)> {
    let sources = open(options)?;
    let is_shown = std::io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let progress = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(SPINNER) {
        progress.set_style(style);
    }
    let mut fold = Fold::new(new);
    let (mut first, mut unseen) = (0, 0);
    let mut files = Vec::new();
    for (name, source) in sources {
        let kind = source.kind().name();
        let ending = source.read(&mut |memory, part| {
            if let Part::Batch(batch) = &part {
                unseen += batch.len() as u64;
                if unseen >= SHOWN {
                    progress.inc(std::mem::take(&mut unseen));
                }
            }
            fold.part(first + memory, part);
        });
        first += ending.memories.len();
        files.push(Read { name, kind, ending });
    }
    progress.finish_and_clear();
    Ok((fold.finish(), files))
}
