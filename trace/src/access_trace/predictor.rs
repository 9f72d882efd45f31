//! Predicts the next units of a thread from its earlier units in the chunk.
//!
//! A number is expected to be followed by the number that followed it the last time. A slot is
//! expected to have its last value, or 0 at first. After the numbers 3, 5 and 3, number 5 is
//! expected next, with the values that its slots had before. All numbers of a path share their
//! slots. Each chunk starts without expectations, so that it can be decoded without the earlier
//! ones.

use hmtt_files::access_trace::BlockAccesses;

/// For each number, how many slots it has, and the place of their values. Encoders and decoders use
/// the same layouts.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// By number. The first element is not used, because numbers begin at 1.
    numbers: Vec<Layout>,
    /// Number of slots of all blocks and paths.
    slots: u32,
    /// For each current number of the program, from 1 on, the number in the file.
    current: Vec<u32>,
    /// How often the program has begun to number from 1.
    begun: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// For a path, its first number; for a block, its number.
    home: u32,
    /// Index of its first slot in [`Predictor::values`].
    first: u32,
    /// How many slots follow the number in units.
    slots: u16,
    /// How many slots the whole path has.
    all_slots: u16,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts { numbers: vec![Layout::default()], slots: 0, current: Vec::new(), begun: 0 }
    }
}

impl Layouts {
    /// Adds blocks and paths of the file, which get the next numbers.
    pub fn add(&mut self, blocks: &[BlockAccesses]) {
        for block in blocks {
            let (home, first, all_slots) = (self.numbers.len() as u32, self.slots, block.slots);
            self.numbers.extend((0..block.numbers()).map(|part| {
                let slots = block.up_to(part).1;
                Layout { home, first, slots, all_slots }
            }));
            self.slots += u32::from(all_slots);
        }
    }

    /// How many numbers there are, including the unused number 0.
    pub fn numbers(&self) -> usize {
        self.numbers.len()
    }

    /// Adds the numbers in the file for the program's next numbers.
    pub fn add_current(&mut self, numbers: &[u32]) {
        self.current.extend(numbers);
    }

    /// How many numbers the program has assigned since it last began with 1.
    pub fn current(&self) -> usize {
        self.current.len()
    }

    /// States that the program numbers blocks and paths from 1 on again.
    pub fn begin(&mut self) {
        self.current.clear();
        self.begun += 1;
    }

    /// Brings a copy of the current numbers up to date. `begun`: how often the program had begun to
    /// number when the copy was made.
    pub fn copy_current(&self, current: &mut Vec<u32>, begun: &mut u32) {
        if *begun != self.begun {
            current.clear();
            *begun = self.begun;
        }
        current.extend(self.current.get(current.len()..).unwrap_or_default());
    }
}

/// The expectations, which encoder and decoder compute in the same way.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// By number. The first element stands for the start of a chunk.
    numbers: Vec<Number>,
    /// Numbers from this one on must not occur in units.
    known: usize,
    /// The last value of each slot.
    values: Vec<u64>,
    /// Number of the current chunk. Expectations with another number are out of date.
    chunk: u32,
    /// The number of the last execution; 0 at the start of a chunk.
    last: u32,
}

/// The layout of a number, and the number that is expected to follow it.
#[derive(Clone, Copy, Debug, Default)]
struct Number {
    layout: Layout,
    /// The number that followed it last, or 0. Only valid if `chunk` is the current chunk.
    next: u32,
    chunk: u32,
    /// For the first number of a path: the chunk in which a slot of the path was used last.
    slots_chunk: u32,
}

impl Default for Predictor {
    fn default() -> Self {
        let (numbers, values) = (vec![Number::default()], Vec::new());
        Predictor { numbers, known: 1, values, chunk: 1, last: 0 }
    }
}

impl Predictor {
    /// Learns the blocks and paths of `layouts` that are new. `layouts` must begin with the blocks
    /// and paths that were learned before.
    pub fn learn(&mut self, layouts: &Layouts) {
        let new = layouts.numbers.get(self.numbers.len()..).unwrap_or_default();
        self.numbers
            .extend(new.iter().map(|layout| Number { layout: *layout, ..Number::default() }));
        self.known = self.numbers.len();
        self.values.resize(layouts.slots as usize, 0);
    }

    /// Allows only the numbers below `known`, as [`Layouts::numbers`] counts them, until
    /// [`learn`](Self::learn) is called again.
    pub fn restrict(&mut self, known: usize) {
        self.known = known;
    }

    /// Starts a chunk: forgets all expectations, but not the blocks and paths.
    pub fn forget(&mut self) {
        self.chunk += 1;
        self.last = 0;
        self.numbers[0].next = 0;
    }

    /// How many slots follow a number; `None` if the number is not known or not allowed.
    #[inline]
    pub fn slots(&self, number: u32) -> Option<usize> {
        let known = self.numbers.get(number as usize)?;
        (number > 0 && (number as usize) < self.known).then_some(known.layout.slots.into())
    }

    /// The number that is expected next; 0 if none is.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.numbers[self.last as usize].next
    }

    /// Advances to the execution of `number`, for which [`slots`](Self::slots) returns a number.
    /// Returns the expected values of its slots. The caller must replace them by the actual values.
    #[inline]
    pub fn follow(&mut self, number: u32) -> &mut [u64] {
        self.numbers[self.last as usize].next = number;
        self.last = number;
        let Number { layout, chunk, .. } = self.numbers[number as usize];
        if chunk != self.chunk {
            self.begin(number);
        }
        &mut self.values[layout.first as usize..][..layout.slots.into()]
    }

    /// Removes the expectations that a number has from earlier chunks.
    #[cold]
    fn begin(&mut self, number: u32) {
        let known = &mut self.numbers[number as usize];
        (known.chunk, known.next) = (self.chunk, 0);
        let Layout { home, first, all_slots, .. } = known.layout;
        let home = &mut self.numbers[home as usize];
        if home.slots_chunk != self.chunk {
            home.slots_chunk = self.chunk;
            let first = first as usize;
            self.values[first..first + usize::from(all_slots)].fill(0);
        }
    }
}
