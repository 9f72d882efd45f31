//! Runs programs plainly and through a cache, whose controller is a thread of the test.

use std::sync::atomic::{AtomicBool, Ordering};

use hmtt_probe::address::RunAddr;
use hmtt_translator::cache::{Answer, Cache, Instrument, Settings};
use hmtt_translator::extent::Extent;
use hmtt_translator::layout::{area, header, ring};

use super::memory::{Code, Direct, Range, Shared, futex_wait, futex_wake};
use super::processor::{Processor, Registers};

/// Bytes of the memory that a program uses, and of its stack.
pub const DATA_BYTES: u64 = 1 << 16;
const STACK_BYTES: u64 = 1 << 14;
/// `arch_prctl`'s number for setting the base of `gs`.
const ARCH_SET_GS: i64 = 0x1001;

/// A machine: memory for a program, and registers.
pub struct Machine {
    pub code: Range,
    pub data: Range,
    pub stack: Range,
    pub processor: Processor,
    /// Whether the cache must expect that code changes without notice.
    pub code_may_change: bool,
    /// Whether blocks are translated because they are expected.
    pub code_is_expected: bool,
    /// How much is recorded of a block, by its address.
    pub extent: fn(u64) -> Extent,
}

/// What a program has left behind.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    pub registers: Registers,
    pub data: Vec<u8>,
    pub stack: Vec<u8>,
}

impl Outcome {
    /// Says what differs from another outcome.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        let memory = |name: &str, content: &[u8], other: &[u8]| {
            let at = content.iter().zip(other).position(|(one, other)| one != other)?;
            Some(format!("{name} at {at:#x}: {:#x}, not {:#x}", other[at], content[at]))
        };
        if self.registers != other.registers {
            return Some(format!("{:x?}\nnot\n{:x?}", other.registers, self.registers));
        }
        memory("data", &self.data, &other.data)
            .or_else(|| memory("stack", &self.stack, &other.stack))
    }
}

/// The controller of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Alive,
    /// It has died before the run.
    Dead,
    /// It dies after some answers.
    DiesAfter(usize),
}

/// A run through a cache.
pub struct CachedRun {
    pub outcome: Outcome,
    /// Numbers in the ring, if the chunk was not changed.
    pub numbers: Vec<u32>,
    pub answers: usize,
}

impl Machine {
    pub fn new() -> Machine {
        let memory = Range::aligned(1 << 20, 1 << 16);
        let part = |at: u64, bytes: u64| Range { start: memory.start + at, bytes };
        Machine {
            code: part(0, 1 << 18),
            data: part(1 << 18, DATA_BYTES),
            stack: part(1 << 19, STACK_BYTES),
            processor: Processor::new(memory.start),
            code_may_change: false,
            code_is_expected: false,
            extent: |_| Extent::Chosen,
        }
    }

    /// Stack pointer with which a program starts.
    pub fn stack_pointer(&self) -> u64 {
        self.stack.start + STACK_BYTES / 2
    }

    fn outcome(&self, registers: Registers) -> Outcome {
        let (data, stack) = (self.data.bytes().to_vec(), self.stack.bytes().to_vec());
        Outcome { registers, data, stack }
    }

    fn prepare(&self, data: &[u8]) {
        self.data.clear();
        self.data.write(0, data);
        self.stack.clear();
    }

    /// Runs a program plainly.
    pub fn run(&self, start: u64, registers: &Registers, data: &[u8]) -> Outcome {
        self.prepare(data);
        self.outcome(self.processor.run(start, registers))
    }

    /// Runs a program through a cache.
    pub fn run_cached(
        &self,
        cache: &mut Cache<Direct>,
        shared: &Shared,
        controller: Controller,
        start: u64,
        registers: &Registers,
        data: &[u8],
    ) -> CachedRun {
        self.run_prepared(|| {}, cache, shared, controller, start, registers, data)
    }

