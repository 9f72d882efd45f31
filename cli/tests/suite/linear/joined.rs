//! Builds the most expensive traces with the tag logs that attribute their accesses.

use hmtt_files::tag_log::{FunctionId, TagEvent};
use hmtt_format::record::{TagSource, WordRecord};

use super::captures::{interface, packet, section};
use super::logs::{chunk, header, timed_events};
use super::{Input, Shape, is_linear, repeated};
use crate::card::Card;

const EVENTS: u64 = 4096;
/// Nanoseconds per clock.
const TCK: u64 = 10;
/// Time after the marks in nanoseconds.
const BEGIN: u64 = 6_000_000;

/// Returns a section with packets of one interface.
fn capture(size: usize, part: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut begin = Vec::new();
    section(&mut begin);
    interface(&[], &mut begin);
    [begin, repeated(size, part)].concat()
}

/// Returns registers and times of marks in nanoseconds.
fn marks() -> impl Iterator<Item = (u32, u64)> {
    (0..32).map(|at| (0x100 + at, u64::from(at * 100_000 + at * at * 970)))
}

/// Builds marks, then accesses, each pair to another page.
fn marked_accesses(size: usize) -> Vec<u8> {
    let (mut card, mut marks, mut has_begun) = (Card::new(), marks(), false);
    capture(size, |count, bytes| {
        if let Some((value, at)) = marks.next() {
            card.clock = at / TCK;
            let mark = WordRecord::Tag { delta: 0, source: TagSource::Mark, value };
            packet(0, count, &card.records(&[mark], 0, 0), bytes);
            return;
        }
        if !std::mem::replace(&mut has_begun, true) {
            card.clock = BEGIN / TCK;
        }
        packet(0, count, &card.data(300).0, bytes);
    })
}

/// Builds a log with marks.
fn log(parts: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = header();
    for (register, at) in marks() {
        let mark = [&at.to_le_bytes()[..], &(at + TCK).to_le_bytes(), &register.to_le_bytes()];
        chunk(6, 1, &mark.concat(), &mut bytes);
    }
    parts(&mut bytes);
    bytes
}

/// Builds a thread that enters `calls` functions, each within the one before.
fn deep(calls: u64, begin: u64, bytes: &mut Vec<u8>) {
    for first in (0..calls).step_by(EVENTS as usize) {
        let event = |at: u64| TagEvent {
            tsc: begin + at,
            sp: 0x8000_0000 - 16 * at as u32,
            number: FunctionId(at as u32),
            is_exit: false,
        };
        timed_events(1, (first..calls.min(first + EVENTS)).map(event), bytes);
    }
}

/// Builds a thread inside many functions, while another one repeatedly enters and leaves one.
fn alternating_threads(size: usize) -> Vec<u8> {
    let count = size as u64 / 32;
    log(|bytes| {
        deep(count, BEGIN, bytes);
        for first in (0..4 * count).step_by(EVENTS as usize) {
            let event = |at: u64| TagEvent {
                tsc: BEGIN + count + at * TCK * 3,
                sp: 0x8000,
                number: FunctionId(1 << 24),
                is_exit: at % 2 == 1,
            };
            timed_events(2, (first..first + EVENTS).map(event), bytes);
        }
    })
}

/// Builds many open functions while the trace changes pages.
fn pages(size: usize) -> Vec<u8> {
    log(|bytes| {
        deep(size as u64 / 16, BEGIN - 1_000_000, bytes);
        // Calls that have not ended are taken to end with the log.
        let last = TagEvent {
            tsc: BEGIN + size as u64 * TCK,
            sp: 0x8000,
            number: FunctionId(1 << 24),
            is_exit: false,
        };
        timed_events(2, std::iter::once(last), bytes);
    })
}

fn logged(name: &'static str, input: Input) {
    let (command, extension) = ("tag report IN --trace BESIDE", "tags");
    let beside = Some(("pcapng", marked_accesses as Input));
    is_linear(&Shape { name, command, extension, input, size: 1 << 18, memory: 256, beside });
}

#[test]
fn accesses_are_split_in_linear_time_when_threads_take_turns() {
    logged("joined-turns", alternating_threads);
}

#[test]
fn accesses_of_many_open_functions_are_split_in_linear_time() {
    logged("joined-pages", pages);
}
