//! `hmtt monitor report`: prints the most executed blocks of a program, or converts its profile to
//! another form.

mod accesses;
mod json;
mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hmtt_files::profile::{Ending, Profile};
use hmtt_translator::report::{Analysis, callgrind};

use crate::standard_io;
use accesses::Accesses;
pub use text::table;

/// Default number of rows in a table.
pub const ROWS: usize = 20;

/// Report the hottest functions, blocks, jumps and system calls of a program
#[derive(clap::Args)]
pub struct Report {
    /// A file that hmtt monitor run has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of rows of each table; 0 means all
    #[arg(long, value_name = "ROWS", default_value_t = ROWS)]
    top: usize,
    /// Add the accesses of blocks and loops that hmtt tag report --json has attributed to them in a
    /// trace of another run
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["annotate", "dot", "callgrind"])]
    accesses: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, group = "form")]
    json: bool,
    /// Print the executed instructions of a function, with how often each was executed
    #[arg(long, value_name = "FUNCTION", group = "form")]
    annotate: Option<String>,
    /// Print the control flow of a function as a graph for dot, with blocks coloured by their
    /// executions
    #[arg(long, value_name = "FUNCTION", group = "form")]
    dot: Option<String>,
    /// Print the executions of all instructions in callgrind's format, for callgrind_annotate and
    /// KCachegrind
    #[arg(long, group = "form")]
    callgrind: bool,
}

/// Prints the report. Returns whether the profile has losses.
pub fn run(report: &Report) -> Result<bool> {
    let Report { file, top, accesses, json, annotate, dot, callgrind } = report;
    let profile = read(file)?;
    let analysis = Analysis::new(&profile);
    let top = if *top == 0 { usize::MAX } else { *top };
    let accesses = accesses.as_ref().map(|report| Accesses::read(report, &profile)).transpose()?;
    let text = if let Some(function) = annotate.as_ref().or(dot.as_ref()) {
        let text = match dot {
            Some(_) => analysis.dot(function),
            None => analysis.annotation(function),
        };
        let Some(text) = text else {
            let name = hmtt_format::escape::name(function);
            match profile.selection {
                Some(_) => bail!("no function {name} was executed and selected"),
                None => bail!("no function {name} was executed"),
            }
        };
        text.into()
    } else if *callgrind {
        let mut text = Vec::new();
        callgrind::write(&analysis, &mut text)?;
        text
    } else if *json {
        json::object(&analysis, top, accesses.as_ref()).into_bytes()
    } else {
        let accesses = accesses.map(|accesses| accesses.table(top)).unwrap_or_default();
        (table(&profile, top) + &accesses).into_bytes()
    };
    standard_io::print(|output| output.write_all(&text))?;
    warn(&profile, "");
    note_children(&profile, "warning: ");
    note_replacement(&profile);
    Ok(!profile.is_complete() || has_unfollowed(&profile))
}

/// Whether some code was executed and not followed: in child processes, or by a program that has
/// replaced the followed program. The counts of the followed program are still right, but part of
/// its work may have been done in that code.
fn has_unfollowed(profile: &Profile) -> bool {
    profile.native_children > 0 || is_replaced(profile)
}

fn is_replaced(profile: &Profile) -> bool {
    matches!(profile.ending, Ending::Replaced)
}

/// Reports that the program has executed another program, which was not monitored.
fn note_replacement(profile: &Profile) {
    if is_replaced(profile) {
        report!(
            "hmtt: warning: the program has executed another one, whose blocks are not in this file"
        );
    }
}

/// Reads a profile.
fn read(path: &Path) -> Result<Profile> {
    let shown = crate::tag::warnings::shown(path);
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let profile = Profile::parse(&text);
    profile.with_context(|| format!("{shown} is not a file of hmtt monitor run"))
}

/// Reports the number of child processes that were not monitored. `prefix`: start of the message.
pub fn note_children(profile: &Profile, prefix: &str) {
    match profile.native_children {
        0 => {}
        1 => report!("hmtt: {prefix}1 child process ran natively, and is not counted"),
        many => report!("hmtt: {prefix}{many} child processes ran natively, and are not counted"),
    }
}

/// Warns of losses in a profile. `prefix`: start of each message.
pub fn warn(profile: &Profile, prefix: &str) {
    for (count, what) in profile.losses() {
        report!("hmtt: warning: {prefix}{count} {what}");
    }
}
