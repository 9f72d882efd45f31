//! Measures how fast block numbers are passed from a thread to a monitor thread, and prints a
//! Markdown table: `bench_queue`.
//!
//! The thread does nothing but write the numbers. The rings are the same as in `hmtt monitor`: the
//! monitor reads one chunk while the thread fills the next. The queue is described in CN101593125:
//! one area of 12 MB with a head pointer in memory. When the queue is full, the thread waits on a
//! condition variable until the monitor has emptied it.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use anyhow::Result;
use hmtt_probe::address::RunAddr;
use hmtt_probe::control::Memory;
use hmtt_translator::layout::{area, header, ring};
use hmtt_translator::monitor::code::{BlockCode, End, Numbered};
use hmtt_translator::monitor::tally::Recording;
use hmtt_translator::monitor::{Finished, watch};
use hmtt_translator::shared::{Areas, BYTES, CHUNKS, Rings, parts, wake};

/// Number of blocks of the program.
const BLOCKS: u32 = 3000;
/// Number of block numbers in a chunk.
const CHUNK: usize = ring::CHUNK_BYTES as usize / 4;
/// Number of block numbers in the repeated pattern.
const PATTERN: usize = 8 * CHUNK;
/// How often the pattern is written.
const TURNS: usize = 100;
const NUMBERS: f64 = (PATTERN * TURNS) as f64;
/// Number of block numbers that fit in the queue.
const QUEUE: usize = (12 << 20) / 4;
const RUNS: usize = 3;

/// Blocks that end with a conditional jump. The jump leads to the block of [`target`], or to the
/// next block.
fn blocks(known: u32) -> Vec<Numbered> {
    let address = |number: u32| RunAddr(0x1000 + 16 * u64::from(number));
    let block = |number: u32| {
        let (start, next) = (address(number), address(number + 1));
        let to = address(target(number));
        let end = End::Conditional { to };
        Numbered::Block(BlockCode { start, next, last: start + 8, instructions: 5, end })
    };
    (known + 1..=BLOCKS).map(block).collect()
}

/// The block to which a block jumps. Most jumps close a short loop; one in seven leads anywhere.
fn target(number: u32) -> u32 {
    match number % 7 {
        0 => number.wrapping_mul(2_654_435_761) % BLOCKS + 1,
        _ => number.saturating_sub(number % 5).max(1),
    }
}

/// Block numbers in the order of an execution that takes two of three jumps.
fn pattern() -> Vec<u32> {
    let (mut number, mut random) = (1, 1u32);
    let step = |_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number =
            if random >> 16 < 43_690 || number == BLOCKS { target(number) } else { number + 1 };
        number
    };
    (0..PATTERN).map(step).collect()
}

/// Time in seconds from the first number that a thread writes to a ring, until the monitor has
/// counted all numbers.
fn rings(pattern: &[u32], recording: Recording) -> Result<f64> {
    let file = tempfile::tempfile()?;
    file.set_len(BYTES)?;
    let map = |file: &File| Memory::map(file, BYTES);
    let (written, read) = (map(&file)?, map(&file)?);
    let rings = Rings::new(Areas::new(read, RunAddr(1 << 40), area::WAIT));
    let first = rings.areas.area(0);
    first.prepare();
    rings.used[0].store(true, Ordering::SeqCst);
    let chunk_at = |chunk: u64| ring::CHUNK_STRIDE + ring::chunk_at(chunk);
    let (sender, received) = channel();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let shared_rings = &rings;
        scope.spawn(move || black_box(watch(shared_rings, &received, recording, &blocks, None)));
        let mut chunk = 0;
        for _ in 0..TURNS {
            for part in pattern.chunks_exact(CHUNK) {
                while first.chunk_state(chunk).load(Ordering::SeqCst) != ring::FREE {
                    std::thread::yield_now();
                }
                let start = chunk_at(chunk);
                for (place, number) in (0..).zip(part) {
                    written
                        .word(parts::chunk(0, chunk) + 4 * place)
                        .store(*number, Ordering::Relaxed);
                }
                let end = (1 << 40) + start + ring::CHUNK_BYTES;
                first.set(area::CHUNK_END + 8 * chunk as u32, end);
                first.chunk_state(chunk).store(ring::FULL, Ordering::SeqCst);
                let filled = rings.areas.header(header::FILLED);
                filled.fetch_add(1, Ordering::SeqCst);
                if rings.areas.header(header::MONITOR_SLEEPS).load(Ordering::SeqCst) != 0 {
                    wake(filled);
                }
                chunk = (chunk + 1) % CHUNKS;
                first.word(area::CHUNK).store(chunk as u32, Ordering::SeqCst);
            }
        }
        let pointer = Some((1 << 40) + chunk_at(chunk));
        while first.chunk_state(chunk).load(Ordering::SeqCst) != ring::FREE {
            std::thread::yield_now();
        }
        let _ = sender.send(Finished { area: 0, pointer, ticks: 0 });
        drop(sender);
    });
    Ok(begin.elapsed().as_secs_f64())
}

