//! A script to a program of a few functions, with what its file would say of it.
//!
//! | bytes | |
//! |---|---|
//! | 1 | what tags do |
//! | 1 | options |
//! | 1 | of which functions loops or blocks are seen, two bits each in turn |
//! | 1 | how many places of each kind follow: 3 bits pieces, 3 bits addresses, 2 bits entries of a table |
//! | 3 each | pieces: what it is, and where the next one begins |
//! | 3 each | addresses: who has it, and where it leads |
//! | 2 each | entries of the table: where they lead |
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

/// Where programs are, in their own address space. The last is as near to the end of it as a file can claim.
const BASES: [u64; 4] = [0x40_1000, 0x1000, 0x7fff_fff0_0000, 0xffff_ffff_ffff_0000];
/// From the code to data.
pub(crate) const DATA: u64 = 0x8000;
/// From the code to stubs: near, and nearly as far as a jump reaches.
const DISTANCES: [i64; 4] = [0x10_0000, 0x7ff0_0000, -0x10_0000, -0x7ff0_0000];
/// By how much a program that can be loaded anywhere is.
const BIAS: LoadBias = LoadBias::new(0x5555_5555_4000);
/// Where the memory is that the process shares with its controller.
const SHARED: u64 = 0x7fff_f000_0000;

const ORDERED: LogShape =
    LogShape { is_timed: false, chunk_bytes: 8192, chunks: 2, when_full: WhenFull::Drop };

/// A program to be tagged.
pub(super) struct Program {
    pub image: Image,
    pub sink: Sink,
    /// Where stubs are, as an address of the file.
    pub stubs_at: u64,
    pub bias: LoadBias,
    /// Where the code is.
    pub start: u64,
    pub code: Vec<u8>,
    /// What of functions is seen.
    granularities: u8,
    /// All instructions of functions, and of parts that lie apart, as far as they can be read.
    pub instructions: BTreeMap<u64, Instruction>,
    /// Functions, and parts, that are not all instructions.
    unreadable: Vec<Range<u64>>,
}

impl Program {
    /// What a script describes; `None` if it has no code.
    pub fn of(bytes: &[u8]) -> Option<Program> {
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

    /// What of a function is seen.
    pub fn granularity(&self, start: u64) -> Granularity {
        let number = self.image.functions.partition_point(|one| one.start < start);
        match self.granularities >> (2 * (number % 4)) & 3 {
            1 => Granularity::Loops,
            2 | 3 => Granularity::Blocks,
            _ => Granularity::Function,
        }
    }

    /// Whether an address is in a function that is not all instructions.
    pub fn is_unreadable(&self, address: u64) -> bool {
        self.unreadable.iter().any(|range| range.contains(&address))
    }

    /// Where the code is.
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

/// A file with code and with a table of where it goes on.
fn image(start: u64, code: &[u8], table: &[u64]) -> Image {
    let at = start + DATA;
    let entry = |to: &u64| (to.wrapping_sub(at) as u32).to_le_bytes();
    let table: Vec<u8> = table.iter().flat_map(entry).collect();
    let text = |start, bytes: &[u8]| Text { start, offset: 0, bytes: bytes.to_vec() };
    hmtt_probe::fuzzing::image(start, vec![text(start, code)], vec![text(at, &table)])
}

/// Divides the code into functions, parts of functions that lie apart, and what is neither.
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

/// Lets data, an unwinder or the dynamic linker know an address.
fn point(image: &mut Image, kind: u8, address: u64) {
    let insert = |all: &mut Vec<u64>| {
        if let Err(place) = all.binary_search(&address) {
            all.insert(place, address);
        }
    };
    match kind % 4 {
        0 | 1 => insert(&mut image.indirect_targets),
        2 => {
            insert(&mut image.landing_pads);
            let first = image.call_sites.last().map_or(image.entry, |(site, _)| site.end);
            image.call_sites.push((first..first + u64::from(kind / 4), address));
        }
        _ => image.relocated = vec![address..address + u64::from(kind / 16) + 1],
    }
}

/// The functions as Go's runtime knows them; the last one makes stacks grow.
fn go(functions: &[Function]) -> Go {
    let last = functions.last().map(|one| one.start);
    let known = |one: &Function| GoFunction {
        start: one.start,
        end: one.start + one.size,
        name: if Some(one.start) == last { "runtime.morestack".into() } else { one.name.clone() },
        is_special: false,
    };
    hmtt_probe::fuzzing::go(functions.iter().map(known).collect())
}

/// All instructions, and the functions and parts that are not all instructions.
fn instructions(image: &Image) -> (BTreeMap<u64, Instruction>, Vec<Range<u64>>) {
    let functions = image.functions.iter().map(|one| one.start..one.start + one.size);
    let (text, mut all, mut unreadable) = (&image.text[0], BTreeMap::new(), Vec::new());
    for range in functions.chain(image.fragments.iter().cloned()) {
        let [from, to] = [range.start, range.end].map(|at| (at - text.start) as usize);
        let bytes = &text.bytes[from..to];
        let decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
        let valid = decoder.into_iter().take_while(|one| !one.is_invalid());
        let before = all.len();
        all.extend(valid.map(|one| (one.ip(), one)));
        let last = all.range(range.clone()).next_back().filter(|_| all.len() > before);
        if last.is_none_or(|(_, last)| last.next_ip() != range.end) {
            unreadable.push(range);
        }
    }
    (all, unreadable)
}
