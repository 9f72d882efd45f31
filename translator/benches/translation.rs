//! Measures how long the translation of a block takes: `cargo bench -p hmtt-translator --bench
//! translation`.
//!
//! Translates the blocks of all functions of a program, in the order of their addresses, with the
//! batches of a process. The first argument names the program; without one it is the Python
//! interpreter. Prints microseconds of processor time for each block, the least of several rounds.

use std::hint::black_box;
use std::path::Path;

use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::Image;
use hmtt_translator::cache::{Arena, ArenaNumber, Cache, CacheMemory, Instrument, Settings};
use hmtt_translator::code::CodeBytes;

const PROGRAM: &str = "/usr/bin/python3";
const ROUNDS: usize = 5;
/// Most functions that are translated.
const FUNCTIONS: usize = 4_000;
/// Blocks for one request, as in a process.
const BATCH: usize = 32;
/// Where the program and the arena are.
const BASE: u64 = 0x5555_0000_0000;
const ARENA: u64 = BASE - (1 << 30);
const ARENA_BYTES: u32 = 256 << 20;

/// Memory that nothing executes.
struct Memory(Vec<u8>);

impl CacheMemory for Memory {
    fn new_arena(&mut self, _near: RunAddr) -> Result<Arena, String> {
        self.0 = vec![0; ARENA_BYTES as usize];
        Ok(Arena { base: RunAddr(ARENA), bytes: ARENA_BYTES })
    }

    fn write(&mut self, _arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.0[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn replace(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.write(arena, offset, bytes);
    }

    fn set_table(&mut self, _entry: u16, address: RunAddr) {
        black_box(address);
    }
}

/// The code of a program at [`BASE`].
struct Code(Image);

impl CodeBytes for Code {
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize {
        let Some(address) = at.0.checked_sub(BASE) else { return 0 };
        let text = self.0.text.iter().find_map(|text| {
            text.bytes
                .get(address.checked_sub(text.start)? as usize..)
                .filter(|rest| !rest.is_empty())
        });
        let Some(text) = text else { return 0 };
        let length = text.len().min(into.len());
        into[..length].copy_from_slice(&text[..length]);
        length
    }
}

/// Processor time of this thread.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Translates the functions. Returns the number of blocks, and the time.
fn translate(code: &Code, instrument: Instrument) -> (u32, f64) {
    let settings = Settings { table: 0x1000_0000, instrument, batch: BATCH };
    let cache = Cache::new(Memory(Vec::new()), settings, RunAddr(BASE));
    let mut cache = cache.expect("the arena is near");
    let begin = seconds();
    for function in code.0.functions.iter().take(FUNCTIONS) {
        // What is not translated runs natively.
        let _ = cache.entry(code, RunAddr(BASE + function.start));
    }
    (cache.last_number(), seconds() - begin)
}

fn main() {
    let program = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let program = program.unwrap_or_else(|| PROGRAM.to_owned());
    let code = Code(Image::read(Path::new(&program)).expect("the program can be read"));
    for (name, instrument) in
        [("translated only", Instrument::None), ("numbered", Instrument::Ring)]
    {
        let rounds = (0..ROUNDS).map(|_| translate(&code, instrument));
        let (blocks, time) =
            rounds.min_by(|one, other| one.1.total_cmp(&other.1)).expect("a round");
        let each = time * 1e6 / f64::from(blocks);
        println!("{name}: {blocks} blocks, {each:.2} us a block");
    }
}
