//! Checks that completing a tag ends for any code and registers. Also checks that a tag that was
//! interrupted at any instruction is completed as if it had not been interrupted.

use std::collections::BTreeMap;

use hmtt_probe::address::RunAddr;
use hmtt_probe::stubs::layout::{LogShape, WhenFull};
use hmtt_probe::stubs::unfinished_tag::{
    TagRegisters, ThreadMemory, UNFINISHED_BYTES, UnfinishedTag,
};
use hmtt_probe::stubs::{Sink, TagPlace, Tags};
use iced_x86::{Decoder, DecoderOptions, Instruction, Register};

const AT: u64 = 0x40_0000;
const SHARED: u64 = 0x50_0000;
const SLOT: u64 = 0x7000_0000;
/// Address of a chunk, which has guard pages before and after it.
const CHUNK: u64 = SLOT + 0x2000;
const STACK: u64 = 0x7fff_1234_5678;
const TIME: u64 = 0x1122_3344_5566_7788;

/// Memory in which every address can be read; writes are recorded.
#[derive(Clone, Default, PartialEq, Debug)]
struct Bytes(BTreeMap<u64, u8>);

impl ThreadMemory for Bytes {
    fn read(&self, RunAddr(address): RunAddr) -> Option<u64> {
        let byte = |at: u64| self.0.get(&address.wrapping_add(at)).copied().unwrap_or_default();
        Some(u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(byte)))
    }

    fn write(&mut self, RunAddr(address): RunAddr, bytes: &[u8]) -> Option<()> {
        let places = (0..).map(|at: u64| address.wrapping_add(at));
        self.0.extend(places.zip(bytes.iter().copied()));
        Some(())
    }
}

/// Runs an input as arbitrary code, and as a tag that is interrupted.
pub fn check(bytes: &[u8]) {
    let Some((head, code)) = bytes.split_first_chunk::<16>() else { return };
    let shape = LogShape {
        is_timed: head[0] & 1 != 0,
        chunk_bytes: 8192,
        chunks: 2,
        when_full: WhenFull::Wait,
    };
    any_code(head, code, &shape);
    let place = TagPlace {
        event: u32::from_le_bytes([head[2], head[3], head[4], head[5]]) >> 1,
        red_zone: head[0] & 2 != 0,
        flags: head[0] & 4 != 0,
    };
    interrupted(place, &shape, usize::from(head[1]), u64::from(head[6]));
}

/// Runs code with registers from the input.
fn any_code(head: &[u8; 16], code: &[u8], shape: &LogShape) {
    let [first, second] =
        [0, 8].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("they are 8 bytes")));
    let mut state = TagRegisters {
        rip: AT,
        rsp: first,
        rax: second,
        rdx: first,
        r11: second,
        rflags: first,
        gs: second,
    };
    let code = &code[..code.len().min(UNFINISHED_BYTES)];
    if let Some(rest) = UnfinishedTag::decode(code, &state, shape) {
        let mut memory = Bytes::default();
        let done = rest.run(&mut state, TIME, &mut memory);
        // Every instruction writes at most 8 bytes.
        assert!(memory.0.len() <= 8 * code.len());
        assert!(done.is_none() || state.rip <= AT + code.len() as u64);
    }
}

/// Completes a tag after `done` of its instructions were executed one by one. The result must be
/// the same as when all its instructions are completed.
fn interrupted(place: TagPlace, shape: &LogShape, done: usize, record: u64) {
    let mut tags = Tags::new(Sink::Log(*shape), SHARED, 1).expect("they are made");
    let code = tags.code(&place, AT).expect("it is made");
    let instructions: Vec<Instruction> =
        Decoder::with_ip(64, &code, AT, DecoderOptions::NONE).into_iter().collect();
    let position = instructions.iter().position(|one| one.memory_segment() == Register::GS);
    let position = position.expect("a tag searches for its place") + 1;
    let r11 = CHUNK + 0x1000 + record % shape.capacity() * shape.record_bytes();
    let down = u64::from(place.red_zone) * 128 + u64::from(place.flags) * 8;
    let start = TagRegisters {
        rip: instructions[position].ip(),
        rsp: STACK - down,
        rax: 1,
        rdx: 2,
        r11,
        rflags: 0,
        gs: SLOT,
    };
    let mut memory = Bytes::default();
    memory.write(RunAddr(SLOT), &r11.to_le_bytes());
    memory.write(RunAddr(start.rsp - 8), &3u64.to_le_bytes());
    let rest = |state: &TagRegisters| {
        let code = &code[(state.rip - AT) as usize..];
        UnfinishedTag::decode(&code[..code.len().min(UNFINISHED_BYTES)], state, shape)
    };
    let whole = rest(&start).expect("it has found its place");
    let (mut state, mut expected) = (start, memory.clone());
    whole.run(&mut state, TIME, &mut expected).expect("there is memory");
    assert_eq!((state.rax, state.rdx, state.r11), (1, 2, 3));
    // Now `done` instructions are executed as by the processor, and the rest is completed.
    let (mut partly, mut there) = (start, memory);
    let most = whole.instructions();
    let first = whole.first(done % (most + 1));
    first.run(&mut partly, TIME, &mut there).expect("there is memory");
    if let Some(rest) = rest(&partly) {
        rest.run(&mut partly, TIME, &mut there).expect("there is memory");
        assert_eq!((partly, there), (state, expected));
    } else {
        // The record is already written. The remaining instructions only restore registers.
        let word =
            |memory: &Bytes| memory.read(RunAddr(r11 + shape.word_at())).map(|word| word as u32);
        assert_eq!([word(&there), word(&expected)], [Some(place.word()); 2]);
    }
}
