//! Fills rings, with a monitor that reads them and without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hmtt_probe::control::clock;
use hmtt_translator::cache::Instrument;
use hmtt_translator::layout::{area, header, ring};
use iced_x86::code_asm::{CodeAssembler, eax, ecx, qword_ptr, r15, rax, rsi};

use super::behaviour::start;
use super::machine::{Controller, Machine, new_cache};
use super::memory::{Shared, futex_wake};

/// Number of times that the body of the loop is executed.
const TIMES: u64 = 1_000_000;

/// Writes a program with a loop of three blocks, with flags that are live between them.
fn write_loop(machine: &Machine) {
    let mut asm = CodeAssembler::new(64).unwrap();
    let (mut head, mut body, mut end) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    let mut build = || {
        asm.xor(eax, eax)?;
        asm.mov(ecx, TIMES as u32)?;
        asm.set_label(&mut head)?;
        asm.lea(r15, qword_ptr(r15 + 3))?;
        asm.jrcxz(end)?;
        asm.jmp(body)?;
        asm.set_label(&mut body)?;
        asm.adc(rax, r15)?;
        asm.dec(ecx)?;
        asm.jmp(head)?;
        asm.set_label(&mut end)?;
        asm.jmp(qword_ptr(rsi))
    };
    build().unwrap();
    machine.code.write(0, &asm.assemble(machine.code.start).unwrap());
}

/// What a monitor has read: the number of block numbers, how many of them were 0, and the ticks of
/// chunks.
type Read = (u64, u64, u64);

/// Reads full chunks in order until the program has ended. `pause`: how long it waits before it
/// frees a chunk.
fn monitor(shared: &Shared, ends: &AtomicBool, pause: Duration) -> Read {
    let (mut numbers, mut zeros, mut ticks, mut chunk) = (0, 0, 0, 0u32);
    loop {
        let is_last = ends.load(Ordering::Acquire);
        let state = shared.area.word(area::CHUNK_STATE + 4 * chunk);
        if state.load(Ordering::Acquire) == ring::FULL {
            let at = ring::chunk_at(chunk.into());
            let end = shared.area.long(area::CHUNK_END + 8 * chunk).load(Ordering::Acquire);
            let bytes = end - shared.area.start - at;
            assert!((ring::CHUNK_BYTES..ring::CHUNK_BYTES + ring::SLACK_BYTES).contains(&bytes));
            for word in 0..bytes as u32 / 4 {
                let number = shared.area.word(at as u32 + 4 * word).swap(0, Ordering::Relaxed);
                numbers += 1;
                zeros += u64::from(number == 0);
            }
            ticks += shared.area.long(area::CHUNK_TICKS + 8 * chunk).load(Ordering::Relaxed);
            std::thread::sleep(pause);
            state.store(ring::FREE, Ordering::Release);
            if shared.area.word(area::WAITING).load(Ordering::SeqCst) != 0 {
                futex_wake(state);
            }
            chunk ^= 1;
        } else if is_last {
            return (numbers, zeros, ticks);
        }
    }
}

/// Runs the loop. Returns how many numbers the monitor read, were left in the ring and were
/// dropped.
fn run(controller: Controller, when_full: u32, has_monitor: bool) -> (u64, u64, u64) {
    let (read, left, dropped) = run_slowed(controller, when_full, has_monitor, Duration::ZERO);
    (read.0, left, dropped)
}

/// As [`run`], with a monitor that pauses before it frees a chunk. Returns all that it has read.
fn run_slowed(
    controller: Controller,
    when_full: u32,
    has_monitor: bool,
    pause: Duration,
) -> (Read, u64, u64) {
    let machine = Machine::new();
    write_loop(&machine);
    let data = machine.processor.exit.to_le_bytes();
    let at = machine.code.start;
    let plain = machine.run(at, &start(&machine), &data);
    let shared = Shared::new(2, when_full);
    let mut cache = new_cache(&machine, Instrument::Ring, 16, 0);
    let ends = AtomicBool::new(false);
    shared.area.long(area::SINCE).store(clock::tsc(), Ordering::Relaxed);
    let (run, read) = std::thread::scope(|scope| {
        let monitor =
            scope.spawn(|| if has_monitor { monitor(&shared, &ends, pause) } else { (0, 0, 0) });
        let registers = start(&machine);
        let run = machine.run_cached(&mut cache, &shared, controller, at, &registers, &data);
        ends.store(true, Ordering::Release);
        (run, monitor.join().expect("the monitor ends"))
    });
    assert_eq!(plain.difference(&run.outcome), None);
    assert_eq!(read.1, 0, "numbers that were not written");
    let dropped = shared.area.long(area::DROPPED).load(Ordering::Relaxed);
    assert_eq!(shared.header.word(header::MONITOR_SLEEPS).load(Ordering::Relaxed), 0);
    (read, run.numbers.len() as u64, dropped)
}

/// Number of blocks that are executed: the start, three for each time, the last head, the end.
/// The jump after `jrcxz` is a block.
const BLOCKS: u64 = 3 * TIMES + 2;

#[test]
fn a_full_ring_waits_for_the_monitor() {
    let (read, left, dropped) = run(Controller::Alive, area::WAIT, true);
    assert_eq!((read + left, dropped), (BLOCKS, 0));
}

#[test]
fn the_time_of_a_chunk_does_not_include_waiting() {
    let begin = clock::tsc();
    let pause = Duration::from_millis(50);
    let (read, ..) = run_slowed(Controller::Alive, area::WAIT, true, pause);
    let (ticks, elapsed) = (read.2, clock::tsc() - begin);
    assert!(0 < ticks && ticks < elapsed / 2, "{ticks} of {elapsed} ticks");
}

#[test]
fn numbers_are_dropped_and_counted_if_nothing_waits() {
    let (read, _, dropped) = run(Controller::Alive, area::DROP, false);
    assert!(read == 0 && dropped > BLOCKS / 2 && dropped <= BLOCKS, "{dropped} of {BLOCKS}");
    let (read, _, dropped) = run(Controller::Alive, area::DROP, true);
    assert!(read + dropped <= BLOCKS && read > 0, "{read}, {dropped}");
}

#[test]
fn a_full_ring_without_a_controller_leads_to_original_code() {
    // All blocks are linked after the first answer, so only the full ring leads out of the cache.
    let (_, left, dropped) = run(Controller::Dead, area::WAIT, false);
    assert!(dropped == 0 && (ring::CHUNK_BYTES / 4..BLOCKS).contains(&left));
}
