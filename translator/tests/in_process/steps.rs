//! Executes programs step by step, plainly and in a cache: the state that the cache states for
//! each instruction of its code must be one that plain execution has, in the same order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use hmtt_probe::address::RunAddr;
use hmtt_translator::cache::{Cache, Instrument};
use hmtt_translator::emulation::{Fields, MOST_BYTES, Thread};
use hmtt_translator::layout::{area, ring};
use hmtt_translator::recorded::Choice;
use hmtt_translator::state::{Flags, Rip};

use super::instructions::Random;
use super::machine::{Controller, Machine, new_cache};
use super::memory::{Direct, Shared};
use super::programs::{Program, generate};
use super::superblocks;

/// Most steps of a program; longer ones are left out.
const MOST: usize = 60_000;
/// Most programs, because steps are slow.
const MOST_PROGRAMS: u64 = 20_000;
/// Bytes of the stack of handlers.
const STACK_BYTES: usize = 1 << 16;
/// The trap flag, and the flags that are compared.
const TRAP: u64 = 0x100;
const COMPARED: u64 = 0xcd5;

/// State of a thread before an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub rip: u64,
    pub general: [u64; 16],
    flags: u64,
    /// The first fields of the thread area: saved registers, exit, target, answer, flags.
    area: [u64; 20],
}

static STEPS: AtomicPtr<Step> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static AREA: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
/// The statics are used by one test at a time.
pub static IN_USE: Mutex<()> = Mutex::new(());

/// Numbers in a signal's context of the general registers, by their numbers in encodings.
const CONTEXT: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

