//! Answers the requests of threads that wait in the cache for a block, on the translator thread.
//!
//! When the translator thread dies, the kernel marks a word of the shared header: the thread has a
//! list of robust futexes (set_robust_list(2)), whose only entry leads to that word. So threads of
//! the process see that nobody answers any longer, even if the controller is killed.

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

/// How often the translator looks for requests before it sleeps, and how long it sleeps at most.
/// Requests come in series, so the next one often comes soon.
const SPINS: u32 = 300;
const SLEEP: Duration = Duration::from_millis(50);
/// Maximum number of addresses at which native code is counted.
const NATIVE: usize = 1 << 12;
/// Registers of the number and the arguments of a system call.
const RAX: u8 = 0;
const ARGUMENTS: [u8; 6] = [7, 6, 2, 10, 8, 9];

/// The cache of a process, and the original code from which its blocks are translated.
pub struct Translation {
    cache: Cache<CodeMemory>,
    code: ProcessCode,
    /// For each block, by number: the files that were mapped when it was translated.
    files: Vec<Files>,
    /// Number of times that threads became native and the time that they spent, by address and
    /// reason.
    native: BTreeMap<(RunAddr, String), NativeUse>,
}

impl Translation {
    /// Creates the state with an empty cache.
    pub fn new(cache: Cache<CodeMemory>, code: ProcessCode) -> Self {
        Translation { cache, code, files: Vec::new(), native: BTreeMap::new() }
    }

    /// The highest number of a block or path so far.
    pub fn last_number(&self) -> u32 {
        self.files.len() as u32
    }

