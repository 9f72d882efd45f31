//! Starts and ends the threads of the controller that help the tracer of a process: the translator,
//! the monitor and the reporter of progress.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use hmtt_files::tag_log::ClockPair;
use hmtt_probe::control::{Ending, clock};
use nix::unistd::Pid;

use super::described::DescribedBlocks;
use super::tracer::{MonitorCpu, Options, Seen};
use super::translator::{Translation, serve};
use super::{Outcome, Shared, cpus, perf_map, progress};
use crate::monitor::accesses::{AccessSink, Demand, record};
use crate::monitor::code::BlockCode;
use crate::monitor::progress::Snapshots;
use crate::monitor::{Counts, Finished, Losses, watch};
use crate::profile::{BlockCount, NativeCode, Profile};

/// The running threads that help the tracer of a process.
pub struct Workers {
    shared: Arc<Shared>,
    translator: JoinHandle<()>,
    monitor: JoinHandle<Counts>,
    begin: ClockPair,
    has_perf_map: bool,
}

impl Workers {
    /// Starts the threads. `sink`: receives the records of accesses, if blocks record them. Also
    /// returns a channel to the monitor, for threads that no longer use their area.
    ///
    /// # Errors
    /// The error of starting a thread, for example because there are too many threads.
    pub fn start(
        pid: Pid,
        shared: &Arc<Shared>,
        options: &Options,
        sink: Option<Box<dyn AccessSink>>,
    ) -> io::Result<(Self, Sender<Finished>)> {
        let (finished, received) = channel();
        let (ready, started) = channel();
        let translator_shared = shared.clone();
        let translator = Builder::new().name("translator".to_owned()).spawn(move || {
            serve(&translator_shared, || {
                let _ = ready.send(());
            });
        })?;
        // No thread joins the reporter, because it may wait for a terminal.
        let snapshots = options.progress.map(|print| {
            let (to, from) = sync_channel(1);
            let shared = shared.clone();
            // If the thread cannot be started, there are no reports.
            let _ = Builder::new().spawn(move || progress::report(pid, &shared, &from, print));
            Snapshots::new(to)
        });
        let (monitor_shared, recording) = (shared.clone(), options.recording);
        let cpu = match options.cpu {
            MonitorCpu::Any => None,
            MonitorCpu::Chosen => cpus::choose(pid),
            MonitorCpu::Fixed(cpu) => Some(cpu),
        };
        if sink.as_ref().is_some_and(|sink| sink.demand() < Demand::Accesses) {
            shared.translation().count_only();
        }
        let monitor = Builder::new().name("monitor".to_owned()).spawn(move || {
            cpu.into_iter().for_each(cpus::pin);
            let shared = &*monitor_shared;
            match sink {
                None => watch(&shared.rings, &received, recording, shared, snapshots),
                Some(mut sink) => {
                    let mut blocks = DescribedBlocks::new(shared);
                    let rings = &shared.rings;
                    let losses = record(rings, &received, recording, &mut blocks, &mut *sink);
                    Counts { losses, ..Counts::default() }
                }
            }
        });
        let monitor = monitor.inspect_err(|_| shared.end())?;
        // An error means that the translator has ended; the process then runs natively.
        let _ = started.recv();
        let begin = clock::pair();
        let (shared, has_perf_map) = (shared.clone(), options.perf_map);
        Ok((Workers { shared, translator, monitor, begin, has_perf_map }, finished))
    }

    /// Ends the threads and returns the results. The process is no longer followed, and its tracer
    /// has been dropped.
    pub fn finish(self, seen: Seen, ending: Ending) -> Outcome {
        let Workers { shared, translator, monitor, begin, has_perf_map } = self;
        shared.end();
        let counts = monitor.join().unwrap_or_default();
        let _ = translator.join();
        let Seen { mut seen, interrupted, left } = seen;
        seen.tsc_hz = clock::rate(&begin, &clock::pair());
        let translation = shared.translation();
        let profile = profile(&translation, counts, &interrupted, seen);
        translation.write_lists(&profile.blocks);
        let perf_map = has_perf_map.then(|| perf_map::text(&translation));
        Outcome { profile, ending, left, perf_map }
    }
}

/// Combines the results of all threads of the controller to a profile.
fn profile(
    translation: &Translation,
    counts: Counts,
    interrupted: &BTreeMap<(u32, u16), u64>,
    seen: Profile,
) -> Profile {
    let Counts { counted, losses: Losses { dropped, cut_threads } } = counts;
    let executed = counted.blocks.iter().enumerate().filter(|(_, one)| one.executions > 0);
    let blocks = executed.filter_map(|(number, tally)| {
        let number = number as u32;
        let (block, files) = translation.block(number)?;
        let code = BlockCode::new(block.start, &block.bytes);
        let instructions = code.instructions;
        let parts = interrupted.range((number, 0)..=(number, u16::MAX));
        let unexecuted = parts
            .map(|((_, done), times)| (instructions - u64::from(*done).min(instructions)) * times);
        let contains = |mapping: &&hmtt_probe::ptrace::Mapping| {
            (mapping.start..mapping.end).contains(&block.start)
        };
        Some(BlockCount {
            number,
            code,
            bytes: block.bytes.clone(),
            tally: *tally,
            unexecuted: unexecuted.sum(),
            modelled: counted.models.blocks.get(number as usize).copied().unwrap_or_default(),
            mapping: files.iter().find(contains).cloned(),
        })
    });
    let native = translation.native().iter();
    let native =
        native.map(|((at, why), used)| NativeCode { at: *at, why: why.clone(), used: *used });
    let mut calls = counted.calls;
    calls.merge(&seen.calls);
    Profile {
        files: translation.code_files().clone(),
        blocks: blocks.collect(),
        native: native.collect(),
        edges: counted.edges,
        unbalanced: counted.unbalanced,
        superblocks: counted.superblocks,
        ticks: counted.ticks,
        calls,
        models: counted.models,
        intervals: counted.intervals,
        dropped,
        invalid: counted.invalid,
        cut_threads,
        ..seen
    }
}
