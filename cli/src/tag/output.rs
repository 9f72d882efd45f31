//! Defines the options of `hmtt tag` for sinks and outputs, and opens the outputs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use hmtt_format::tag_map::{TagMap, new_id};
use hmtt_host::files::{Entry, Identity};
use hmtt_probe::control::{
    CardWindow, LogOutput, LogSummary, MarkOutput, Output, TagError, Tagged,
};
use hmtt_probe::stubs::layout::{LogShape, WhenFull};

use super::files::{Created, Unbegun, check_absent};
use super::values::{buffer_kb, buffers, number, time, window};

#[derive(clap::Args)]
pub struct To {
    /// Action of a tag
    #[arg(long, value_enum, default_value_t = SinkName::Count)]
    sink: SinkName,
    /// Write the counts as JSON to this file, instead of a table to standard error; or the log, together with
    /// FILE.json, which names the functions
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
    /// Make marks on the memory bus, which relate the times of log and trace: a device with the card's configuration
    /// registers, and their offset
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

/// The output that remains to be written at the end.
pub enum Result {
    /// Counts, which are written to a file or to standard error.
    Counts(Option<Created>),
    /// Nothing remains to be written.
    Written,
}

/// The map file, which names the functions of a log or of a card's tags.
pub struct Map {
    path: PathBuf,
    /// Whether an existing file may be replaced: if the user requested it, or if this process created the file.
    may_replace: Cell<bool>,
    id: [u8; 8],
    sink: &'static str,
    is_timed: bool,
    window_base: Option<u64>,
}

/// The opened outputs, besides those that tags write directly.
pub struct Opened {
    /// Path of the log.
    pub log: Option<PathBuf>,
    /// Files that this process created.
    created: Vec<(Entry, Identity)>,
    pub map: Option<Map>,
    pub result: Result,
}

impl Opened {
    /// The created files, to be removed if tagging does not start.
    pub fn unbegun(&self) -> Unbegun {
        Unbegun::new(self.created.clone())
    }

    /// Removes the files of a log that was not started.
    pub fn remove(self) {
        drop(self.unbegun());
        // The map may not exist yet, or belong to another process.
        if let Some(map) = self.map.filter(|map| map.may_replace.get()) {
            let _ = std::fs::remove_file(map.path);
        }
    }
}

impl To {
    /// Opens the outputs of the first process.
    pub fn open(&self) -> anyhow::Result<(Output, Opened)> {
        if self.marks.is_some() && (self.sink != SinkName::Log || self.no_time) {
            bail!("--marks requires a log with times: --sink log without --no-time");
        }
        if self.sink == SinkName::Log && self.output.is_none() {
            bail!("--sink log requires a file: -o FILE");
        }
        if self.sink == SinkName::Card {
            let window = self.window.clone().context("--sink card requires --window PATH")?;
            window.check().map_err(TagError::from)?;
            let mut opened =
                Opened { log: None, created: Vec::new(), map: None, result: Result::Written };
            if let Some(path) = &self.output {
                let map = self.map(path, "card");
                opened.created.extend(Created::new(&map.path, self.overwrite)?.removable());
                // The map replaces the empty file that was just created.
                map.may_replace.set(true);
                opened.map = Some(map);
            }
            return Ok((Output::Card(window), opened));
        }
        let every = self.mark_every;
        let marks = self.marks.clone().map(|window| MarkOutput { window, every });
        Ok(self.open_with("", marks)?)
    }

    /// Opens the outputs of another process. `suffix`: the end of the name of its log.
    pub fn open_more(&self, suffix: &str) -> std::result::Result<(Output, Opened), TagError> {
        self.open_with(suffix, None)
    }

    fn open_with(
        &self,
        suffix: &str,
        marks: Option<MarkOutput>,
    ) -> std::result::Result<(Output, Opened), TagError> {
        let opened = |result| Opened { log: None, created: Vec::new(), map: None, result };
        Ok(match (self.sink, &self.output) {
            // Counts of all processes are written to one file.
            (SinkName::Count, Some(path)) if suffix.is_empty() => {
                let file = Created::new(path, self.overwrite)?;
                let created = file.removable().into_iter().collect();
                let opened = opened(Result::Counts(Some(file)));
                (Output::Counts, Opened { created, ..opened })
            }
            (SinkName::Count, _) => (Output::Counts, opened(Result::Counts(None))),
            (SinkName::Log, Some(path)) => {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                let path = PathBuf::from(name);
                let map = self.map(&path, "log");
                check_absent(&map.path, self.overwrite)?;
                let file = Created::new(&path, self.overwrite)?;
                let created = file.removable().into_iter().collect();
                let (shape, map_id) = (self.shape(), map.id);
                let log = LogOutput { file: file.file, path: path.clone(), shape, map_id, marks };
                let (map, result) = (Some(map), Result::Written);
                (Output::Log(log), Opened { log: Some(path), created, map, result })
            }
            _ => (Output::None, opened(Result::Written)),
        })
    }

    /// Rejects options that allow one process only.
    pub fn check_follow(&self) -> anyhow::Result<()> {
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

    fn map(&self, path: &Path, sink: &'static str) -> Map {
        let path = TagMap::path_beside(path);
        let is_timed = sink == "log" && !self.no_time;
        let may_replace = Cell::new(self.overwrite);
        Map { path, may_replace, id: new_id(), sink, is_timed, window_base: self.window_base }
    }
}

impl Map {
    /// Writes the map; at the end with the summary of the log.
    pub fn save(&self, tagged: &Tagged, learned: Option<&LogSummary>) -> anyhow::Result<()> {
        let mut map = tagged.map(self.id, self.sink, self.is_timed, self.window_base);
        map.tsc_hz = learned.map_or(map.tsc_hz, |summary| summary.tsc_hz);
        match self.may_replace.get() {
            true => map.save(&self.path)?,
            false => map.save_new(&self.path)?,
        }
        self.may_replace.set(true);
        Ok(())
    }
}

/// Prints what was lost, and returns whether anything was. `damaged`: number of invalid counts.
pub fn tell(summary: Option<&LogSummary>, damaged: u64) -> bool {
    let summary = summary.copied().unwrap_or_default();
    let LogSummary { events, dropped, interrupted, damaged: records, .. } = summary;
    if damaged != 0 {
        tell!(
            "hmtt: warning: {damaged} counts are invalid: the program overwrote them; they are set to 0"
        );
    }
    if records != 0 {
        tell!("hmtt: warning: {records} records are invalid: the program overwrote them");
    }
    if dropped != 0 {
        tell!(
            "hmtt: warning: {dropped} of {} events were dropped: buffers were full",
            events + dropped
        );
    }
    if interrupted != 0 {
        tell!(
            "hmtt: warning: {interrupted} events were interrupted while their records were written"
        );
    }
    [dropped, interrupted, records, damaged].iter().any(|count| *count != 0)
}
