//! Tests the code for returns from handlers by executing it on frames in memory.

use std::cell::Cell;

use super::*;

#[test]
fn restorers_are_found_and_similar_code_is_not() {
    let go = [&[TRAP][..], &SHORT, &[TRAP]].concat();
    // mov r8d, 15; syscall
    let other = [&[0x41][..], &SHORT, &[TRAP]].concat();
    let code = [&other[..], &LONG, &SHORT, &go].concat();
    let restorers: Vec<(u64, Kind)> = find(&code).collect();
    assert_eq!(restorers, [(9, Kind::Long), (26, Kind::Short)]);
    for (start, may) in [(0, false), (2, false), (9, true), (18, true), (20, false)] {
        assert_eq!(may_begin(&code[start..start + 5]), may, "{start}");
    }
    assert!(!may_begin(&LONG[..2]), "a short jump");
}

#[test]
fn the_code_fits_into_its_area() {
    let code = code(RunAddr(0x7000_0000_0000), !0 >> 1, RunAddr(0x7000_1000_0000)).unwrap();
    assert!(code.len() as u64 <= FIRST_LIST, "{}", code.len());
}

/// Restarts the code before one of its instructions, as the controller does with a thread that gets
/// a signal there.
#[derive(Clone, Copy)]
struct Restart {
    /// Address of the code.
    start: u64,
    /// Number of instructions that are executed before.
    instructions: usize,
}

thread_local! {
    /// What is still to happen in this thread.
    static RESTART: Cell<Option<Restart>> = const { Cell::new(None) };
}

/// Trap flag.
const TRAP_FLAG: i64 = 1 << 8;
/// Bytes below the frame, where the signal frames of steps are.
const BELOW: usize = 1 << 16;

/// Handles the end of a single step.
extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(restart) = RESTART.get() else { return };
    // SAFETY: the kernel passes the interrupted thread's context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = &mut registers[libc::REG_RIP as usize];
    if !(restart.start..restart.start + FIRST_LIST).contains(&rip.cast_unsigned()) {
        return;
    }
    if restart.instructions > 0 {
        RESTART.set(Some(Restart { instructions: restart.instructions - 1, ..restart }));
        return;
    }
    *rip = restart.start.cast_signed();
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
    RESTART.set(None);
}

/// Lets this process handle single steps.
fn handle_steps() {
    // SAFETY: no field of the structure has an invalid value, and the handler has the type that the
    // flag demands.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = step as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Runs the code on a frame. Returns the `rip` that it leaves, and the session number of the
/// resumption.
fn run(rip: u64, resumption: [u64; 3], lists: &[&[Entry]]) -> (u64, u64) {
    run_restarted(rip, resumption, lists, None).0
}

/// As [`run`], but restarts the code after some instructions. Returns whether the code has so many
/// instructions, and so was restarted.
fn run_restarted(
    rip: u64,
    resumption: [u64; 3],
    lists: &[&[Entry]],
    instructions: Option<usize>,
) -> ((u64, u64), bool) {
    const SESSION: u64 = 0x1234_5678_9abc_def0;
    let bytes = 1 << 14;
    // SAFETY: the kernel chooses an address at which nothing is mapped.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0).cast::<u8>()
    };
    assert_ne!(start.cast(), libc::MAP_FAILED);
    let at = start as u64;
    let resumption = [resumption[0] ^ SESSION, resumption[1], resumption[2]];
    let mut stack = vec![0u64; BELOW / 8 + 64];
    let frame = &mut stack[BELOW / 8..];
    frame[RIP as usize / 8] = rip;
    frame[RESUMPTION as usize / 8..][..3].copy_from_slice(&resumption);
    // In place of the system call: code that returns to the previous stack.
    let call = at + AREA_BYTES;
    let back = [0x4c, 0x89, 0xcc, 0xc3];
    let mut memory = code(RunAddr(at), SESSION, RunAddr(call)).unwrap();
    memory.resize(bytes, 0);
    memory[AREA_BYTES as usize..][..back.len()].copy_from_slice(&back);
    let (mut place, mut next) = (AREA_BYTES + 16, 0);
    for entries in lists {
        let list = list(entries, RunAddr(next));
        memory[place as usize..][..list.len()].copy_from_slice(&list);
        next = at + place;
        place += list.len() as u64;
    }
    memory[FIRST_LIST as usize..][..8].copy_from_slice(&next.to_le_bytes());
    RESTART.set(instructions.map(|instructions| Restart { start: at, instructions }));
    // SAFETY: the memory is as long as the copy, and its code returns to here; it writes to the
    // frame only. Signals are handled in the memory below the frame.
    unsafe {
        std::ptr::copy_nonoverlapping(memory.as_ptr(), start, bytes);
        std::arch::asm!(
            "call 2f", "jmp 3f",
            "2: mov r9, rsp", "pushfq", "or [rsp], {flags}", "popfq", "mov rsp, {frame}", "jmp {code}",
            "3: pushfq", "and dword ptr [rsp], ~0x100", "popfq",
            flags = in(reg) if instructions.is_some() { TRAP_FLAG } else { 0 },
            frame = in(reg) frame.as_mut_ptr(), code = in(reg) start,
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _,
        );
        libc::munmap(start.cast(), bytes);
    }
    let is_restarted = RESTART.take().is_none();
    ((frame[RIP as usize / 8], frame[RESUMPTION as usize / 8]), is_restarted)
}

