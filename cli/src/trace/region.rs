//! Records a region of the instructions of a program's first thread: `--skip` and `--count`.
//!
//! ```text
//! monitor -> RegionSink -> RegionCutter -> file, caches
//!               |  demand: blocks only, accesses, all, nothing more
//! ```
//!
//! Other threads are not recorded. After the region the program is left and continues natively.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hmtt::access_trace::{CutUnits, RegionCutter, RegionStage};
use hmtt_files::access_trace::{BlockAccesses, Continuation, Function, RecordedRegion, Unrecorded};
use hmtt_translator::control::Outcome;
use hmtt_translator::instructions::instructions;
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::{AccessSink, Demand};
use nix::unistd::Pid;

#[derive(Clone, Copy, clap::Args)]
pub struct RegionOptions {
    /// Leave out the first N instructions of the program's first thread: run them without recording
    /// their accesses
    #[arg(long, value_name = "N", conflicts_with_all = ["sample", "budget"])]
    skip: Option<u64>,
    /// Record only M instructions of the program's first thread, behind those of --skip; then the
    /// program goes on natively
    #[arg(long, value_name = "M", conflicts_with_all = ["sample", "budget"], value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl RegionOptions {
    /// The region that the options select; `None` if everything is recorded.
    pub fn region(&self) -> Option<Region> {
        let RegionOptions { skip, count } = *self;
        (skip.is_some() || count.is_some()).then(|| {
            let skip = skip.unwrap_or(0);
            let cutter = RegionCutter::new(skip, count, Demand::LEAD);
            Region(Arc::new(Mutex::new(State { thread: 0, cutter })))
        })
    }
}

/// The cutter of the region, and the number of the recorded thread.
struct State {
    thread: u32,
    cutter: RegionCutter,
}

/// A region that is recorded, shared by its sinks.
#[derive(Clone)]
pub struct Region(Arc<Mutex<State>>);

impl Region {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares for a program that is about to be recorded. Its first thread has the number of the
    /// process.
    pub fn begin(&self, pid: Pid) {
        self.lock().thread = pid.as_raw().cast_unsigned();
    }

    /// The requested region, and the part of it that was recorded so far.
    pub fn result(&self) -> RecordedRegion {
        let state = self.lock();
        state.cutter.result(state.thread)
    }

    /// Whether the whole region was recorded. Later losses then make no difference.
    fn is_over(&self) -> bool {
        self.lock().cutter.stage() == RegionStage::Over
    }

    /// Creates a sink that passes only the region on to `inner`.
    pub fn sink(&self, inner: Option<Box<dyn AccessSink>>) -> Box<dyn AccessSink> {
        Box::new(RegionSink { region: self.clone(), inner })
    }

    /// Code that ran natively although that was not planned. If the region is over, only native
    /// code within the region is stated.
    pub fn unrecorded(&self, outcome: &Outcome) -> Unrecorded {
        let unrecorded = outcome.unrecorded();
        if !self.is_over() {
            return unrecorded;
        }
        let native_code = self.lock().cutter.seen().native;
        let continuation = Continuation::None;
        Unrecorded { native_code, native_threads: 0, continuation, ..unrecorded }
    }

    /// Sentences on what is missing of the region. Called when the program is no longer recorded.
    pub fn missing(&self, outcome: &Outcome) -> Vec<String> {
        let mut missing = if self.is_over() {
            self.unrecorded(outcome).missing()
        } else {
            outcome.missing_accesses()
        };
        let (result, seen) = (self.result(), self.lock().cutter.seen());
        missing.extend(result.missing_text());
        let more = [
            (seen.lost > 0, format!("{} words about accesses were dropped", seen.lost)),
            (
                seen.invalid_chunks > 0,
                format!("{} chunks of accesses name no block", seen.invalid_chunks),
            ),
            (
                seen.counted_only > 0,
                format!("{} instructions of the region were counted only", seen.counted_only),
            ),
        ];
        missing.extend(more.into_iter().filter_map(|(is_so, what)| is_so.then_some(what)));
        missing
    }
}

/// A sink that cuts the region out of everything that is recorded, and passes it on.
struct RegionSink {
    region: Region,
    inner: Option<Box<dyn AccessSink>>,
}

/// Byte offset in a block's code of its instruction number `index`.
fn offset(block: &BlockAccesses, index: u16) -> usize {
    let instructions = instructions(block.start, &block.code);
    instructions.get(usize::from(index)).map_or(block.code.len(), |one| one.offset.into())
}

impl AccessSink for RegionSink {
    fn demand(&self) -> Demand {
        let state = self.region.lock();
        match state.cutter.stage() {
            RegionStage::Counting => Demand::Blocks,
            RegionStage::Blocks => Demand::Accesses,
            RegionStage::Paths => Demand::All,
            RegionStage::Over => Demand::Nothing,
        }
    }

    fn set_counted(&mut self, last: u32) {
        self.region.lock().cutter.set_counted(last);
    }

    fn functions(&mut self, functions: &[Function]) {
        self.inner.iter_mut().for_each(|inner| inner.functions(functions));
    }

    fn blocks(&mut self, blocks: &[BlockAccesses]) {
        let passed = self.region.lock().cutter.add_blocks(blocks);
        if !passed.is_empty() {
            self.inner.iter_mut().for_each(|inner| inner.blocks(&passed));
        }
    }

    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8> {
        let CutUnits { tail, units } = {
            let mut state = self.region.lock();
            if thread.cast_unsigned() != state.thread {
                return words;
            }
            state.cutter.units(&words, offset)
        };
        let Some(inner) = &mut self.inner else { return words };
        if let Some(tail) = tail {
            inner.blocks(&[tail]);
        }
        if units.is_empty() { words } else { inner.words(thread, units) }
    }

    fn finish(&mut self, losses: Losses) {
        let of_region = if self.region.is_over() { Losses::default() } else { losses };
        self.inner.iter_mut().for_each(|inner| inner.finish(of_region));
    }
}
