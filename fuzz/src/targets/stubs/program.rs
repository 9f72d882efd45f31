//! Parses a script into a program of a few functions with the information that its file would
//! contain.
//!
//! | bytes | |
//! |---|---|
//! | 1 | the sink |
//! | 1 | options |
//! | 1 | granularities of functions (loops or blocks), two bits each, used cyclically |
//! | 1 | counts of what follows: 3 bits pieces, 3 bits addresses, 2 bits table entries |
//! | 3 each | pieces: kind, and start of the next piece |
//! | 3 each | addresses: where the address is stored, and its target |
//! | 2 each | table entries: targets |
//! | rest | code |

use std::collections::BTreeMap;
use std::ops::Range;

use hmtt_probe::address::{LoadBias, RunAddr};
use hmtt_probe::disassembly::Granularity;
use hmtt_probe::elf::{Function, Go, Image, Text};
use hmtt_probe::fuzzing::GoFunction;
use hmtt_probe::stubs::Sink;
use hmtt_probe::stubs::layout::{LogShape, WhenFull};
use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::script::Bytes;

/// Base addresses of programs, in their own address space. The last one is as close to the end of
/// the address space as a file can state.
const BASES: [u64; 4] = [0x40_1000, 0x1000, 0x7fff_fff0_0000, 0xffff_ffff_ffff_0000];
/// Distance from the code to data.
pub(crate) const DATA: u64 = 0x8000;
/// Distances from the code to stubs: near, and nearly as far as a jump reaches.
const DISTANCES: [i64; 4] = [0x10_0000, 0x7ff0_0000, -0x10_0000, -0x7ff0_0000];
/// Load bias of a program that can be loaded anywhere.
const BIAS: LoadBias = LoadBias::new(0x5555_5555_4000);
/// Address of the memory that the process shares with its controller.
const SHARED: u64 = 0x7fff_f000_0000;

const ORDERED: LogShape =
    LogShape { is_timed: false, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };

/// A program to be tagged.
pub(super) struct Program {
    pub image: Image,
    pub sink: Sink,
    /// Address of the stubs as an address of the file.
    pub stubs_at: u64,
    pub bias: LoadBias,
    /// Address of the code.
    pub start: u64,
    pub code: Vec<u8>,
    /// Granularities of functions, two bits each.
    granularities: u8,
    /// All instructions of functions and fragments that can be decoded.
    pub instructions: BTreeMap<u64, Instruction>,
    /// Functions and fragments that contain bytes which are no instructions.
    unreadable: Vec<Range<u64>>,
}

impl Program {
    /// Parses a script; `None` if it has no code.
    pub fn parse(bytes: &[u8]) -> Option<Program> {
        let mut script = Bytes::new(bytes);
        let sink = sink(script.byte()?);
        let options = script.byte()?;
        let granularities = script.byte()?;
        let counts = script.byte()?;
        let start = BASES[usize::from(options & 3)];
        let mut places = |count: u8| -> Option<Vec<(u8, u64)>> {
            (0..count).map(|_| Some((script.byte()?, script.number(2)?))).collect()
        };
        let (pieces, addresses) = (places(counts & 7)?, places(counts >> 3 & 7)?);
        let table: Option<Vec<u64>> = (0..counts >> 6).map(|_| script.number(2)).collect();
        let (table, code) = (table?, script.rest());
        if code.is_empty() || code.len() as u64 > DATA {
            return None;
        }
        let end = code.len() as u64;
        let place = |at: u64| start + at % end;
        let mut image = image(start, code, &table.into_iter().map(place).collect::<Vec<_>>());
        image.relocatable = options & 4 != 0;
        divide(&mut image, pieces.into_iter().map(|(kind, at)| (kind, at % end)), start, end);
        addresses.into_iter().for_each(|(kind, at)| point(&mut image, kind, place(at)));
        image.go = (options & 8 != 0).then(|| go(&image.functions));
        let (instructions, unreadable) = instructions(&image);
        let distance = DISTANCES[usize::from(options >> 4 & 3)];
        let stubs_at = start.wrapping_add_signed(distance);
        let bias = if image.relocatable { BIAS } else { LoadBias::NONE };
        let code = code.to_vec();
        Some(Program {
            image,
            sink,
            stubs_at,
            bias,
            start,
            code,
            granularities,
            instructions,
            unreadable,
        })
    }

    /// Returns the granularity of a function.
    pub fn granularity(&self, start: u64) -> Granularity {
        let number = self.image.functions.partition_point(|one| one.start < start);
        match self.granularities >> (2 * (number % 4)) & 3 {
            1 => Granularity::Loops,
            2 | 3 => Granularity::Blocks,
            _ => Granularity::Function,
        }
    }

