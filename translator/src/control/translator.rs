//! The translator thread: answers threads that wait in the cache.
//!
//! The kernel marks the header's word when this thread dies: the thread has a list of robust
//! futexes (set_robust_list(2)) whose only entry leads to that word. So threads of the process
//! learn that nobody answers any more, even if the controller is killed.

mod robust;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::MappedCopy;
use hmtt_probe::ptrace::Mapping;

use super::calls::{self, Need, need};
use super::code::{Files, ProcessCode};
use super::memory::CodeMemory;
use super::{Request, Shared};
use crate::cache::{Answer, BlockInfo, Cache, CacheError, Contents, Entry, Numbered};
use crate::layout::{area, header};
use crate::profile::{BlockCount, CodeFiles, NativeUse};
use crate::recorded::Recorded;
use crate::shared::{Area, THREADS, wait, wake};
use crate::state::Point;
use robust::Robust;

/// How often requests are looked for before the translator sleeps, and how long it sleeps at most.
/// Requests come in series.
const SPINS: u32 = 300;
const SLEEP: Duration = Duration::from_millis(50);
/// Most addresses that are recorded as native.
const NATIVE: usize = 1 << 12;
/// Registers of the number and the arguments of a system call.
const RAX: u8 = 0;
const ARGUMENTS: [u8; 6] = [7, 6, 2, 10, 8, 9];

/// The cache, and where its blocks come from.
pub struct Translation {
    cache: Cache<CodeMemory>,
    code: ProcessCode,
    /// The files that were mapped when each block was translated, by number.
    files: Vec<Files>,
    /// Addresses at which threads became native, with the reason, and how often.
    native: BTreeMap<(RunAddr, String), NativeUse>,
}

impl Translation {
    /// An empty cache.
    pub fn new(cache: Cache<CodeMemory>, code: ProcessCode) -> Self {
        Translation { cache, code, files: Vec::new(), native: BTreeMap::new() }
    }

    /// The last number of a block or path.
    pub fn last_number(&self) -> u32 {
        self.files.len() as u32
    }

