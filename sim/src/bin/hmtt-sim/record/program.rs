//! Records the accesses of a program while it runs from the code cache of `hmtt-translator`.
//!
//! The monitor's thread decodes what the program's threads write, and makes their accesses on the
//! simulated machine. Threads whose rings are full wait for the monitor, so memory does not grow
//! with the length of the run. The program is released at the limit, or if the recording cannot be
//! continued, and goes on in its original code. This process then only waits for the end of the
//! program.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hmtt::access_trace::{Decoder, EachElement, ElementBudget};
use hmtt_files::access_trace::{BlockAccesses, Function, Unrecorded};
use hmtt_format::escape;
use hmtt_probe::control::{Ending, TagError};
use hmtt_probe::ptrace::{self, SignalNumber};
use hmtt_probe::sanitizer;
use hmtt_sim::machine::recording::RecordingPaths;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{
    self, ControlError, FirstEnd, MonitorCpu, Observer, Options, Outcome, Output,
};
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::AccessSink;
use hmtt_translator::monitor::hot::Thresholds;
use hmtt_translator::monitor::tally::Recording;
use hmtt_translator::recorded::Choice;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::arguments::RecordArguments;
use super::session::Session;
use super::{MISSING, Prepared, report};
use crate::FAILED;

/// The state of recording a program, shared by the monitor's thread and the main thread.
struct State {
    /// `None` once the recording is being completed.
    session: Option<Session>,
    /// What the recording lacks, a sentence for each reason.
    missing: Vec<String>,
    /// Child processes, which are not recorded.
    children: u64,
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program until it ends, and records its accesses. Returns the exit status. If a signal has
/// ended the program, the same signal ends this process.
pub fn record(arguments: &RecordArguments, paths: &RecordingPaths) -> Result<ExitCode> {
    let prepared = Prepared::new(arguments, false)?;
    let memory = prepared.memory.clone();
    let signals = ptrace::block_signals().context("cannot block signals")?;
    ptrace::ignore_file_size_signal();
    // A line of progress would be mixed with the program's output.
    let shows_progress = !std::io::stdout().is_terminal();
    let session = Session::new(arguments, paths, prepared, shows_progress)?;
    let state =
        Arc::new(Mutex::new(State { session: Some(session), missing: Vec::new(), children: 0 }));
    ptrace::refuse_tracers().context("cannot refuse tracers (PR_SET_DUMPABLE)")?;
    let process = ptrace::launch(&arguments.program)?;
    let pid = process.pid;
    let followed = control::run(process, &options(signals), &mut Recorder { state: state.clone() });
    let FirstEnd { ending, goes_on, .. } = followed?;
    let (session, mut missing, children) = {
        let mut state = lock(&state);
        (state.session.take(), std::mem::take(&mut state.missing), state.children)
    };
    let session = session.context("the program was not recorded")?;
    let is_released = session.is_over();
    if is_released {
        // The signal after which the program is no longer followed may still be pending. Take it.
        let _ = ptrace::wait_for_signal(&SigSet::from(Signal::SIGTERM), Duration::ZERO);
    }
    match ending {
        Ending::Detached if !is_released && !goes_on => {
            missing.push("a signal has ended the recording; the program goes on natively".into());
        }
        _ => {}
    }
    let unrecorded = Unrecorded { children, ..Unrecorded::default() };
    if let Some(what) = unrecorded.children_text().filter(|_| !arguments.quiet) {
        report!("hmtt-sim: {what}");
    }
    let printed = session
        .finish()
        .and_then(|recorded| report::print(arguments, &recorded, &missing, &memory));
    // The program may run for long, so errors are printed before its end.
    let has_failed = printed
        .inspect_err(|error| report!("hmtt-sim: {}", escape::message(&format!("{error:#}"))))
        .is_err();
    let end = match ending {
        Ending::Exited(code) => Ok(code),
        Ending::Signaled(signal) => Err(signal),
        Ending::Detached | Ending::Replaced if goes_on || is_released => wait_for_end(pid),
        Ending::Detached | Ending::Replaced => Ok(0),
    };
    Ok(match end {
        Err(signal) => {
            report!("hmtt-sim: the program was ended by {signal}");
            ptrace::end_by(signal)
        }
        Ok(0) if has_failed => ExitCode::from(FAILED),
        Ok(0) if !missing.is_empty() => ExitCode::from(MISSING),
        Ok(code) => ExitCode::from(code as u8),
    })
}

/// Returns the options for following the program. `signals`: the signals that end following.
fn options(signals: SigSet) -> Options {
    Options {
        instrument: Instrument::Accesses(Choice::EVERY),
        drops: false,
        recording: Recording {
            superblocks: Some(Thresholds::OF_SOME_CHUNKS),
            ..Recording::default()
        },
        signals,
        progress: None,
        follow: false,
        cpu: MonitorCpu::Chosen,
        lists: None,
        selected: None,
        extents: None,
        perf_map: false,
        at_most: None,
    }
}

/// Waits for the end of the program, which is no longer followed. Returns its exit status, or the
/// signal that has ended it. Any signal that asks this process to end ends it.
fn wait_for_end(pid: Pid) -> Result<i32, SignalNumber> {
    let end = |signal: Signal| -> bool { ptrace::end_by(SignalNumber(signal as i32)) };
    ptrace::wait_for_end_unless(pid, end).unwrap_or(Ok(0))
}

/// Connects the program that is followed with the recording.
struct Recorder {
    state: Shared,
}

impl Observer for Recorder {
    fn begin(&mut self, pid: Pid, _program: &Path) -> Result<Output, TagError> {
        if let Some(warning) = sanitizer::leak_warning(pid) {
            report!("hmtt-sim: warning: {warning}");
        }
        let state = self.state.clone();
        Ok(Box::new(move |outcome: Outcome| {
            let mut state = lock(&state);
            state.missing.extend(outcome.missing_accesses());
            state.children += outcome.unrecorded().children;
        }))
    }

    fn accesses(&mut self, _pid: Pid) -> Option<Box<dyn AccessSink>> {
        Some(Box::new(MachineSink {
            decoder: Decoder::default(),
            budget: ElementBudget::of_running_program(),
            state: self.state.clone(),
        }))
    }

    fn not_followed(&mut self, pid: Pid, program: &Path, error: &ControlError) {
        let program = program.display().to_string();
        let program = escape::name(&program);
        report!("hmtt-sim: warning: process {pid}, {program}, continues natively: {error}");
    }
}

/// Makes the accesses of the program on the machine.
struct MachineSink {
    decoder: Decoder,
    budget: ElementBudget,
    state: Shared,
}

impl AccessSink for MachineSink {
    fn functions(&mut self, _functions: &[Function]) {}

    fn blocks(&mut self, blocks: &[BlockAccesses]) {
        self.decoder.add_blocks(blocks.iter().cloned());
    }

    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8> {
        let mut state = lock(&self.state);
        let Some(session) = state.session.as_mut().filter(|session| !session.is_over()) else {
            return words;
        };
        let mut each = EachElement::new(&mut self.budget, |made| session.make(&made));
        self.decoder.units(thread.cast_unsigned(), &words, &mut each);
        drop(each);
        if session.is_over() {
            // After this signal the program is no longer followed, as after a signal from outside.
            let _ = kill(Pid::this(), Signal::SIGTERM);
        }
        words
    }

    fn finish(&mut self, _losses: Losses) {
        let invalid = self.decoder.ending().invalid_chunks;
        if invalid > 0 {
            let what =
                format!("{invalid} chunks of accesses could not be read: they name no block");
            lock(&self.state).missing.push(what);
        }
    }
}