    /// Whether an address is in a function that contains bytes which are no instructions.
    pub fn is_unreadable(&self, address: u64) -> bool {
        self.unreadable.iter().any(|range| range.contains(&address))
    }

    /// Whether an instruction has a memory operand in a range of addresses. Only operands relative
    /// to the instruction's address count.
    pub fn refers_to(&self, range: Range<u64>) -> bool {
        let relative = |one: &&Instruction| one.is_ip_rel_memory_operand();
        let mut operands = self.instructions.values().filter(relative);
        operands.any(|one| range.contains(&one.ip_rel_memory_address()))
    }

    /// Returns the address range of the code.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.code.len() as u64
    }
}

fn sink(code: u8) -> Sink {
    match code % 6 {
        0 => Sink::Count,
        1 => Sink::Log(ORDERED),
        2 => Sink::Log(LogShape { is_timed: true, ..ORDERED }),
        3 => Sink::Card,
        4 => Sink::Breakpoint { shared: RunAddr(SHARED) },
        _ => Sink::None,
    }
}

/// Builds a file with code and a jump table.
fn image(start: u64, code: &[u8], table: &[u64]) -> Image {
    let at = start + DATA;
    let entry = |to: &u64| (to.wrapping_sub(at) as u32).to_le_bytes();
    let table: Vec<u8> = table.iter().flat_map(entry).collect();
    let text = |start, bytes: &[u8]| Text { start, offset: 0, bytes: bytes.to_vec() };
    hmtt_probe::fuzzing::image(start, vec![text(start, code)], vec![text(at, &table)])
}

/// Divides the code into functions, fragments of functions, and bytes that are neither.
fn divide(image: &mut Image, pieces: impl Iterator<Item = (u8, u64)>, start: u64, end: u64) {
    let mut begins: BTreeMap<u64, u8> = pieces.map(|(kind, at)| (at, kind)).collect();
    begins.entry(0).or_insert(0);
    let next = begins.keys().copied().skip(1).chain([end]);
    for ((begin, kind), next) in begins.iter().zip(next) {
        let range = start + begin..start + next;
        match kind % 4 {
            2 => image.fragments.push(range),
            3 => {}
            _ => image.functions.push(Function {
                name: format!("f{begin}"),
                symbols: Vec::new(),
                start: range.start,
                size: range.end - range.start,
                ifunc: false,
                source: None,
            }),
        }
    }
}

/// Stores an address in data, unwind information or the dynamic symbol table.
fn point(image: &mut Image, kind: u8, address: u64) {
    let insert = |addresses: &mut Vec<u64>| {
        if let Err(place) = addresses.binary_search(&address) {
            addresses.insert(place, address);
        }
    };
    match kind % 4 {
        0 | 1 => insert(&mut image.indirect_targets),
        2 => {
            insert(&mut image.landing_pads);
            let first = image.call_sites.last().map_or(image.entry, |(site, _)| site.end);
            image.call_sites.push((first..first + u64::from(kind / 4), address));
        }
        _ => {
            image.relocated.clear();
            image.relocated.push(address..address + u64::from(kind / 16) + 1);
        }
    }
}

/// Lists the functions as Go's runtime does. The last function grows stacks.
fn go(functions: &[Function]) -> Go {
    let last = functions.last().map(|one| one.start);
    let known = |function: &Function| GoFunction {
        start: function.start,
        end: function.start + function.size,
        name: if Some(function.start) == last {
            "runtime.morestack".into()
        } else {
            function.name.clone()
        },
        is_special: false,
    };
    hmtt_probe::fuzzing::go(functions.iter().map(known).collect())
}

/// Decodes all instructions. Returns them, and the functions and fragments with invalid ones.
fn instructions(image: &Image) -> (BTreeMap<u64, Instruction>, Vec<Range<u64>>) {
    let functions = image.functions.iter().map(|one| one.start..one.start + one.size);
    let (text, mut instructions, mut unreadable) = (&image.text[0], BTreeMap::new(), Vec::new());
    for range in functions.chain(image.fragments.iter().cloned()) {
        let [from, to] = [range.start, range.end].map(|at| (at - text.start) as usize);
        let bytes = &text.bytes[from..to];
        let decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
        let valid = decoder.into_iter().take_while(|one| !one.is_invalid());
        let before = instructions.len();
        instructions.extend(valid.map(|one| (one.ip(), one)));
        let last =
            instructions.range(range.clone()).next_back().filter(|_| instructions.len() > before);
        if last.is_none_or(|(_, last)| last.next_ip() != range.end) {
            unreadable.push(range);
        }
    }
    (instructions, unreadable)
}
