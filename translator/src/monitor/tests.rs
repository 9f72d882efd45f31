//! Tests which numbers the monitor reads from rings, also from forged ones.

use std::fs::File;
use std::sync::mpsc::channel;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::Memory;

use super::code::{BlockCode, End, Numbered};
use super::counted::BlockTally;
use super::indirect::Edge;
use super::*;
use crate::shared::{Areas, BYTES, parts};

/// Three blocks. The first one ends with a conditional jump to the second one. The second one
/// returns. The third one is behind the first one.
fn blocks(known: u32) -> Vec<Numbered> {
    let block = |start: u64, end| {
        let start = RunAddr(start);
        Numbered::Block(BlockCode { start, next: start + 4, last: start, instructions: 1, end })
    };
    let to = RunAddr(0x1010);
    let blocks = [
        block(0x1000, End::Conditional { to }),
        block(0x1010, End::Return),
        block(0x1004, End::Jump { to: RunAddr(0x1000) }),
    ];
    blocks[known as usize..].to_vec()
}

/// Rings that this process shares with itself, and their memory as a program sees it.
fn rings() -> (Rings, Memory) {
    let file = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(file);
    file.set_len(BYTES).unwrap();
    let of_program = Memory::map(&file, BYTES).unwrap();
    let areas = Areas::new(Memory::map(&file, BYTES).unwrap(), RunAddr(1 << 40), area::WAIT);
    (Rings::new(areas), of_program)
}

/// Offset of a chunk of the first area from the header, as its thread sees it.
fn chunk(number: u64) -> u64 {
    ring::CHUNK_STRIDE + ring::chunk_at(number)
}

fn write(memory: &Memory, chunk_number: u64, numbers: &[u32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    memory.copy_from(parts::chunk(0, chunk_number), &bytes);
}

#[test]
fn full_chunks_and_the_last_part_are_counted_in_order() {
    let (rings, program) = rings();
    let pointer = rings.areas.area(0).prepare();
    assert_eq!(pointer, (1 << 40) + chunk(0));
    rings.used[0].store(true, Ordering::SeqCst);
    write(&program, 0, &[1, 2, 2, 1, 3, 1]);
    let area = rings.areas.area(0);
    area.set(area::CHUNK_END, pointer + 24);
    area.set(area::CHUNK_TICKS, 600);
    area.chunk_state(0).store(ring::FULL, Ordering::SeqCst);
    area.word(area::CHUNK).store(1, Ordering::SeqCst);
    let start = ring::note(ring::START, 0);
    write(&program, 1, &[3, 1, start, 3]);
    let (sender, receiver) = channel();
    let last = (1 << 40) + chunk(1) + 16;
    sender.send(Finished { area: 0, pointer: Some(last), ticks: 40 }).unwrap();
    drop(sender);
    let counts = watch(&rings, &receiver, Recording::default(), &blocks, None);
    let tally = |executions, starts, stops, branches| BlockTally {
        executions,
        starts,
        stops,
        taken: branches,
        other_edges: 0,
    };
    let Counts { counted, losses: Losses { cut_threads, .. } } = counts;
    assert_eq!(counted.blocks[1..], [tally(4, 1, 1, 1), tally(2, 0, 0, 0), tally(3, 1, 1, 0)]);
    assert_eq!(counted.edges, [(Edge { from: 2, to: 1 }, 1), (Edge { from: 2, to: 2 }, 1)]);
    assert_eq!((counted.numbers, counted.invalid, cut_threads), (10, 0, 0));
    assert_eq!(counted.ticks, 640);
    assert_eq!(counted.unbalanced, Some(0));
    assert!(!rings.used[0].load(Ordering::SeqCst));
}

#[test]
fn forged_numbers_and_addresses_are_losses() {
    let (rings, program) = rings();
    let pointer = rings.areas.area(0).prepare();
    rings.used[0].store(true, Ordering::SeqCst);
    write(&program, 0, &[2, 0, 4, u32::MAX, 2]);
    let area = rings.areas.area(0);
    area.set(area::CHUNK_END, pointer + 20);
    for (number, end) in [(1, 0), (2, u64::MAX), (3, pointer), (4, (1 << 40) + chunk(4) + 2)] {
        area.set(area::CHUNK_END + 8 * number as u32, end);
    }
    area.set(area::CHUNK_TICKS, 7u64.wrapping_neg());
    (0..CHUNKS).for_each(|one| area.chunk_state(one).store(ring::FULL, Ordering::SeqCst));
    (5..CHUNKS).for_each(|one| area.chunk_state(one).store(u32::MAX, Ordering::SeqCst));
    area.word(area::CHUNK).store(u32::MAX, Ordering::SeqCst);
    let (sender, receiver) = channel();
    sender.send(Finished { area: 0, pointer: Some(u64::MAX), ticks: u64::MAX }).unwrap();
    drop(sender);
    let Counts { counted, losses: Losses { cut_threads, .. } } =
        watch(&rings, &receiver, Recording::default(), &blocks, None);
    let executions: Vec<u64> = counted.blocks.iter().map(|block| block.executions).collect();
    assert_eq!(executions, [0, 0, 2, 0]);
    assert_eq!((counted.numbers, counted.invalid, cut_threads), (5, 3, 4));
    assert_eq!(counted.ticks, 0);
    assert_eq!(counted.unbalanced, Some(0));
}
