//! Tests the counts for series of numbers.

use hmtt_probe::address::RunAddr;

use super::*;
use crate::monitor::calls::CallCount;
use crate::monitor::code::{BlockCode, Numbered};
use crate::monitor::counted::{BlockTally, Counted};

/// A system call, a return and a loop, one behind the other.
fn blocks(known: u32) -> Vec<Numbered> {
    let ends = [End::SystemCall, End::Return, End::Conditional { to: RunAddr(8) }];
    let block = |(number, end): (u64, End)| {
        let start = RunAddr(4 * number);
        Numbered::Block(BlockCode { start, next: start + 4, last: start, instructions: 1, end })
    };
    (0..).zip(ends).map(block).skip(known as usize).collect()
}

/// The result for `numbers`, if they are read in parts of `length` numbers.
fn counted(numbers: &[u32], length: usize, recording: Recording) -> Counted {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut tally = Tally::new(recording);
    let mut stream = Stream { thread: 9, ..Stream::default() };
    for part in bytes.chunks(4 * length) {
        tally.read(&mut stream, part, &blocks);
    }
    tally.end(&mut stream);
    tally.result(&blocks)
}

const START: u32 = ring::note(ring::START, 0);

#[test]
fn notes_are_between_blocks_however_numbers_are_read() {
    let (call, time) = (ring::note(ring::CALL, 3), ring::note(ring::TIME, 5));
    // The last call never returns. The second time belongs to no call.
    let numbers = [START, 1, call, time, 2, 1, time, 2, 3, 3, START, 3, 2, 1, call];
    let whole = counted(&numbers, 20, Recording::default());
    let tally = |executions, starts, stops, branches| BlockTally {
        executions,
        starts,
        stops,
        taken: branches,
        other_edges: 0,
    };
    assert_eq!(whole.blocks[1..], [tally(3, 1, 1, 0), tally(3, 0, 0, 0), tally(3, 1, 1, 1)]);
    let edge = |from, to| Edge { from, to };
    assert_eq!(whole.edges, [(edge(2, 1), 2), (edge(2, 3), 1)]);
    // Block 3 does not lead to block 2.
    assert_eq!((whole.unbalanced, whole.invalid, whole.numbers), (Some(2), 0, 15));
    let count = CallCount { times: 2, timed: 1, ticks: 5 << 6 };
    assert_eq!(whole.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
    for length in 1..numbers.len() {
        let parts = counted(&numbers, length, Recording::default());
        assert_eq!((parts.blocks, parts.edges), (whole.blocks.clone(), whole.edges.clone()));
        assert_eq!(parts.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
        let recording = Recording { edges: false, ..Recording::default() };
        let alone = counted(&numbers, length, recording);
        let executions = |counts: &Counted| -> Vec<u64> {
            counts.blocks.iter().map(|block| block.executions).collect()
        };
        assert_eq!(executions(&alone), executions(&whole));
        assert_eq!((alone.unbalanced, alone.edges.len()), (None, 0));
        assert_eq!(alone.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
    }
}

#[test]
fn models_and_intervals_see_each_block_once() {
    let geometry = crate::monitor::models::icache::Geometry::new(1024, 1, 64);
    let models = ModelOptions { predictors: true, icache: geometry };
    let recording = Recording { models, interval: Some(3), ..Recording::default() };
    let numbers = [1, ring::note(ring::CALL, 3), 2, 3, 3, 3, START, 3, 0, 3, 1];
    for length in 1..numbers.len() {
        let counted = counted(&numbers, length, recording);
        assert_eq!((counted.models.branches, counted.models.fetches), (3, 8), "{length}");
        assert_eq!(counted.models.blocks[1].cache_misses, 1);
        assert_eq!(counted.models.blocks[3].mispredictions, [2, 2]);
        let text = "T:1:1 :2:1 :3:1 \nT:3:3 \nT:1:1 :3:1 \n";
        assert_eq!(counted.intervals.unwrap().text, text);
    }
}

#[test]
fn edges_beyond_the_limit_are_counted_by_their_target() {
    let recording = Recording { edge_limit: 1, ..Recording::default() };
    let whole = counted(&[2, 2, 2, 1, 2, 3, 3], 3, recording);
    assert_eq!(whole.edges, [(Edge { from: 2, to: 2 }, 2)]);
    assert_eq!([1, 3].map(|at: usize| whole.blocks[at].other_edges), [1, 1]);
    assert_eq!(whole.unbalanced, Some(0));
}

#[test]
fn forged_numbers_break_the_order_and_nothing_else() {
    let forged = [0, 4, u32::MAX >> 1, u32::MAX, START | 1, ring::note(3, 0)];
    for number in forged {
        let whole = counted(&[2, number, number, 2, number], 4, Recording::default());
        assert_eq!((whole.invalid, whole.unbalanced), (3, Some(0)), "{number:#x}");
        let block = whole.blocks[2];
        assert_eq!((block.executions, block.starts, block.stops), (2, 2, 2), "{number:#x}");
    }
}