    /// The block or path with a number.
    pub fn number(&self, number: u32) -> Option<Numbered<'_>> {
        self.cache.number(number)
    }

    /// The contents of the code cache, in the order of addresses.
    pub fn contents(&self) -> impl Iterator<Item = (Range<u64>, Contents)> {
        self.cache.contents()
    }

    /// Records only which blocks are executed, until [accesses are
    /// recorded](Self::record_accesses). Must be called before the first block is translated.
    pub fn count_only(&mut self) {
        self.code.set_counts_only(true);
    }

    /// Records accesses from the next block of each thread on. Returns the highest number of a
    /// block that does not record its accesses.
    pub fn record_accesses(&mut self) -> u32 {
        self.code.set_counts_only(false);
        self.cache.invalidate(RunAddr(0)..RunAddr(u64::MAX));
        self.complete_request();
        self.last_number()
    }

    /// Builds a superblock of the blocks with these numbers. Returns whether it is in use.
    pub fn build(&mut self, path: &[u32]) -> bool {
        let is_built = self.cache.add_superblock(path).is_ok();
        self.complete_request();
        is_built
    }

    /// Makes a block write nothing if no accesses of it are recorded.
    pub fn silence(&mut self, block: u32) {
        // If this fails, the block writes its number as before.
        let _ = self.cache.add_silent(block);
        self.complete_request();
    }

    /// Stops using a superblock. `number`: the number of the whole path.
    pub fn undo(&mut self, number: u32) {
        self.cache.undo_superblock(number);
    }

    /// Whether a superblock is in use.
    pub fn is_in_use(&self, number: u32) -> bool {
        self.cache.is_superblock_in_use(number)
    }

    /// A block by its number, and the files that were mapped when it was translated.
    pub fn block(&self, number: u32) -> Option<(&BlockInfo, &Files)> {
        let files = self.files.get(number.checked_sub(1)? as usize)?;
        Some((self.cache.block(number)?, files))
    }

    /// Description of what the block or path with a number records, and index of the last part that
    /// was executed according to the number. The number comes from the ring, so it is not trusted.
    pub fn recorded(&self, number: u32) -> Option<(Recorded, usize)> {
        self.cache.recorded(number)
    }

    /// The files of the process's code.
    pub fn code_files(&self) -> &CodeFiles {
        self.code.code_files()
    }

    /// Number of times that threads became native and the time that they spent, by address and
    /// reason.
    pub fn native(&self) -> &BTreeMap<(RunAddr, String), NativeUse> {
        &self.native
    }

    /// Writes the lists of executed blocks for the next run.
    pub fn write_lists(&self, executed: &[BlockCount]) {
        self.code.write_lists(executed, |number| self.cache.forms(number));
    }

    /// Adds processor time that a thread has used between becoming native at an address and
    /// entering the cache again.
    pub fn add_native_time(&mut self, at: RunAddr, nanoseconds: u64) {
        let from = (at, String::new());
        let entry = self.native.range_mut(from..).next().filter(|((found, _), _)| *found == at);
        if let Some((_, used)) = entry {
            used.processor_ns += nanoseconds;
        }
    }

    /// Removes one count of [`add_native`](Self::add_native), because the thread has executed
    /// nothing at the address.
    pub fn discount_native(&mut self, at: RunAddr) {
        let from = (at, String::new());
        let entry =
            self.native.range_mut(from..).find(|((found, _), used)| *found != at || used.times > 0);
        let Some((key, used)) = entry.filter(|((found, _), _)| *found == at) else { return };
        used.times -= 1;
        if used.times == 0 {
            let key = key.clone();
            self.native.remove(&key);
        }
    }

    /// The block at an address. It is translated if necessary.
    ///
    /// # Errors
    /// The error of the cache if the block cannot be translated.
    pub fn entry(&mut self, at: RunAddr) -> Result<Entry, CacheError> {
        let mut entry = self.cache.entry(&self.code, at);
        if entry.is_err() && !self.is_wanting() {
            self.code.forget();
            entry = self.cache.entry(&self.code, at);
        }
        self.complete_request();
        entry
    }

    /// Counts that a thread has become native at an address, because the code there cannot be
    /// translated.
    pub fn add_native(&mut self, at: RunAddr, why: &CacheError) {
        if self.native.len() < NATIVE {
            self.native.entry((at, why.to_string())).or_default().times += 1;
        }
    }

    /// Whether the cache needs another arena.
    pub fn is_wanting(&mut self) -> bool {
        self.cache.memory().is_wanting()
    }

    /// Removes and returns the address near which the cache needs another arena.
    pub fn take_wanted(&mut self) -> Option<RunAddr> {
        self.cache.memory().take_wanted()
    }

    /// How the next arena is to be mapped near an address. `mapped`: all mappings of the process.
    pub fn next_arena(&mut self, mapped: &[Mapping], near: RunAddr) -> Option<MappedCopy> {
        self.cache.memory().next(mapped, near)
    }

    /// Adds the next arena, which the process has mapped.
    pub fn add_arena(&mut self, copy: MappedCopy) {
        self.cache.memory().add(copy);
    }

    /// The answer to a request. `exit` and `target`: what the thread states about the block that it
    /// needs.
    fn answer(&mut self, exit: u32, target: u64) -> Answer {
        let mut answer = self.cache.answer(&self.code, exit, target);
        if matches!(answer, Answer::Native(_)) && !self.is_wanting() {
            self.code.forget();
            answer = self.cache.answer(&self.code, exit, target);
        }
        self.complete_request();
        answer
    }

    /// Drops the code that was read for a request, and stores the files of new blocks.
    fn complete_request(&mut self) {
        self.code.forget_pages();
        while self.last_number() < self.cache.last_number() {
            self.files.push(self.code.files());
        }
    }

    /// Adds the signature of restartable sequences that a thread registers. Blocks that were
    /// translated before may contain such sequences, so all blocks are removed.
    pub fn add_signature(&mut self, signature: u32) {
        if self.code.add_signature(signature) {
            self.cache.invalidate(RunAddr(0)..RunAddr(u64::MAX));
        }
    }

    /// The abort handler of the restartable sequence that contains an address.
    pub fn abort_of(&self, address: RunAddr) -> Option<RunAddr> {
        self.code.abort_of(address)
    }

    /// Whether an address is in the code cache.
    pub fn contains(&self, address: RunAddr) -> bool {
        self.cache.contains(address)
    }

    /// The address at which a thread at an address of the stubs would continue without a
    /// controller.
    pub fn alone(&self, at: RunAddr) -> Option<RunAddr> {
        self.cache.alone(at)
    }

    /// How the original state of a thread at an address of the cache is found, if it is known
    /// there.
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

    /// Removes blocks whose code a system call may change, before or after the call. Returns
    /// whether the call concerns code.
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

    /// Removes all blocks in the range of a system call, no matter what is mapped there now.
    pub fn changed(&mut self, need: &Need) {
        if let Need::Mappings { range, .. } = need {
            self.cache.invalidate(range.clone());
            self.code.forget();
        }
    }
}

/// What must be done for the system call that a waiting thread is about to make.
fn call_need(area: Area<'_>) -> Need {
    let value = |register| area.get(area::save(register)).any();
    need(value(RAX), ARGUMENTS.map(value))
}

/// Answers requests until the process is no longer followed. `started`: called as soon as threads
/// may wait for answers.
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

/// Answers the thread of an area, or hands it over to the tracer.
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
                // The tracer must set the program's signal mask before the call.
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
