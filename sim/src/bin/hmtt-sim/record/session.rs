//! Makes the accesses of a program on the simulated machine, up to a limit, and completes the
//! recording.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use hmtt_files::access_trace::Made;
use hmtt_format::{Cycles, Direction};
use hmtt_sim::machine::cache::AccessKind;
use hmtt_sim::machine::pages::VirtAddr;
use hmtt_sim::machine::recording::{RecordingPaths, RecordingWriter};
use hmtt_sim::machine::{Counts, Machine, MachineError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Prepared;
use super::arguments::RecordArguments;

/// Number of the process that all accesses belong to.
const PROCESS: u32 = 0;
/// Accesses between two displays of progress.
const PROGRESS_STEP: u64 = 1 << 16;
const SPINNER: &str = "{spinner} {human_pos} accesses, {per_sec}";

/// A recording that is being made.
pub struct Session {
    machine: Machine<RecordingWriter>,
    limit: u64,
    made: u64,
    unknown: u64,
    /// The error after which no more accesses are made.
    error: Option<anyhow::Error>,
    progress: ProgressBar,
}

/// The counts of a recording.
pub struct Recorded {
    /// Counts of the machine.
    pub counts: Counts,
    /// Accesses that were left out, because their addresses or sizes are not known.
    pub unknown: u64,
    /// Whether there were accesses beyond the limit, or may have been.
    pub is_limited: bool,
}

impl Session {
    /// Creates the files, and starts the machine. `shows_progress`: whether a line of progress may
    /// be printed.
    pub fn new(
        arguments: &RecordArguments,
        paths: &RecordingPaths,
        prepared: Prepared,
        shows_progress: bool,
    ) -> Result<Self> {
        let Prepared { memory, policy, parts } = prepared;
        let writer = RecordingWriter::create(paths, &memory, policy, arguments.force)?;
        let is_shown = shows_progress && !arguments.quiet && std::io::stderr().is_terminal();
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let progress = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template(SPINNER) {
            progress.set_style(style);
        }
        Ok(Session {
            machine: Machine::start(parts, writer)?,
            limit: arguments.limit.unwrap_or(u64::MAX),
            made: 0,
            unknown: 0,
            error: None,
            progress,
        })
    }

    /// Whether no more accesses are made.
    pub fn is_over(&self) -> bool {
        self.made >= self.limit || self.error.is_some()
    }

    /// Makes an access, unless the session is over.
    pub fn access(&mut self, kind: AccessKind, address: VirtAddr, size: u32) {
        if self.is_over() {
            return;
        }
        self.made += 1;
        if self.made.is_multiple_of(PROGRESS_STEP) {
            self.progress.set_position(self.made);
        }
        let outcome = self.machine.access(PROCESS, kind, address, size);
        self.error = outcome.err().map(|error| match error {
            MachineError::Page(error) => {
                anyhow::Error::new(error).context(format!("access {} of the program", self.made))
            }
            MachineError::Sink(error) => error.into(),
        });
    }

    /// Makes an access of a traced program, which has one element. `Break`: the session is over.
    pub fn make(&mut self, access: &Made) -> ControlFlow<()> {
        let Made { address, direction, size, elements, .. } = *access;
        let kind = match direction {
            Direction::Read => AccessKind::Read,
            Direction::Write => AccessKind::Write,
        };
        match address {
            _ if self.is_over() => {}
            Some(address) => self.access(kind, VirtAddr(address), size),
            None => self.unknown = self.unknown.saturating_add(elements),
        }
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Completes the recording.
    pub fn finish(self) -> Result<Recorded> {
        self.progress.finish_and_clear();
        if let Some(error) = self.error {
            return Err(error);
        }
        let is_limited = self.made >= self.limit;
        let (writer, counts) = self.machine.finish()?;
        writer.finish(Cycles(counts.clocks)).context("the recording")?;
        Ok(Recorded { counts, unknown: self.unknown, is_limited })
    }
}
