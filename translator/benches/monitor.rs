//! Measures how many block numbers the monitor reads each second: `cargo bench -p hmtt-translator`.
//!
//! The numbers come from a random walk through 4,000 blocks, few of them hot, as programs write
//! them, and from a loop of one block. Prints billions of numbers in a second of processor time.

use hmtt_probe::address::RunAddr;
use hmtt_translator::monitor::code::{BlockCode, End, Numbered};
use hmtt_translator::monitor::tally::{Recording, Stream, Tally};

const BLOCKS: u64 = 4_000;
/// Numbers that are read again and again, and how often.
const NUMBERS: usize = 1 << 20;
const TIMES: usize = 300;
/// Bytes that the monitor reads at a time.
const BATCH: usize = 1 << 14;
/// Of 16 executions of a conditional block, those that jump; of an indirect one, those with the
/// usual target.
const TAKEN: u64 = 12;
const USUAL: [u64; 2] = [16, 10];

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn start(number: u64) -> RunAddr {
    RunAddr(0x40_0000 + number * 16)
}

/// Blocks of a program: of 16, 10 end with a conditional jump, 3 directly, 3 indirectly. Most
/// targets are near.
fn program() -> Vec<BlockCode> {
    let mut state = 0x1234_5678_9abc_def1;
    let block = |number: u64| {
        let to = start((number + 2 + random(&mut state) % 16) % BLOCKS);
        let end = match random(&mut state) % 16 {
            0..10 => End::Conditional { to },
            10..12 => End::Jump { to },
            12 => End::Call { to },
            13..15 => End::Return,
            _ => End::IndirectJump,
        };
        let at = start(number);
        BlockCode { start: at, next: start((number + 1) % BLOCKS), last: at, instructions: 4, end }
    };
    (0..BLOCKS).map(block).collect()
}

/// Numbers of a walk through a program.
fn walk(program: &[BlockCode]) -> Vec<u8> {
    let (mut state, mut at) = (0x9876_5432_1234_5671, 0);
    let mut bytes = Vec::with_capacity(4 * NUMBERS);
    let number = |address: RunAddr| (address.0 - 0x40_0000) / 16;
    for _ in 0..NUMBERS {
        bytes.extend_from_slice(&(at as u32 + 1).to_le_bytes());
        let block = &program[at as usize];
        let chance = random(&mut state) % 16;
        at = match block.end {
            End::Conditional { to } if chance < TAKEN => number(to),
            End::Jump { to } | End::Call { to } => number(to),
            End::Return | End::IndirectJump => {
                let is_usual = chance < USUAL[(at % 2) as usize];
                let other = if is_usual { 0 } else { chance };
                // Mostly within a region of a few hundred blocks, which moves.
                let region = bytes.len() as u64 >> 20;
                (region * 700 + at * 7 % 300 + other * 13) % BLOCKS
            }
            _ => number(block.next),
        };
    }
    bytes
}

/// Processor time of this thread.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(name: &str, program: &[BlockCode], bytes: &[u8]) {
    for (mode, edges) in [("counts", false), ("edges", true)] {
        let mut tally = Tally::new(Recording { edges, ..Recording::default() });
        let mut stream = Stream::default();
        let new =
            |known: u32| program[known as usize..].iter().copied().map(Numbered::Block).collect();
        let begin = seconds();
        for _ in 0..TIMES {
            for batch in bytes.chunks(BATCH) {
                tally.read(&mut stream, batch, &new);
            }
        }
        let time = seconds() - begin;
        tally.end(&mut stream);
        let counted = tally.result(&new);
        let speed = counted.numbers as f64 / time / 1e9;
        println!("{name:>6} {mode:>6}: {speed:5.2} G/s, {} indirect edges", counted.edges.len());
    }
}

fn main() {
    let program = program();
    measure("walk", &program, &walk(&program));
    measure("loop", &program, &[7, 0, 0, 0].repeat(NUMBERS));
}
