//! Holds the lines of one cache, and chooses which line of a full set is evicted.
//!
//! A line is one word: its number, and whether it is dirty. With LRU replacement the words of a set
//! are ordered from the most recently used line to the least recently used one, so that no other
//! state is needed and most hits are found at once. Otherwise a line keeps its way. Invariant: with
//! LRU, ways without a line are the last ones of their set.

use super::Counters;
use super::configuration::{CacheConfiguration, CacheError, Replacement};

/// The bit of a word that is 1 if the line is dirty.
const DIRTY: u64 = 1;
/// The word of a way without a line. Line numbers have at most 61 bits, as a line has at least 8
/// bytes.
const EMPTY: u64 = u64::MAX;

/// State from which the victim is chosen.
#[derive(Clone, Debug)]
enum Order {
    /// The order of the words is the order of use.
    Lru,
    /// For each set the bits of its tree. Bit n belongs to node n; its children are the nodes 2n
    /// and 2n+1, and node 1 is the root.
    Tree(Vec<u64>),
    /// State of the random number generator.
    Random(u64),
}

/// A line that was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Address of the first byte of the line.
    pub address: u64,
    /// Whether the line is dirty, so that the next level must get its content.
    pub dirty: bool,
}

/// One cache.
#[derive(Clone, Debug)]
pub struct Level {
    words: Vec<u64>,
    ways: usize,
    set_mask: u64,
    order: Order,
    /// log2 of the size of a line in bytes.
    pub line_log2: u32,
    /// Whether a line that is evicted must also be removed from the levels before this one.
    pub inclusive: bool,
    /// Counts of this cache. The caller updates them, except for the write-backs that
    /// [`Level::remove`] counts.
    pub counters: Counters,
}

impl Level {
    /// Creates an empty cache.
    pub fn new(configuration: &CacheConfiguration) -> Result<Self, CacheError> {
        let sets = configuration.sets()?;
        let ways = configuration.ways as usize;
        let order = match configuration.replacement {
            Replacement::Lru => Order::Lru,
            Replacement::TreePlru => Order::Tree(vec![0; sets as usize]),
            Replacement::Random { seed } => Order::Random(seed),
        };
        Ok(Level {
            words: vec![EMPTY; sets as usize * ways],
            ways,
            set_mask: sets - 1,
            order,
            line_log2: configuration.line_bytes.trailing_zeros(),
            inclusive: configuration.inclusive,
            counters: Counters::default(),
        })
    }

    /// Size of a line in bytes.
    pub const fn line_bytes(&self) -> u32 {
        1 << self.line_log2
    }

    /// Number of dirty lines.
    pub fn dirty_lines(&self) -> u64 {
        self.words.iter().filter(|word| **word != EMPTY && **word & DIRTY != 0).count() as u64
    }

    const fn set(&self, line: u64) -> usize {
        (line & self.set_mask) as usize
    }

    fn position(&self, line: u64) -> Option<usize> {
        let base = self.set(line) * self.ways;
        self.words[base..base + self.ways].iter().position(|word| word & !DIRTY == line << 1)
    }

    /// Looks up line number `line`. If the cache has the line, the call counts as a use, and makes
    /// the line dirty if `write`. Returns whether the cache has the line.
    #[inline]
    pub fn touch(&mut self, line: u64, write: bool) -> bool {
        let set = self.set(line);
        let base = set * self.ways;
        let words = &mut self.words[base..base + self.ways];
        let Some(way) = words.iter().position(|word| word & !DIRTY == line << 1) else {
            return false;
        };
        let word = words[way] | u64::from(write);
        match &mut self.order {
            Order::Lru => {
                words.copy_within(..way, 1);
                words[0] = word;
            }
            Order::Tree(trees) => {
                words[way] = word;
                point_away(&mut trees[set], way, self.ways);
            }
            Order::Random(_) => words[way] = word,
        }
        true
    }

    /// Marks the line at `address` as dirty, without counting as a use. Returns whether the cache
    /// has the line.
    pub fn update(&mut self, address: u64) -> bool {
        let line = address >> self.line_log2;
        let Some(way) = self.position(line) else { return false };
        let base = self.set(line) * self.ways;
        self.words[base + way] |= DIRTY;
        true
    }

    /// Returns the way in which the next new line of `set` is placed.
    fn place(&mut self, set: usize) -> usize {
        let base = set * self.ways;
        let words = &self.words[base..base + self.ways];
        if matches!(self.order, Order::Lru) {
            return self.ways - 1;
        }
        if let Some(way) = words.iter().position(|word| *word == EMPTY) {
            return way;
        }
        match &mut self.order {
            Order::Lru => self.ways - 1,
            Order::Tree(trees) => pointed_at(trees[set], self.ways),
            Order::Random(state) => (random(state) % self.ways as u64) as usize,
        }
    }

    /// Places the line at `address`, which the cache does not have. Returns the line that is
    /// evicted for it.
    pub fn insert(&mut self, address: u64, write: bool) -> Option<Victim> {
        let line = address >> self.line_log2;
        let set = self.set(line);
        let way = self.place(set);
        let base = set * self.ways;
        let words = &mut self.words[base..base + self.ways];
        let evicted = words[way];
        let word = line << 1 | u64::from(write);
        match &mut self.order {
            Order::Lru => {
                words.copy_within(..way, 1);
                words[0] = word;
            }
            Order::Tree(trees) => {
                words[way] = word;
                point_away(&mut trees[set], way, self.ways);
            }
            Order::Random(_) => words[way] = word,
        }
        let address = evicted >> 1 << self.line_log2;
        (evicted != EMPTY).then_some(Victim { address, dirty: evicted & DIRTY != 0 })
    }

    /// Removes the lines in `bytes` bytes from `address` on. Returns whether one of them was dirty.
    pub fn remove(&mut self, address: u64, bytes: u32) -> bool {
        let mut dirty = false;
        let last = (address + u64::from(bytes - 1)) >> self.line_log2;
        for line in address >> self.line_log2..=last {
            let Some(way) = self.position(line) else { continue };
            let base = self.set(line) * self.ways;
            let words = &mut self.words[base..base + self.ways];
            if words[way] & DIRTY != 0 {
                dirty = true;
                self.counters.write_backs += 1;
            }
            words[way] = EMPTY;
            if matches!(self.order, Order::Lru) {
                words[way..].rotate_left(1);
            }
        }
        dirty
    }
}

/// Makes the bits on the path to `way` point to the other side. For example, in a tree of 4 ways
/// whose bits are 0, a use of way 0 sets the bits of nodes 1 and 2. The tree then points to way 2.
fn point_away(tree: &mut u64, way: usize, ways: usize) {
    let mut node = 1;
    for bit in (0..ways.trailing_zeros()).rev() {
        let side = way >> bit & 1;
        *tree = *tree & !(1 << node) | (1 - side as u64) << node;
        node = 2 * node + side;
    }
}

/// The way to which the bits of a tree lead.
fn pointed_at(tree: u64, ways: usize) -> usize {
    let mut node = 1;
    while node < ways {
        node = 2 * node + (tree >> node & 1) as usize;
    }
    node - ways
}

/// Returns the next random number, by SplitMix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