#[test]
fn frames_are_redirected_to_the_copies_of_their_instructions() {
    // The first bytes of two regions' jumps.
    let jumps = [[0xe9u8, 1], [0xeb, 2]];
    let starts = [jumps[0].as_ptr() as u64, jumps[1].as_ptr() as u64];
    let entry = |region: usize, distance: u64| Entry {
        original: RunAddr(starts[region] + distance),
        counterpart: RunAddr(1000 * region as u64 + distance),
        start: RunAddr(starts[region]),
        jump: jumps[region],
    };
    let first: Vec<Entry> = (1..100).step_by(3).map(|distance| entry(0, distance)).collect();
    let mut unloaded: Vec<Entry> = vec![entry(1, 1 << 20)];
    let lists = [&first[..], &unloaded[..]];
    let none = [7, 0, 0];
    for list_entry in lists.concat() {
        let original = list_entry.original.0;
        assert_eq!(run(original, none, &lists).0, list_entry.counterpart.0);
        assert_eq!(run(original + 1, none, &lists).0, original + 1);
        let resumption = [0, original, 77];
        assert_eq!(run(original, resumption, &lists), (77, 0), "once");
        assert_eq!(run(original + 1, resumption, &lists), (original + 1, 0));
    }
    assert_eq!(run(5, [0, 5, 6], &[]), (6, 0));
    assert_eq!(run(5, none, &[]).0, 5);
    unloaded[0].jump = [0x55, 0x48];
    assert_eq!(
        run(unloaded[0].original.0, none, &[&unloaded]).0,
        unloaded[0].original.0,
        "no jump there"
    );
}

#[test]
fn a_return_that_restarts_before_any_instruction_ends_as_without() {
    handle_steps();
    let jump = [0xe9u8, 1];
    let start = jump.as_ptr() as u64;
    let entry = |distance: u64| Entry {
        original: RunAddr(start + distance),
        counterpart: RunAddr(1000 + distance),
        start: RunAddr(start),
        jump,
    };
    let entries: Vec<Entry> = (1..5).map(entry).collect();
    // At the start of a region, where a tag would run again; at a moved instruction; and elsewhere.
    for (rip, seen) in [(0, 0), (0, 1), (3, 3), (3, 0), (9, 9), (9, 1)] {
        let resumption = [0, start + seen, 77];
        let expected = run(start + rip, resumption, &[&entries]);
        let mut before = 0;
        loop {
            let (left, is_restarted) =
                run_restarted(start + rip, resumption, &[&entries], Some(before));
            assert_eq!(left, expected, "{rip} {seen}, after {before} instructions");
            if !is_restarted {
                break;
            }
            before += 1;
        }
        assert!(before > 8, "{before}");
    }
}