    /// What a number stands for.
    pub fn number(&self, number: u32) -> Option<Numbered<'_>> {
        self.cache.number(number)
    }

    /// What the code cache contains, by address.
    pub fn contents(&self) -> impl Iterator<Item = (Range<u64>, Contents)> {
        self.cache.contents()
    }

    /// Records only which blocks are executed, until [accesses are
    /// recorded](Self::record_accesses). No block is translated yet.
    pub fn count_only(&mut self) {
        self.code.set_counts_only(true);
    }

    /// Records accesses from the next block of each thread on. Returns the last number of a block
    /// without them.
    pub fn record_accesses(&mut self) -> u32 {
        self.code.set_counts_only(false);
        self.cache.invalidate(RunAddr(0)..RunAddr(u64::MAX));
        self.complete_request();
        self.last_number()
    }

    /// Builds a superblock of blocks, by their numbers. Returns whether it is in use.
    pub fn build(&mut self, path: &[u32]) -> bool {
        let is_built = self.cache.add_superblock(path).is_ok();
        self.complete_request();
        is_built
    }

    /// Makes a block write nothing if no accesses of it are recorded.
    pub fn silence(&mut self, block: u32) {
        // Otherwise it writes its number as before.
        let _ = self.cache.add_silent(block);
        self.complete_request();
    }

    /// Does not use a superblock any more. `number`: that of the whole path.
    pub fn undo(&mut self, number: u32) {
        self.cache.undo_superblock(number);
    }

    /// Whether a superblock is in use.
    pub fn is_in_use(&self, number: u32) -> bool {
        self.cache.is_superblock_in_use(number)
    }

    /// A block, and the files that were mapped when it was translated.
    pub fn block(&self, number: u32) -> Option<(&BlockInfo, &Files)> {
        let files = self.files.get(number.checked_sub(1)? as usize)?;
        Some((self.cache.block(number)?, files))
    }

    /// What is recorded of the accesses of a block or path, and up to which part a number stands.
    /// The number is not trusted.
    pub fn recorded(&self, number: u32) -> Option<(Recorded, usize)> {
        self.cache.recorded(number)
    }

    /// The files of the code.
    pub fn code_files(&self) -> &CodeFiles {
        self.code.code_files()
    }

    /// Addresses at which threads became native, with the reason, and how often.
    pub fn native(&self) -> &BTreeMap<(RunAddr, String), NativeUse> {
        &self.native
    }

    /// Writes lists of the blocks that were executed, for the next run.
    pub fn write_lists(&self, executed: &[BlockCount]) {
        self.code.write_lists(executed, |number| self.cache.forms(number));
    }

    /// Adds processor time that a thread has used since it became native at an address.
    pub fn add_native_time(&mut self, at: RunAddr, nanoseconds: u64) {
        let from = (at, String::new());
        let found = self.native.range_mut(from..).next().filter(|((found, _), _)| *found == at);
        if let Some((_, used)) = found {
            used.processor_ns += nanoseconds;
        }
    }

    /// A thread that became native at an address has executed nothing there.
    pub fn discount_native(&mut self, at: RunAddr) {
        let from = (at, String::new());
        let found =
            self.native.range_mut(from..).find(|((found, _), used)| *found != at || used.times > 0);
        let Some((key, used)) = found.filter(|((found, _), _)| *found == at) else { return };
        used.times -= 1;
        if used.times == 0 {
            let key = key.clone();
            self.native.remove(&key);
        }
    }

    /// The block at an address.
    ///
    /// # Errors
    /// It cannot be translated.
    pub fn entry(&mut self, at: RunAddr) -> Result<Entry, CacheError> {
        let mut entry = self.cache.entry(&self.code, at);
        if entry.is_err() && !self.is_wanting() {
            self.code.forget();
            entry = self.cache.entry(&self.code, at);
        }
        self.complete_request();
        entry
    }

    /// Records that a thread has become native at an address, which cannot be translated.
    pub fn add_native(&mut self, at: RunAddr, why: &CacheError) {
        if self.native.len() < NATIVE {
            self.native.entry((at, why.to_string())).or_default().times += 1;
        }
    }

    /// Whether another arena is needed.
    pub fn is_wanting(&mut self) -> bool {
        self.cache.memory().is_wanting()
    }

    /// Takes the address near which another arena is needed.
    pub fn take_wanted(&mut self) -> Option<RunAddr> {
        self.cache.memory().take_wanted()
    }

    /// How the next arena is to be mapped near an address. `mapped`: what the process has mapped.
    pub fn next_arena(&mut self, mapped: &[Mapping], near: RunAddr) -> Option<MappedCopy> {
        self.cache.memory().next(mapped, near)
    }

    /// The process has mapped the next arena.
    pub fn add_arena(&mut self, copy: MappedCopy) {
        self.cache.memory().add(copy);
    }

    /// The answer to a request.
    fn answer(&mut self, exit: u32, target: u64) -> Answer {
        let mut answer = self.cache.answer(&self.code, exit, target);
        if matches!(answer, Answer::Native(_)) && !self.is_wanting() {
            self.code.forget();
            answer = self.cache.answer(&self.code, exit, target);
        }
        self.complete_request();
        answer
    }

    /// Forgets the code that was read for a request, and notes the files of new blocks.
    fn complete_request(&mut self) {
        self.code.forget_pages();
        while self.last_number() < self.cache.last_number() {
            self.files.push(self.code.files());
        }
    }

    /// A thread registers restartable sequences with a signature. What was translated before may
    /// contain some.
    pub fn add_signature(&mut self, signature: u32) {
        if self.code.add_signature(signature) {
            self.cache.invalidate(RunAddr(0)..RunAddr(u64::MAX));
        }
    }

    /// The abort handler of the restartable sequence that contains an address.
    pub fn abort_of(&self, address: RunAddr) -> Option<RunAddr> {
        self.code.abort_of(address)
    }

    /// Whether an address is in the cache.
    pub fn contains(&self, address: RunAddr) -> bool {
        self.cache.contains(address)
    }

    /// Where a thread at an address of the stubs continues without a controller.
    pub fn alone(&self, at: RunAddr) -> Option<RunAddr> {
        self.cache.alone(at)
    }

    /// The original state of a thread at an address of the cache.
    pub fn state_at(&self, address: RunAddr) -> Option<Point> {
        self.cache.state_at(address)
    }

    /// The number that a thread at an address of the cache has not written to its ring yet.
    pub fn unwritten_at(&self, address: RunAddr) -> Option<u32> {
        self.cache.unwritten_at(address)
    }

    /// Sets whether threads ask before each system call, or only before those that may need it.
    pub fn set_calls(&mut self, asks_always: bool) {
        let asked = if asks_always { [true; 256] } else { calls::asked() };
        self.cache.memory().set_calls(asked);
    }

    /// Prepares for a system call, or completes it: blocks whose code it may change are removed.
    /// Returns whether code is concerned.
    pub fn change(&mut self, need: &Need) -> bool {
        let Need::Mappings { range, adds_code } = need else { return false };
        let is_code = !range.is_empty() && self.code.is_code(range);
        if is_code {
            self.cache.invalidate(range.clone());
        }
        if is_code || *adds_code {
            self.code.forget();
        }
        is_code || *adds_code
    }

    /// Blocks whose code a system call may have changed are removed, whatever is mapped now.
    pub fn changed(&mut self, need: &Need) {
        if let Need::Mappings { range, .. } = need {
            self.cache.invalidate(range.clone());
            self.code.forget();
        }
    }
}

