//! Writes the accesses of functions as a flame graph, as folded stacks, or as a profile in callgrind's format.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hmtt::analysis::split::GroupResult;
use hmtt_format::escape;

use super::super::options::Options;
use super::Groups;
use super::options::SplitOptions;
use crate::output::{create, is_same_file};

/// Files to be written.
#[derive(clap::Args)]
pub struct ProfileOptions {
    /// Draw a flame graph of the accesses of functions
    #[cfg(feature = "tag")]
    #[arg(long, value_name = "FILE.svg", requires = "by")]
    flame: Option<PathBuf>,
    /// Write the accesses of functions as folded stacks, the input of programs that draw flame graphs
    #[arg(long, value_name = "FILE", requires = "by")]
    folded: Option<PathBuf>,
    /// Write the accesses of functions as a profile for callgrind_annotate and KCachegrind
    #[arg(long, value_name = "FILE", requires = "by")]
    callgrind: Option<PathBuf>,
    /// Overwrite files
    #[arg(short, long)]
    force: bool,
}

/// Created files.
pub struct Files {
    #[cfg(feature = "tag")]
    flame: Option<BufWriter<File>>,
    folded: Option<BufWriter<File>>,
    callgrind: Option<BufWriter<File>>,
}

impl ProfileOptions {
    /// Creates the files.
    ///
    /// # Errors
    /// One exists or cannot be created, is an input, or accesses are not split by function.
    pub fn create(&self, options: &Options, split: &SplitOptions) -> Result<Files> {
        let open = |path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            ensure!(split.is_by_function(), "{}: is for --by function", path.display());
            if options.files.iter().any(|input| is_same_file(input, path)) {
                bail!("{} is also an input; choose another output", path.display());
            }
            Ok(Some(BufWriter::new(create(path, self.force)?)))
        };
        Ok(Files {
            #[cfg(feature = "tag")]
            flame: open(&self.flame)?,
            folded: open(&self.folded)?,
            callgrind: open(&self.callgrind)?,
        })
    }
}

/// A name that a line can have, without what separates the frames of folded stacks.
fn name(text: &str) -> String {
    escape::message(text).to_string().replace(';', ":")
}

/// The file of a group.
fn object<R>(group: &GroupResult<R>) -> String {
    let file = group.object.rsplit('/').next().filter(|file| !file.is_empty());
    name(file.unwrap_or("(no file)"))
}

/// Folded stacks: each function with its accesses, in its file.
fn fold<R>(groups: &Groups<R>) -> String {
    let line = |group: &GroupResult<R>| {
        format!("{};{} {}\n", object(group), name(&group.name), group.sums.accesses)
    };
    groups.groups.iter().map(line).collect()
}

/// A profile whose costs are reads and writes.
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
fn draw(folded: &str, mut output: BufWriter<File>) -> Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    options.title = "accesses of functions".to_owned();
    options.count_name = "accesses".to_owned();
    ensure!(!folded.is_empty(), "there are no accesses to draw");
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut output)?;
    Ok(output.flush()?)
}

/// Writes the files.
///
/// # Errors
/// A file cannot be written, or there is nothing to draw.
pub fn write<R>(options: &ProfileOptions, files: Files, groups: &Groups<R>) -> Result<()> {
    let cannot = |path: &Option<PathBuf>| {
        format!("cannot write to {}", path.clone().unwrap_or_default().display())
    };
    // Inclusive accesses are in several groups, of which none is known to be the caller of another one.
    let is_drawn = files.folded.is_some();
    #[cfg(feature = "tag")]
    let is_drawn = is_drawn || files.flame.is_some();
    ensure!(
        !is_drawn || !groups.inclusive,
        "a flame graph is of accesses of the functions themselves"
    );
    let folded = if is_drawn { fold(groups) } else { String::new() };
    if let Some(mut output) = files.folded {
        let written = output.write_all(folded.as_bytes()).and_then(|()| output.flush());
        written.with_context(|| cannot(&options.folded))?;
    }
    #[cfg(feature = "tag")]
    if let Some(output) = files.flame {
        draw(&folded, output).with_context(|| cannot(&options.flame))?;
    }
    if let Some(mut output) = files.callgrind {
        let written = write_callgrind(groups, &mut output).and_then(|()| output.flush());
        written.with_context(|| cannot(&options.callgrind))?;
    }
    Ok(())
}