/// Time in seconds for the same numbers with the queue of the patent, whose monitor counts
/// executions.
fn queue(pattern: &[u32]) -> f64 {
    let numbers: Vec<AtomicU64> = (0..QUEUE / 2).map(|_| AtomicU64::new(0)).collect();
    let head = AtomicU64::new(0);
    /// The thread that may use the queue.
    #[derive(PartialEq, Eq)]
    enum Turn {
        Thread,
        Monitor,
        Over,
    }
    let (turn, changed) = (Mutex::new(Turn::Thread), Condvar::new());
    let wait_for = |is_awaited: fn(&Turn) -> bool| {
        let waiting = turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let waiting = changed.wait_while(waiting, |turn| !is_awaited(turn));
        drop(waiting);
    };
    let set = |next: Turn| {
        *turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = next;
        changed.notify_all();
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut counts = vec![0u64; BLOCKS as usize + 1];
            loop {
                wait_for(|turn| *turn != Turn::Thread);
                let is_over =
                    *turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == Turn::Over;
                for at in 0..head.load(Ordering::Relaxed) {
                    let both = numbers[at as usize / 2].load(Ordering::Relaxed);
                    let number = if at % 2 == 0 { both as u32 } else { (both >> 32) as u32 };
                    counts[number as usize] += 1;
                }
                head.store(0, Ordering::Relaxed);
                if is_over {
                    break black_box(counts);
                }
                set(Turn::Thread);
            }
        });
        for _ in 0..TURNS {
            for number in pattern {
                let at = head.load(Ordering::Relaxed);
                numbers[at as usize / 2]
                    .store(u64::from(*number) << (32 * (at % 2)), Ordering::Relaxed);
                head.store(at + 1, Ordering::Relaxed);
                if at + 1 == QUEUE as u64 {
                    set(Turn::Monitor);
                    wait_for(|turn| *turn == Turn::Thread);
                }
            }
        }
        set(Turn::Over);
    });
    begin.elapsed().as_secs_f64()
}

fn main() -> Result<()> {
    let pattern = pattern();
    let counts = Recording { edges: false, ..Recording::default() };
    let edges = Recording::default();
    println!("| | G numbers/s | ns a number |\n|---|---:|---:|");
    let print = |name: &str, best: f64| {
        println!("| {name} | {:.2} | {:.2} |", NUMBERS / best / 1e9, best * 1e9 / NUMBERS);
    };
    let best = |run: &dyn Fn() -> Result<f64>| -> Result<f64> {
        (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(f64::min(best, run()?)))
    };
    print("rings, counts", best(&|| rings(&pattern, counts))?);
    print("rings, edges", best(&|| rings(&pattern, edges))?);
    print("the patent's queue, counts", best(&|| Ok(queue(&pattern)))?);
    Ok(())
}
