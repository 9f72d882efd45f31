//! Options of `hmtt monitor run` and `attach`: what is recorded, and where the counts are written.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use hmtt_format::profile::Profile;
use hmtt_probe::ptrace;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{Options, Outcome};
use hmtt_translator::monitor::tally::Recording;

use super::report;
use crate::tag::files::{Created, NewFiles};
use crate::tag::options::block_signals;

#[derive(clap::Args)]
pub struct MonitorOptions {
    /// Write the counts as JSON to this file, for hmtt monitor report, instead of a table to standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    /// What a thread does when its ring is full
    #[arg(long, value_enum, default_value_t = Full::Wait)]
    full: Full,
    /// Count blocks only, not what follows each of them; this is faster
    #[arg(long)]
    counts_only: bool,
    /// Translate only and record nothing, which shows the cost of the translation itself
    #[arg(long, conflicts_with_all = ["output", "counts_only", "full"])]
    translate_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Full {
    /// Wait until the monitor has read a part of it
    Wait,
    /// Continue, and count the dropped block numbers
    Drop,
}

/// What is made before a program is followed.
pub struct Prepared {
    /// How it is followed.
    pub options: Options,
    created: Option<Created>,
    new_files: NewFiles,
    prints: bool,
}

/// How writing the counts went.
pub struct Finished {
    /// Whether the file could not be written. The error is printed.
    pub has_failed: bool,
    /// Whether something was lost.
    pub is_lost: bool,
}

impl MonitorOptions {
    /// Blocks signals and creates the output file, before any other thread starts.
    pub fn prepare(&self) -> Result<Prepared> {
        let signals = block_signals()?;
        ptrace::ignore_file_size_signal();
        let create = |path| Created::new(path, self.overwrite);
        let created = self.output.as_ref().map(create).transpose()?;
        let removable = created.iter().filter_map(Created::removable).collect();
        let recording = Recording { edges: !self.counts_only, ..Recording::default() };
        let instrument = if self.translate_only { Instrument::None } else { Instrument::Ring };
        let drops = self.full == Full::Drop;
        Ok(Prepared {
            options: Options { instrument, drops, recording, signals },
            created,
            new_files: NewFiles::new(removable),
            prints: !self.translate_only,
        })
    }
}

impl Prepared {
    /// Writes or prints the counts, and warns of losses.
    pub fn finish(self, outcome: Outcome) -> Finished {
        let Prepared { created, new_files, prints, .. } = self;
        new_files.keep();
        let Outcome { profile, ending, left } = outcome;
        if let Some(why) = left {
            report!(
                "hmtt: warning: the program was followed only until {why}; it goes on natively"
            );
        }
        let profile: Profile = profile.to_file(ending, left);
        let written = match created {
            Some(file) => file.write(profile.to_json()),
            None => {
                if prints {
                    report!("{}", report::table(&profile, report::ROWS).trim_end());
                }
                Ok(())
            }
        };
        if let Err(error) = &written {
            report!("hmtt: {}", hmtt_format::escape::message(&format!("{error:#}")));
        }
        report::warn(&profile);
        Finished { has_failed: written.is_err(), is_lost: !profile.is_complete() }
    }
}
