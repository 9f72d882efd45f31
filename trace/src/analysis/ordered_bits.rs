//! Stores bits in order, and states how many bits after a given bit are set.
//!
//! Bits are in blocks of one cache line each. The lowest level of counts has the number of set bits
//! of each block, 16 counts to a line. Each level above has the sums of the lines below, again 16
//! to a line, up to a level of a single line. So each bit belongs to one count in one line of each
//! of O(log n) levels. The number of set bits after a bit is the sum of the later bits in its block
//! and of the later counts in each of its lines. Each of these sums has a fixed number of elements,
//! without a branch that depends on the bit. All but the lowest two levels fit into a first-level
//! cache.

use std::cmp::Ordering;
use std::hint::black_box;

const WORD_LOG2: u32 = u64::BITS.trailing_zeros();
const WORDS_LOG2: u32 = 3;
const BLOCK_LOG2: u32 = WORD_LOG2 + WORDS_LOG2;
const COUNTS_LOG2: u32 = 4;
/// Number of 64-bit words of a block. A block fills a cache line.
const WORDS: usize = 1 << WORDS_LOG2;
/// Number of counts in a cache line.
const COUNTS: usize = 1 << COUNTS_LOG2;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block([u64; WORDS]);

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Counts([u32; COUNTS]);

/// Bits in order. Fewer than 2^32 of them may be set at once.
#[derive(Clone, Debug)]
pub(super) struct OrderedBits {
    blocks: Vec<Block>,
    /// Counts of blocks, of lines of these counts, and so on; the last level has one line.
    levels: Vec<Vec<Counts>>,
}

/// The index of a bit's word in its block, and the number of the bit in the word.
const fn place(bit: usize) -> (usize, u32) {
    (bit >> WORD_LOG2 & (WORDS - 1), bit as u32 & (u64::BITS - 1))
}

impl OrderedBits {
    /// At least `count` bits, of which the first `ones` are 1.
    pub fn new(count: usize, ones: usize) -> Self {
        let mut blocks = vec![Block::default(); count.div_ceil(1 << BLOCK_LOG2).max(1)];
        let words = blocks.iter_mut().flat_map(|block| &mut block.0);
        for (word, begin) in words.zip((0..ones).step_by(u64::BITS as usize)) {
            *word = u64::MAX >> (u64::BITS as usize).saturating_sub(ones - begin);
        }
        let mut counts: Vec<u32> = blocks.iter().map(|block| ones_of(&block.0)).collect();
        let mut levels = Vec::new();
        while levels.is_empty() || counts.len() > 1 {
            let line = |some: &[u32]| {
                let mut line = Counts::default();
                line.0[..some.len()].copy_from_slice(some);
                line
            };
            let level: Vec<Counts> = counts.chunks(COUNTS).map(line).collect();
            counts = level.iter().map(|line| line.0.iter().sum()).collect();
            levels.push(level);
        }
        OrderedBits { blocks, levels }
    }

    /// Number of bits, set or not: a multiple of the bits of a block.
    pub fn len(&self) -> usize {
        self.blocks.len() << BLOCK_LOG2
    }

    /// Sets a bit that is 0.
    #[inline]
    pub fn set(&mut self, bit: usize) {
        let (word, shift) = place(bit);
        let mut element = bit >> BLOCK_LOG2;
        self.blocks[element].0[word] |= 1 << shift;
        for level in &mut self.levels {
            let count = &mut level[element >> COUNTS_LOG2].0[element & (COUNTS - 1)];
            *count = count.wrapping_add(1);
            element >>= COUNTS_LOG2;
        }
    }

    /// Clears a bit that is 1, and sets a later bit `to`, after which no bit is set. Returns the
    /// number of set bits between the two. For example, if the bits 0, 2 and 3 are set, `advance(0,
    /// 4)` returns 2.
    #[inline]
    pub fn advance(&mut self, bit: usize, to: usize) -> u64 {
        let (word, shift) = place(bit);
        let (mut element, mut new) = (bit >> BLOCK_LOG2, to >> BLOCK_LOG2);
        let block = &mut self.blocks[element].0;
        block[word] &= !(1 << shift);
        let mut behind = u64::from(ones_behind(block, word, shift));
        let (word, shift) = place(to);
        self.blocks[new].0[word] |= 1 << shift;
        for level in &mut self.levels {
            // An element that has both bits keeps its count. No set bit is after this element.
            if element == new {
                break;
            }
            let counts = &mut level[element >> COUNTS_LOG2].0;
            let own = element & (COUNTS - 1);
            let sum = (0..).zip(&*counts).map(|(at, count)| if at > own { *count } else { 0 });
            behind += u64::from(sum.fold(0u32, u32::wrapping_add));
            counts[own] = counts[own].wrapping_sub(1);
            let count = &mut level[new >> COUNTS_LOG2].0[new & (COUNTS - 1)];
            *count = count.wrapping_add(1);
            (element, new) = (element >> COUNTS_LOG2, new >> COUNTS_LOG2);
        }
        behind
    }

    /// Loads the data that [`OrderedBits::advance`] needs for several bits, so that the processor
    /// makes these loads at once.
    #[inline]
    pub fn load(&self, bits: impl Iterator<Item = usize>) {
        let lines = bits.map(|bit| {
            let block = bit >> BLOCK_LOG2;
            self.blocks[block].0[0] ^ u64::from(self.levels[0][block >> COUNTS_LOG2].0[0])
        });
        black_box(lines.fold(0, |sum, line| sum ^ line));
    }

    /// Returns a function that returns the number of set bits up to and including a bit.
    pub fn ranks(&self) -> impl Fn(usize) -> u64 {
        let counts = self.levels[0].iter().flat_map(|line| line.0);
        let sums = counts.scan(0u64, |sum, count| {
            *sum += u64::from(count);
            Some(*sum)
        });
        let up_to: Vec<u64> = sums.take(self.blocks.len()).collect();
        move |bit| {
            let (word, shift) = place(bit);
            let block = bit >> BLOCK_LOG2;
            up_to[block] - u64::from(ones_behind(&self.blocks[block].0, word, shift))
        }
    }
}

fn ones_of(block: &[u64; WORDS]) -> u32 {
    block.iter().map(|word| word.count_ones()).sum()
}

/// Number of set bits after a bit in its block.
#[inline]
fn ones_behind(block: &[u64; WORDS], word: usize, shift: u32) -> u32 {
    let mask = |at: usize| match at.cmp(&word) {
        Ordering::Less => 0,
        Ordering::Equal => u64::MAX << shift << 1,
        Ordering::Greater => u64::MAX,
    };
    (0..).zip(block).map(|(at, bits)| (bits & mask(at)).count_ones()).sum()
}
