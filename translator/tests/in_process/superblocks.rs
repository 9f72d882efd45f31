//! Builds superblocks of what a program has executed.

use hmtt_translator::cache::{Cache, Numbered};
use hmtt_translator::layout::ring;

use super::instructions::Random;
use super::memory::{Direct, Shared};

/// Most superblocks that are built between two runs.
const MOST: u64 = 12;
/// Most blocks of one.
const LONGEST: u64 = 20;

/// The blocks that numbers stand for, in order. Those of paths are expanded, and notes left out.
pub fn blocks(cache: &Cache<Direct>, numbers: &[u32]) -> Vec<u32> {
    let expansion = |number: &u32| match cache.number(*number) {
        Some(Numbered::Path { blocks, length }) => blocks[..length].to_vec(),
        Some(Numbered::Block(_)) => vec![*number],
        None => Vec::new(),
    };
    numbers.iter().flat_map(expansion).collect()
}

/// How many superblocks were built, and how many blocks were made silent.
#[derive(Clone, Copy, Default)]
pub struct Changed {
    pub built: usize,
    pub silent: usize,
}

/// Undoes some superblocks, and builds others of blocks that were executed one after the other.
/// Makes blocks silent of which nothing is recorded.
pub fn change(cache: &mut Cache<Direct>, random: &mut Random, numbers: &[u32]) -> Changed {
    for number in 1..=cache.last_number() {
        if cache.is_superblock_in_use(number) && random.below(4) == 0 {
            cache.undo_superblock(number);
            assert!(!cache.is_superblock_in_use(number));
        }
    }
    let executed: Vec<Vec<u32>> = numbers
        .split(|number| number & ring::NOTE != 0)
        .map(|part| blocks(cache, part))
        .filter(|part| part.len() > 1)
        .collect();
    if executed.is_empty() {
        return Changed::default();
    }
    let (mut built, mut silent) = (0, 0);
    for _ in 0..1 + random.below(MOST) {
        let part = &executed[random.below(executed.len() as u64) as usize];
        let start = random.below(part.len() as u64 - 1) as usize;
        let (from, length) = match loops(part, start).filter(|_| random.below(2) == 0) {
            Some(repetition) => repetition,
            None => (start, (2 + random.below(LONGEST - 1) as usize).min(part.len() - start)),
        };
        if let Ok(number) = cache.add_superblock(&part[from..from + length]) {
            assert!(cache.is_superblock_in_use(number));
            built += 1;
        }
        let block = part[random.below(part.len() as u64) as usize];
        if random.below(4) == 0 && cache.add_silent(block).is_ok() {
            silent += 1;
        }
    }
    Changed { built, silent }
}

/// Where the first blocks behind a place are that lead back to their start, and how many.
fn loops(part: &[u32], start: usize) -> Option<(usize, usize)> {
    (start..part.len()).find_map(|from| {
        let lengths = 2..=(LONGEST as usize).min(part.len() - 1 - from);
        let mut back = lengths.filter(|length| part[from + length] == part[from]);
        Some((from, back.next()?))
    })
}

/// Clears the numbers that a program has written.
pub fn clear(shared: &Shared, numbers: &[u32]) {
    let at = shared.chunk_start() - shared.area.start;
    shared.area.write(at, &vec![0; 4 * numbers.len()]);
}
