//! Decodes the code of tags and finds the event that each of them reports.

use std::collections::HashMap;

use hmtt_probe::address::FileAddr;
use hmtt_probe::stubs::{Sink, TagCode};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::Tagged;
use super::program::Program;

/// Sizes in bytes of a counter, and of a card's event.
const COUNTER_BYTES: u64 = 8;
const EVENT_BYTES: u64 = 64;

/// A tag in a stub.
pub(super) struct Tag {
    /// Address after the tag's code.
    pub end: u64,
    /// The original instruction before which the tag runs.
    pub original: u64,
    /// The event that the tag reports; `None` if the code does not contain it.
    pub event: Option<u32>,
}

pub(super) struct Tags {
    of: HashMap<u64, Tag>,
    /// Whether the code of tags contains their events.
    pub are_known: bool,
}

impl Tags {
    /// Decodes the tags. Panics if a tag is not a sequence of whole instructions, or if it branches
    /// to anything but its own cold instructions.
    pub fn new(program: &Program, code: &[u8], tagged: &[Tagged]) -> Tags {
        let mut by_address = HashMap::new();
        for tagged_function in tagged {
            let stubs = &tagged_function.changes.stubs;
            for TagCode { start, end, original } in &tagged_function.changes.tags {
                assert!(stubs.start <= *start && start <= end && *end <= stubs.end, "{start:x}");
                let (FileAddr(start), FileAddr(end), FileAddr(original)) = (start, end, original);
                // A sink may need no code for a tag.
                if start == end {
                    continue;
                }
                let [from, to] = [start, end].map(|at| (at - program.stubs_at) as usize);
                let decoder = Decoder::with_ip(64, &code[from..to], *start, DecoderOptions::NONE);
                let instructions: Vec<Instruction> = decoder.into_iter().collect();
                assert!(
                    instructions.iter().all(|one| !one.is_invalid()),
                    "{start:x} {instructions:?}"
                );
                let event = event(program.sink, &instructions);
                let is_own = event.is_none_or(|event| {
                    let numbers = tagged_function.number
                        ..=tagged_function.number + tagged_function.rewrite.blocks.len() as u32;
                    numbers.contains(&(event / 2))
                });
                assert!(is_own, "{event:?} of {}", tagged_function.number);
                // A breakpoint loops within the tag.
                let waits = matches!(program.sink, Sink::Breakpoint { .. });
                let is_within = |to: u64| waits && (*start..=*end).contains(&to);
                let targets = instructions.iter().map(|one| (one, one.near_branch_target()));
                let cold = targets.filter(|(_, to)| *to != 0 && !is_within(*to));
                cold.for_each(|(one, _)| check_cold(program, code, one, *start..*end));
                let tag = Tag { end: *end, original: *original, event };
                assert!(by_address.insert(*start, tag).is_none(), "{start:x} is two tags'");
            }
        }
        // In Go, tags follow a check of the stack.
        let is_go = program.image.go.is_some();
        let are_known = !is_go && !matches!(program.sink, Sink::Breakpoint { .. } | Sink::None);
        Tags { of: by_address, are_known }
    }

    pub fn at(&self, address: u64) -> Option<&Tag> {
        self.of.get(&address)
    }
}

/// Checks that cold instructions load the address at which the tag continues, and jump to shared
/// code.
fn check_cold(program: &Program, code: &[u8], branch: &Instruction, tag: std::ops::Range<u64>) {
    assert_eq!(branch.mnemonic(), Mnemonic::Je, "{:x}", tag.start);
    let cold = branch.near_branch_target();
    let bytes = &code[(cold - program.stubs_at) as usize..];
    let mut cold = Decoder::with_ip(64, bytes, cold, DecoderOptions::NONE).into_iter();
    let [load, leads] = [(); 2].map(|()| cold.next().expect("there are two"));
    assert_eq!((load.mnemonic(), load.op0_register()), (Mnemonic::Lea, Register::R11));
    assert!(tag.contains(&load.ip_rel_memory_address()), "{:x}", tag.start);
    assert!(leads.is_jmp_short_or_near());
    assert_eq!(leads.near_branch_target(), program.stubs_at);
}

/// Returns the event that a tag reports. The event follows from the stored value and its address.
fn event(sink: Sink, instructions: &[Instruction]) -> Option<u32> {
    let place = |one: &Instruction| one.memory_displacement64();
    match sink {
        Sink::Count => {
            let increment = instructions.iter().find(|one| one.mnemonic() == Mnemonic::Inc);
            let increment = increment.expect("it counts");
            assert_eq!(increment.memory_segment(), Register::GS);
            Some(2 * (place(increment) / COUNTER_BYTES) as u32)
        }
        Sink::Card => {
            let store = instructions.iter().find(|one| one.memory_segment() == Register::GS);
            let store = store.expect("it writes");
            assert_eq!(place(store), u64::from(store.immediate32() - 1) * EVENT_BYTES);
            Some(store.immediate32() - 1)
        }
        Sink::Log(_) => {
            let is_word = |instruction: &&Instruction| {
                instruction.mnemonic() == Mnemonic::Mov
                    && instruction.memory_base() == Register::R11
                    && instruction.op1_kind() == OpKind::Immediate32
            };
            Some(instructions.iter().find(is_word).expect("it writes").immediate32() - 1)
        }
        Sink::Breakpoint { .. } | Sink::None | Sink::Lookup => None,
    }
}

/// Returns the expected events of tagged entries and blocks, by address.
pub(super) fn expected(program: &Program, tagged: &[Tagged]) -> HashMap<u64, Vec<u32>> {
    let mut events: HashMap<u64, Vec<u32>> = HashMap::new();
    if matches!(program.sink, Sink::Breakpoint { .. } | Sink::None) {
        return events;
    }
    for tagged_function in tagged {
        let mut add = |at: u64, number: u32| events.entry(at).or_default().push(2 * number);
        add(tagged_function.function.start, tagged_function.number);
        for (block, number) in
            tagged_function.rewrite.tagged_blocks().zip(tagged_function.number + 1..)
        {
            add(block.start, number);
        }
    }
    events
}
