//! Compares the edges that the monitor counts with those of execution step by step.

use std::collections::BTreeMap;

use hmtt_probe::address::RunAddr;
use hmtt_translator::cache::{self, Cache};
use hmtt_translator::monitor::code::{BlockCode, End, Numbered};
use hmtt_translator::monitor::counted::Counted;
use hmtt_translator::monitor::tally::{Recording, Stream, Tally};

use super::memory::Direct;
use super::superblocks;

/// Edges between the starts of blocks, with their counts.
type Edges = BTreeMap<(u64, u64), u64>;

fn described(cache: &Cache<Direct>, known: u32) -> Vec<Numbered> {
    let entries = (known + 1..).map_while(|number| cache.number(number));
    let described = entries.map(|entry| match entry {
        cache::Numbered::Block(block) => Numbered::Block(BlockCode::new(block.start, &block.bytes)),
        cache::Numbered::Path { blocks, length } => {
            Numbered::Path { blocks: blocks.clone(), length }
        }
    });
    described.collect()
}

/// A block by its number.
fn block(blocks: &[Numbered], number: u32) -> &BlockCode {
    match &blocks[number as usize - 1] {
        Numbered::Block(block) => block,
        Numbered::Path { .. } => panic!("{number} is a path"),
    }
}

/// All edges of a result, direct ones computed from executions.
fn edges(counted: &Counted, blocks: &[Numbered]) -> Edges {
    let mut edges = Edges::new();
    let mut add = |from: &BlockCode, to: RunAddr, times: u64| {
        if times > 0 {
            *edges.entry((from.start.0, to.0)).or_default() += times;
        }
    };
    for (numbered, tally) in blocks.iter().zip(&counted.blocks[1..]) {
        let Numbered::Block(block) = numbered else { continue };
        let left = tally.executions - tally.stops;
        match block.end {
            End::Jump { to } | End::Call { to } => add(block, to, left),
            End::Conditional { to } => {
                add(block, to, tally.taken);
                add(block, block.next, left - tally.taken);
            }
            End::SystemCall | End::FallThrough => add(block, block.next, left),
            End::IndirectJump | End::IndirectCall | End::Return => {}
        }
    }
    for (edge, times) in &counted.edges {
        let [from, to] = [edge.from, edge.to].map(|number| block(blocks, number));
        add(from, to.start, *times);
    }
    edges
}

/// Checks the edges of a program. `executed`: addresses of all executed instructions. `numbers`:
/// those in the ring.
pub fn check(seed: u64, cache: &Cache<Direct>, executed: &[u64], numbers: &[u32]) {
    let blocks = described(cache, 0);
    let mut expected = Edges::new();
    let mut at = 0;
    for number in superblocks::blocks(cache, numbers) {
        let from = executed[at];
        at += block(&blocks, number).instructions as usize;
        // The program ends with a jump to code that is not its own.
        if at < executed.len() - 1 {
            *expected.entry((from, executed[at])).or_default() += 1;
        }
    }
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut tally = Tally::new(Recording::default());
    let mut stream = Stream::default();
    for batch in bytes.chunks(4 * 97) {
        tally.read(&mut stream, batch, &|known: u32| described(cache, known));
    }
    tally.end(&mut stream);
    let counted = tally.result(&|known: u32| described(cache, known));
    assert_eq!(counted.unbalanced, Some(0), "seed {seed}");
    let starts: u64 = counted.blocks.iter().map(|block| block.starts).sum();
    assert_eq!((starts, counted.invalid), (1, 0), "seed {seed}");
    assert_eq!(edges(&counted, &blocks), expected, "seed {seed}");
}