/// The system call that a waiting thread is about to make.
fn call_need(area: Area<'_>) -> Need {
    let value = |register| area.get(area::save(register)).any();
    need(value(RAX), ARGUMENTS.map(value))
}

/// Answers requests until the process is no longer followed. `started`: called when threads may
/// wait for answers.
pub fn serve(shared: &Shared, started: impl FnOnce()) {
    let areas = &shared.rings.areas;
    let robust = Robust::register(areas.header(header::CONTROLLER));
    started();
    let mut idle = 0;
    loop {
        let seen = areas.header(header::REQUESTS).load(Ordering::SeqCst);
        if shared.is_over.load(Ordering::SeqCst) {
            break;
        }
        let mut has_answered = false;
        for number in 0..THREADS {
            let is_used = shared.rings.used[number].load(Ordering::SeqCst);
            let is_here = is_used && !shared.handed_over[number].load(Ordering::SeqCst);
            if is_here && areas.area(number).is_asking() {
                answer(shared, number);
                has_answered = true;
            }
        }
        idle = if has_answered { 0 } else { idle + 1 };
        if (1..SPINS).contains(&idle) {
            std::hint::spin_loop();
        } else if idle > 0 {
            areas.header(header::SLEEPS).store(1, Ordering::SeqCst);
            wait(areas.header(header::REQUESTS), seen, SLEEP);
            areas.header(header::SLEEPS).store(0, Ordering::SeqCst);
        }
    }
    robust.unregister(areas.header(header::CONTROLLER));
}

/// Answers the thread with an area, or hands it over to the tracer.
fn answer(shared: &Shared, number: usize) {
    let area = shared.rings.areas.area(number);
    let mut translation = shared.translation();
    if !area.is_asking() {
        return;
    }
    let exit = area.word(area::EXIT).load(Ordering::SeqCst);
    let answer = translation.answer(exit, area.get(area::TARGET).any());
    let address = match answer {
        Answer::Cached(address) => address,
        Answer::Native(_) => return shared.hand_over(Request { area: number, is_call: false }),
        Answer::Call { cached, .. } => {
            let need = call_need(area);
            let stays = match need {
                // The tracer sets the signal mask before.
                _ if shared.defers[number].load(Ordering::SeqCst) => false,
                Need::Nothing => true,
                Need::Mappings { .. } => !translation.change(&need),
                Need::Native | Need::LockAll(_) | Need::Sequences(_) | Need::Leave(_) => false,
            };
            if !stays {
                return shared.hand_over(Request { area: number, is_call: true });
            }
            cached
        }
    };
    area.set(area::CONTINUE, address.0);
    area.word(area::ASK).store(area::CACHED, Ordering::SeqCst);
    wake(area.word(area::ASK));
}