extern "C" fn note(_: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel passes a valid context, and the steps have room for MOST of them.
    unsafe {
        let registers = &mut (*context).uc_mcontext.gregs;
        let value = |number: i32| registers[number as usize] as u64;
        let mut step = Step {
            rip: value(libc::REG_RIP),
            general: CONTEXT.map(value),
            flags: value(libc::REG_EFL),
            area: [0; 20],
        };
        let area = AREA.load(Ordering::Relaxed) as *const [u64; 20];
        if !area.is_null() {
            step.area = std::ptr::read_volatile(area);
        }
        if step.rip == END.load(Ordering::Relaxed) {
            registers[libc::REG_EFL as usize] &= !(TRAP as i64);
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if count < MOST {
            *STEPS.load(Ordering::Relaxed).add(count) = step;
        }
    }
}

/// Makes this thread handle steps on a stack of their own.
fn handle_steps() {
    // One thread at a time has it.
    static STACK: OnceLock<usize> = OnceLock::new();
    let memory = *STACK.get_or_init(|| vec![0u8; STACK_BYTES].leak().as_mut_ptr() as usize);
    let stack = libc::stack_t { ss_sp: memory as *mut _, ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is never freed, and the handler only writes memory that is meant for it.
    unsafe {
        assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t) = note;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// The steps of what runs.
fn stepped(machine: &Machine, area: u64, run: impl FnOnce()) -> Option<Vec<Step>> {
    let mut steps = vec![Step::default(); MOST];
    STEPS.store(steps.as_mut_ptr(), Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
    AREA.store(area, Ordering::Relaxed);
    END.store(machine.processor.exit, Ordering::Relaxed);
    run();
    let count = COUNT.load(Ordering::Relaxed);
    steps.truncate(count);
    (count <= MOST).then_some(steps)
}

/// The original state at a step in the cache, if the cache knows it.
fn original(cache: &Cache<Direct>, step: &Step) -> Option<(Step, bool)> {
    let point = cache.state_at(RunAddr(step.rip))?;
    let mut state = Step { area: [0; 20], ..*step };
    for register in point.borrowed.iter() {
        state.general[usize::from(register)] = step.area[usize::from(register)];
    }
    state.rip = match point.rip {
        Rip::Address(address) => address.0,
        Rip::InRcx => step.general[1],
        Rip::InTarget => step.area[area::TARGET as usize / 8],
    };
    if point.rcx_is_rip {
        state.general[1] = state.rip;
    }
    if point.flags == Flags::Saved {
        let saved = step.area[area::FLAGS as usize / 8];
        state.flags = saved >> 8 & 0xd5 | (saved & 1) << 11 | step.flags & 0x400;
    }
    state.flags &= COMPARED;
    Some((state, point.flags != Flags::Dead))
}

/// What emulated instructions access: the thread area at a step, and what they have written to it.
struct StepFields<'a>(&'a Step, RefCell<[u64; 20]>);

impl Fields for StepFields<'_> {
    fn load(&self, address: u64, bytes: usize) -> Option<u64> {
        assert_eq!(bytes, 8);
        // SAFETY: generated code reads its own constants.
        Some(unsafe { std::ptr::read_unaligned(address as *const u64) })
    }

    fn field(&self, offset: u64, bytes: usize) -> Option<u64> {
        assert_eq!((bytes, offset % 8), (8, 0));
        self.0.area.get(offset as usize / 8).copied()
    }

    fn set_field(&self, offset: u64, bytes: usize, value: u64) -> Option<()> {
        assert_eq!((bytes, offset % 8), (8, 0));
        *self.1.borrow_mut().get_mut(offset as usize / 8)? = value;
        Some(())
    }
}

/// Checks that the emulation of the instruction at a step has the result that the processor's
/// execution has.
fn check_emulated(seed: u64, step: &Step, next: &Step) {
    // SAFETY: an arena, in which code is followed by more, or by memory that is not used yet.
    let code = unsafe { std::slice::from_raw_parts(step.rip as *const u8, MOST_BYTES) };
    let mut thread = Thread { general: step.general, rip: step.rip };
    let fields = StepFields(step, RefCell::new(step.area));
    let done = thread.execute(code, &fields);
    assert!(done.is_some(), "seed {seed}, at {:#x}: {code:x?} is not emulated", step.rip);
    let result =
        Step { rip: thread.rip, general: thread.general, area: fields.1.into_inner(), ..*next };
    assert!(
        result == *next,
        "seed {seed}: {code:x?} at\n{step:x?}\nleads to\n{next:x?}\nand not to\n{result:x?}"
    );
}

/// Checks the steps in the cache against those of plain execution. Returns how many had a state.
fn check(seed: u64, cache: &Cache<Direct>, plain: &[Step], cached: &[Step]) -> usize {
    let (mut at, mut known, mut unknown) = (0, 0, 0);
    for (number, step) in cached.iter().enumerate() {
        if !cache.contains(RunAddr(step.rip)) {
            continue;
        }
        let Some((state, has_flags)) = original(cache, step) else {
            unknown += 1;
            assert!(unknown < 40, "seed {seed}: no state for 40 steps, at {:#x}", step.rip);
            check_emulated(seed, step, &cached[number + 1]);
            continue;
        };
        unknown = 0;
        known += 1;
        let is_same = |candidate: &Step| {
            let is_same = candidate.rip == state.rip && candidate.general == state.general;
            is_same && (!has_flags || candidate.flags == state.flags)
        };
        // An instruction may have no step of its own in the cache: the address of a
        // call in a register, for example, or a jump and a NOP in a superblock.
        let ahead = plain[at..].iter().take(4).position(is_same);
        // Processors report no step directly after a system call.
        if ahead.is_none() && plain[at].rip + 2 == state.rip && state.general[1] == state.rip {
            continue;
        }
        let Some(ahead) = ahead else {
            panic!(
                "seed {seed}, at {:#x}:\n{state:x?}\nis not\n{:x?}",
                step.rip,
                &plain[at..][..1]
            );
        };
        at += ahead;
    }
    known
}

/// Whether a system call is at an address of the program.
pub fn is_system_call(machine: &Machine, address: u64) -> bool {
    let offset = address.checked_sub(machine.code.start).map(|at| at as usize);
    offset.and_then(|at| machine.code.bytes().get(at..at + 2)) == Some(&[0x0f, 0x05])
}

/// Checks that the blocks whose numbers were written are those that were executed, and that system
/// calls are noted.
fn check_blocks(
    seed: u64,
    machine: &Machine,
    cache: &Cache<Direct>,
    plain: &[Step],
    numbers: &[u32],
) {
    let executed = executed(machine, plain);
    let mut at = 0;
    for number in superblocks::blocks(cache, numbers) {
        let block = cache.block(number).expect("the number of a block");
        assert_eq!(block.start.0, executed[at], "seed {seed}, block {number}");
        at += usize::from(block.instructions);
    }
    assert_eq!(at, executed.len() - 1, "seed {seed}: the last one is at the exit");
    let calls = plain.iter().filter(|step| is_system_call(machine, step.rip)).count();
    let notes: Vec<u32> = numbers.iter().copied().filter(|one| one & ring::NOTE != 0).collect();
    assert_eq!(notes.len(), 2 * calls, "seed {seed}: system calls");
    let call = ring::note(ring::CALL, libc::SYS_getppid as u32);
    assert!(notes.iter().step_by(2).all(|note| *note == call), "seed {seed}: {notes:x?}");
    super::edges::check(seed, cache, &executed, numbers);
}

/// Addresses of the instructions that were executed, and at which of them each step was.
fn executed(machine: &Machine, plain: &[Step]) -> Vec<u64> {
    let mut executed = Vec::new();
    for step in plain {
        executed.push(step.rip);
        if is_system_call(machine, step.rip) {
            executed.push(step.rip + 2);
        }
    }
    // A repeated string instruction has a step for each repetition.
    executed.dedup();
    executed
}

/// Checks at each step within a block that the numbers in the ring, and the one that is not written
/// yet, are those of the blocks up to there.
fn check_unwritten(
    seed: u64,
    machine: &Machine,
    cache: &Cache<Direct>,
    plain: &[Step],
    cached: &[Step],
    shared: &Shared,
    numbers: &[u32],
) {
    let executed = executed(machine, plain);
    let lengths = |numbers: &[u32]| -> usize {
        let blocks = superblocks::blocks(cache, numbers);
        blocks.iter().map(|block| usize::from(cache.block(*block).unwrap().instructions)).sum()
    };
    let mut before = vec![0];
    for number in numbers {
        before.push(before[before.len() - 1] + lengths(&[*number]));
    }
    for step in cached {
        let Some(point) = cache.state_at(RunAddr(step.rip)) else { continue };
        let Some((block, done)) = point.inside else { continue };
        let Rip::Address(at) = point.rip else { continue };
        let written = (step.general[15] - shared.chunk_start()) as usize / 4;
        let unwritten = point.unwritten.map_or(0, |number| lengths(&[number]));
        let count = before[written] + unwritten - lengths(&[block]) + usize::from(done);
        assert_eq!(executed[count], at.0, "seed {seed}, at {:#x}", step.rip);
    }
}

pub fn run_plainly(machine: &Machine, program: &Program) -> Option<Vec<Step>> {
    let mut registers = program.registers;
    registers.flags |= TRAP;
    let steps = stepped(machine, 0, || {
        std::thread::scope(|scope| {
            let run = || {
                handle_steps();
                machine.run(program.start, &registers, &program.data);
            };
            scope.spawn(run).join().expect("the program ends");
        });
    })?;
    let is_inside = |step: &&Step| step.rip != machine.processor.exit;
    let first = steps.iter().position(|step| step.rip == program.start)?;
    let count = steps[first..].iter().take_while(is_inside).count();
    let mut steps = steps[first..=first + count].to_vec();
    steps.iter_mut().for_each(|step| step.flags &= COMPARED);
    Some(steps)
}

#[test]
fn every_state_in_the_cache_is_one_of_plain_execution() {
    let _guard = IN_USE.lock().expect("no other test has failed");
    let mut machine = Machine::new();
    let mut known = 0;
    let (mut checked, mut built) = (0, 0);
    for seed in 0..super::random::count(300).min(MOST_PROGRAMS) {
        let program = generate(&machine, seed, false);
        machine.code_may_change = seed % 4 == 3;
        machine.code_is_expected = seed % 3 == 1;
        let Some(plain) = run_plainly(&machine, &program) else { continue };
        for instrument in [Instrument::None, Instrument::Ring, Instrument::Accesses(Choice::EVERY)]
        {
            let shared = Shared::new(2, area::WAIT);
            let away = if seed % 3 == 0 { 0x7000_0000 } else { 0 };
            let mut cache = new_cache(&machine, instrument, 64, away);
            let mut registers = program.registers;
            registers.flags |= TRAP;
            // The first run fills the cache, and tells which blocks are executed.
            let mut numbers = Vec::new();
            if seed % 2 == 0 {
                let (at, data) = (program.start, &program.data);
                let controller = Controller::Alive;
                let run = machine.run_cached(
                    &mut cache,
                    &shared,
                    controller,
                    at,
                    &program.registers,
                    data,
                );
                superblocks::clear(&shared, &run.numbers);
                shared.area.word(area::ASK).store(area::IDLE, Ordering::Relaxed);
                built += superblocks::change(&mut cache, &mut Random(seed), &run.numbers).built;
            }
            let steps = stepped(&machine, shared.area.start, || {
                let (at, data) = (program.start, &program.data);
                let controller = Controller::Alive;
                numbers = machine
                    .run_prepared(
                        handle_steps,
                        &mut cache,
                        &shared,
                        controller,
                        at,
                        &registers,
                        data,
                    )
                    .numbers;
            });
            if let Some(steps) = steps {
                known += check(seed, &cache, &plain, &steps);
                checked += 1;
                if instrument == Instrument::Ring {
                    check_blocks(seed, &machine, &cache, &plain, &numbers);
                    check_unwritten(seed, &machine, &cache, &plain, &steps, &shared, &numbers);
                }
            }
            shared.unmap();
        }
    }
    assert!(checked >= 60 && known > 15_000, "{checked} programs, {known} states");
    assert!(built >= 60, "{built} superblocks");
}
