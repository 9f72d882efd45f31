//! Defines the options of `hmtt tag` for sinks and outputs, and opens the outputs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hmtt_files::tag_map::{TagMap, new_id};
use hmtt_probe::control::{CardWindow, LogOutput, MarkOutput, Output, TagError};
use hmtt_probe::stubs::layout::{LogShape, WhenFull};

use super::files::{Created, check_absent};
use super::process_output::{MapFile, ProcessOutput};
use super::values::{buffer_kb, buffers, number, time, window};

#[derive(clap::Args)]
pub struct OutputOptions {
    /// Action of a tag
    #[arg(long, value_enum, default_value_t = SinkName::Count)]
    sink: SinkName,
    /// Write the counts as JSON to this file, instead of a table to standard error; or the log,
    /// together with FILE.json, which names the functions
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite existing output files; without this option they are an error
    #[arg(long)]
    overwrite: bool,
    /// Log only the order of events, not their times: half the size, and faster
    #[arg(long)]
    no_time: bool,
    /// Size of a buffer of a log in KiB, a power of two; 4 KiB of it are not used
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = buffer_kb)]
    buffer_kb: u64,
    /// Number of buffers for each thread, a power of two
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = buffers)]
    buffers: u64,
    /// What a thread does when all its buffers are full
    #[arg(long, value_enum, default_value_t = Full::Wait)]
    full: Full,
    /// Memory that the card watches: a device or another file, with offset and size
    #[arg(long, value_name = "PATH[:OFFSET[:BYTES]]", value_parser = window)]
    window: Option<CardWindow>,
    /// Physical address of the window, by which a trace contains it
    #[arg(long, value_name = "ADDRESS", value_parser = number)]
    window_base: Option<u64>,
    /// Make marks on the memory bus, which relate the times of log and trace: a device with the
    /// card's configuration registers, and their offset
    #[arg(long, value_name = "PATH[:OFFSET]", value_parser = window)]
    marks: Option<CardWindow>,
    /// Time between two marks
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = time, requires = "marks")]
    mark_every: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SinkName {
    /// Count entries for each thread
    Count,
    /// Write each event to a file, through buffers for each thread
    Log,
    /// Write to a separate address for each event, which the card sees; requires --window
    Card,
    /// Do nothing, to measure the cost of the jumps; no file is written
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Full {
    /// Wait until a buffer is written
    Wait,
    /// Continue, and count the dropped events
    Drop,
}

impl OutputOptions {
    /// Opens the outputs of the first process.
    pub fn open(&self) -> Result<(Output, ProcessOutput)> {
        if self.marks.is_some() && (self.sink != SinkName::Log || self.no_time) {
            bail!("--marks requires a log with times: --sink log without --no-time");
        }
        if self.sink == SinkName::Log && self.output.is_none() {
            bail!("--sink log requires a file: -o FILE");
        }
        if self.sink == SinkName::Card {
            return self.open_card();
        }
        let every = self.mark_every;
        let marks = self.marks.clone().map(|window| MarkOutput { window, every });
        Ok(self.open_with("", marks)?)
    }

    fn open_card(&self) -> Result<(Output, ProcessOutput)> {
        let window = self.window.clone().context("--sink card requires --window PATH")?;
        window.check().map_err(TagError::from)?;
        let mut output = ProcessOutput::default();
        if let Some(path) = &self.output {
            let map = self.map(path, "card");
            output.created.extend(Created::new(&map.path, self.overwrite)?.removable());
            // The map replaces the empty file that was just created.
            output.map = Some(MapFile { may_replace: true, ..map });
        }
        Ok((Output::Card(window), output))
    }

    /// Opens the outputs of another process. `suffix`: end of the name of the process's log.
    pub fn open_process(&self, suffix: &str) -> Result<(Output, ProcessOutput), TagError> {
        self.open_with(suffix, None)
    }

    fn open_with(
        &self,
        suffix: &str,
        marks: Option<MarkOutput>,
    ) -> Result<(Output, ProcessOutput), TagError> {
        let mut output = ProcessOutput::default();
        let tags_output = match (self.sink, &self.output) {
            (SinkName::Count, path) => {
                // Counts of all processes are written to one file.
                if let Some(path) = path.as_ref().filter(|_| suffix.is_empty()) {
                    let file = Created::new(path, self.overwrite)?;
                    output.created.extend(file.removable());
                    output.counts = Some(file);
                }
                Output::Counts
            }
            (SinkName::Log, Some(path)) => {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                let path = PathBuf::from(name);
                let map = self.map(&path, "log");
                check_absent(&map.path, self.overwrite)?;
                let file = Created::new(&path, self.overwrite)?;
                output.created.extend(file.removable());
                let (shape, map_id) = (self.shape(), map.id);
                let log = LogOutput { file: file.file, path: path.clone(), shape, map_id, marks };
                (output.log, output.map) = (Some(path), Some(map));
                Output::Log(log)
            }
            _ => Output::None,
        };
        Ok((tags_output, output))
    }

    /// Rejects options that do not work with several processes.
    pub fn check_follow(&self) -> Result<()> {
        if self.sink == SinkName::Card {
            bail!("--follow cannot be used with --sink card: a card cannot distinguish processes");
        }
        if self.marks.is_some() {
            bail!(
                "--follow cannot be used with --marks: a trace is combined with the log of one process"
            );
        }
        Ok(())
    }

    /// Whether counts are to be written.
    pub fn has_counts(&self) -> bool {
        self.sink == SinkName::Count
    }

    fn shape(&self) -> LogShape {
        let when_full = match self.full {
            Full::Wait => WhenFull::Wait,
            Full::Drop => WhenFull::Drop,
        };
        let (is_timed, chunk_bytes) = (!self.no_time, self.buffer_kb << 10);
        LogShape { is_timed, chunk_bytes, chunks: self.buffers, when_full }
    }

    fn map(&self, path: &Path, sink: &'static str) -> MapFile {
        let path = TagMap::path_beside(path);
        let is_timed = sink == "log" && !self.no_time;
        let (may_replace, window_base) = (self.overwrite, self.window_base);
        MapFile { path, may_replace, id: new_id(), sink, is_timed, window_base }
    }
}