    /// Runs a program through a cache, on a thread that is prepared first.
    #[allow(clippy::too_many_arguments)]
    pub fn run_prepared(
        &self,
        prepare: fn(),
        cache: &mut Cache<Direct>,
        shared: &Shared,
        controller: Controller,
        start: u64,
        registers: &Registers,
        data: &[u8],
    ) -> CachedRun {
        self.prepare(data);
        let (may_change, is_expected) = (self.code_may_change, self.code_is_expected);
        let extent = self.extent;
        let code = Code { range: self.code, may_change, is_expected, extent };
        let entry = cache.entry(&code, RunAddr(start)).expect("the start is translated");
        let mut entered = *registers;
        if cache.settings().instrument.has_ring() {
            let saved = shared.area.long(area::save(15));
            saved.store(registers.general[15], Ordering::Relaxed);
            entered.general[15] = shared.chunk_start();
        }
        let word = shared.header.word(header::CONTROLLER);
        let owner = if controller == Controller::Dead { header::OWNER_DIED } else { 0 };
        // SAFETY: a call without arguments.
        word.store(unsafe { libc::gettid() } as u32 | owner, Ordering::Release);
        let ends = AtomicBool::new(false);
        let mut answers = 0;
        let registers = std::thread::scope(|scope| {
            let program = scope.spawn(|| {
                prepare();
                set_gs(shared.area.start);
                let registers = self.processor.run(entry.address.0, &entered);
                set_gs(0);
                ends.store(true, Ordering::Release);
                shared.header.word(header::REQUESTS).fetch_add(1, Ordering::AcqRel);
                futex_wake(shared.header.word(header::REQUESTS));
                registers
            });
            if controller != Controller::Dead {
                answers = serve(cache, shared, &code, controller, &ends);
            }
            program.join().expect("the program ends")
        });
        let numbers = numbers(shared);
        CachedRun { outcome: self.outcome(registers), numbers, answers }
    }
}

/// Answers requests until the program ends, or the controller dies. Returns their number.
fn serve(
    cache: &mut Cache<Direct>,
    shared: &Shared,
    code: &Code,
    controller: Controller,
    ends: &AtomicBool,
) -> usize {
    let (ask, requests) = (shared.area.word(area::ASK), shared.header.word(header::REQUESTS));
    let sleeps = shared.header.word(header::SLEEPS);
    let mut answers = 0;
    while !ends.load(Ordering::Acquire) {
        let seen = requests.load(Ordering::Acquire);
        if ask.load(Ordering::Acquire) == area::ASKING {
            if controller == Controller::DiesAfter(answers) {
                let word = shared.header.word(header::CONTROLLER);
                word.store(header::OWNER_DIED, Ordering::Release);
                break;
            }
            answers += 1;
            let (address, kind) = answer(cache, shared, code);
            shared.area.long(area::CONTINUE).store(address, Ordering::Relaxed);
            ask.store(kind, Ordering::Release);
            futex_wake(ask);
            continue;
        }
        sleeps.store(1, Ordering::SeqCst);
        if requests.load(Ordering::SeqCst) == seen && !ends.load(Ordering::Acquire) {
            futex_wait(requests, seen);
        }
        sleeps.store(0, Ordering::Relaxed);
    }
    answers
}

fn answer(cache: &mut Cache<Direct>, shared: &Shared, code: &Code) -> (u64, u32) {
    let exit = shared.area.word(area::EXIT).load(Ordering::Relaxed);
    let target = shared.area.long(area::TARGET).load(Ordering::Relaxed);
    match cache.answer(code, exit, target) {
        Answer::Cached(address) => (address.0, area::CACHED),
        Answer::Native(address) => (address.0, area::NATIVE),
        Answer::Call { cached, .. } => (cached.0, area::CACHED),
    }
}

/// Block numbers in the chunk that the thread fills, up to the first 0.
fn numbers(shared: &Shared) -> Vec<u32> {
    let at = shared.chunk_start() - shared.area.start;
    let words = (0..(ring::CHUNK_BYTES + ring::SLACK_BYTES) as u32 / 4)
        .map(|word| shared.area.word(at as u32 + 4 * word).load(Ordering::Relaxed));
    words.take_while(|number| *number != 0).collect()
}

fn set_gs(base: u64) {
    // SAFETY: the test's own code does not use gs.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) };
    assert_eq!(result, 0);
}

/// A cache for a machine.
pub fn new_cache(
    machine: &Machine,
    instrument: Instrument,
    batch: usize,
    away: u64,
) -> Cache<Direct> {
    let mut memory = Direct::new();
    memory.away = away;
    let settings = Settings { table: memory.table.start as u32, instrument, batch };
    Cache::new(memory, settings, RunAddr(machine.code.start)).expect("there is memory")
}
