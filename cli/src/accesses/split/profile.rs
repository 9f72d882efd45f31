//! Writes the accesses of functions as a flame graph, as folded stacks, or as a profile in
//! callgrind's format. Also writes the accesses of any groups over time for ui.perfetto.dev.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[cfg(feature = "tag")]
use anyhow::Context;
use anyhow::{Result, ensure};
use hmtt::analysis::split::GroupResult;
use hmtt::analysis::split::tracks::{MOST_WRITTEN, Tracks, Written};
use hmtt_format::escape;

use super::super::figures::counted;
use super::super::file;
use super::super::options::Options;
use super::Groups;
use super::options::SplitOptions;
use crate::usage::ensure_usage;

/// Files to be written.
#[derive(clap::Args)]
pub struct ProfileOptions {
    /// Draw a flame graph of the accesses of functions
    #[cfg(feature = "tag")]
    #[arg(long, value_name = "FILE.svg", requires = "by")]
    flame: Option<PathBuf>,
    /// Write the accesses of functions as folded stacks, the input of programs that draw flame
    /// graphs
    #[arg(long, value_name = "FILE", requires = "by")]
    folded: Option<PathBuf>,
    /// Write the accesses of functions as a profile for callgrind_annotate and KCachegrind
    #[arg(long, value_name = "FILE", requires = "by")]
    callgrind: Option<PathBuf>,
    /// Write the accesses of each group and thread over time as counters, in Chrome's trace format,
    /// for ui.perfetto.dev
    #[arg(long, value_name = "FILE.json", requires = "by")]
    perfetto: Option<PathBuf>,
    /// Overwrite files
    #[arg(short, long)]
    force: bool,
}

impl ProfileOptions {
    /// Paths of the outputs that need `--by function`.
    fn paths_of_functions(&self) -> Vec<&Path> {
        let paths = [self.folded.as_deref(), self.callgrind.as_deref()];
        #[cfg(feature = "tag")]
        let paths = paths.into_iter().chain([self.flame.as_deref()]);
        paths.into_iter().flatten().collect()
    }

    /// The collector of accesses over time; `None` if the user does not want them.
    ///
    /// # Errors
    /// As [`SplitOptions::by`].
    pub fn tracks(&self, split: &SplitOptions) -> Result<Option<Tracks>> {
        let by = if self.perfetto.is_some() { split.by()? } else { None };
        Ok(by.map(|by| Tracks::new(by, split.most())))
    }

    /// Checks everything that can be checked before files are read. Creates no file.
    ///
    /// # Errors
    /// A file exists, is an input, or is named twice. Or an output needs functions, and accesses
    /// are not split by function, or are inclusive.
    pub fn check(&self, options: &Options, split: &SplitOptions) -> Result<()> {
        let mut paths = self.paths_of_functions();
        for path in &paths {
            let name = path.display();
            ensure_usage(split.is_by_function(), || format!("{name}: is for --by function"))?;
            // Inclusive accesses are counted in several groups, and the groups do not record which
            // function is the caller.
            ensure_usage(!split.is_inclusive(), || {
                format!(
                    "{name}: has accesses of the functions themselves, which --inclusive does not count"
                )
            })?;
        }
        paths.extend(self.perfetto.as_deref());
        file::check_distinct(&paths, options.inputs().chain(split.map()))?;
        paths.iter().try_for_each(|path| file::check(path, self.force))
    }
}

/// A name that fits into one line, without the semicolon that separates the frames of folded
/// stacks.
fn name(text: &str) -> String {
    escape::message(text).to_string().replace(';', ":")
}

/// The file name of a group's function.
fn object<R>(group: &GroupResult<R>) -> String {
    let file = group.object.rsplit('/').next().filter(|file| !file.is_empty());
    name(file.unwrap_or("(no file)"))
}

/// Folded stacks: one line for each function, with its file and its accesses. Example:
/// `libfoo.so;main 42`.
fn fold<R>(groups: &Groups<R>) -> String {
    let line = |group: &GroupResult<R>| {
        format!("{};{} {}\n", object(group), name(&group.name), group.sums.accesses)
    };
    groups.groups.iter().map(line).collect()
}

/// Writes a callgrind profile whose costs are reads and writes.
fn write_callgrind<R>(groups: &Groups<R>, output: &mut dyn Write) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(output, "# callgrind format\nversion: 1\ncreator: hmtt {version}")?;
    writeln!(output, "positions: line\nevents: Reads Writes\n")?;
    for group in &groups.groups {
        let file = match group.object.as_str() {
            "" => "???",
            file => file,
        };
        writeln!(
            output,
            "ob={}\nfl=???\nfn={}",
            escape::message(file),
            escape::message(&group.name)
        )?;
        let sums = &group.sums;
        writeln!(output, "0 {} {}\n", sums.reads, sums.writes)?;
    }
    Ok(())
}

#[cfg(feature = "tag")]
fn draw(folded: &str) -> Result<Vec<u8>> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = "accesses of functions".to_owned();
    options.count_name = "accesses".to_owned();
    ensure!(!folded.is_empty(), "there are no accesses to draw");
    let mut drawn = Vec::new();
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut drawn)?;
    Ok(drawn)
}

/// Writes the files. The contents of all files are made before the first file is written.
///
/// # Errors
/// A file cannot be written, or there is nothing to draw. The files before it are complete.
pub fn write<R>(
    options: &ProfileOptions,
    groups: &Groups<R>,
    tracks: Option<Tracks>,
) -> Result<()> {
    let folded = fold(groups);
    let mut outputs = Vec::new();
    #[cfg(feature = "tag")]
    if let Some(path) = &options.flame {
        let drawn = draw(&folded).with_context(|| format!("cannot write {}", path.display()))?;
        outputs.push((path, drawn));
    }
    if let Some(path) = &options.folded {
        outputs.push((path, folded.into_bytes()));
    }
    if let Some(path) = &options.callgrind {
        let mut profile = Vec::new();
        write_callgrind(groups, &mut profile)?;
        outputs.push((path, profile));
    }
    if let (Some(path), Some(tracks)) = (&options.perfetto, tracks) {
        let mut events = Vec::new();
        let Written { other_accesses, .. } = tracks.write(&mut events)?;
        if other_accesses > 0 {
            report!(
                "hmtt: warning: {}: at most {MOST_WRITTEN} tracks are written; one has all others, with {}",
                path.display(),
                counted(other_accesses, "access")
            );
        }
        outputs.push((path, events));
    }
    outputs.iter().try_for_each(|(path, bytes)| file::write(path, bytes, options.force))
}
