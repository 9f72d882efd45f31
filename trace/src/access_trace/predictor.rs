//! What is expected of a thread's next units, from what it has written before.
//!
//! A number is expected to be followed by the number that followed it the last time, and a slot to
//! have the value of the last time. Slots of a path have one state, wherever it is left.
//! Expectations are forgotten at the start of each chunk, so that it is read without those before
//! it.

use hmtt_format::access_trace::BlockAccesses;

/// How many slots numbers have, and where.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// By number; the first one is not used.
    numbers: Vec<Layout>,
    /// Slots of all blocks and paths.
    slots: u32,
    /// Numbers in the file of the blocks and paths that the program has numbered from 1 on.
    current: Vec<u32>,
    /// How often it has begun to number them.
    begun: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// The first number of its path.
    home: u32,
    /// Place of its first slot.
    first: u32,
    /// How many slots follow it, and how many the whole path has.
    slots: u16,
    all_slots: u16,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts { numbers: vec![Layout::default()], slots: 0, current: Vec::new(), begun: 0 }
    }
}

impl Layouts {
    /// Adds the next blocks and paths.
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

    /// How many numbers there are, with the first one, which is not used.
    pub fn numbers(&self) -> usize {
        self.numbers.len()
    }

    /// Adds the numbers in the file of the next blocks and paths.
    pub fn add_current(&mut self, numbers: &[u32]) {
        self.current.extend(numbers);
    }

    /// How many numbers the program has used up to now.
    pub fn current(&self) -> usize {
        self.current.len()
    }

    /// The program numbers blocks and paths from 1 on again.
    pub fn begin(&mut self) {
        self.current.clear();
        self.begun += 1;
    }

    /// Copies the current numbers. `begun`: how often the program had begun to number when they
    /// were copied last.
    pub fn copy_current(&self, current: &mut Vec<u32>, begun: &mut u32) {
        if *begun != self.begun {
            current.clear();
            *begun = self.begun;
        }
        current.extend(self.current.get(current.len()..).unwrap_or_default());
    }
}

/// What is expected.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// By number; the first one stands for the start of a chunk.
    numbers: Vec<Number>,
    /// How many of them may be named.
    known: usize,
    /// Last values of all slots.
    values: Vec<u64>,
    /// Number of the chunk. What has another one is forgotten.
    chunk: u32,
    /// The number that was written last.
    last: u32,
}

/// What is known of a number.
#[derive(Clone, Copy, Debug, Default)]
struct Number {
    layout: Layout,
    /// The number that followed it, or 0, in which chunk.
    next: u32,
    chunk: u32,
    /// In which chunk the slots of the path were written last, if this is its first number.
    slots_chunk: u32,
}

impl Default for Predictor {
    fn default() -> Self {
        let (numbers, values) = (vec![Number::default()], Vec::new());
        Predictor { numbers, known: 1, values, chunk: 1, last: 0 }
    }
}

impl Predictor {
    /// Learns of blocks and paths. `layouts`: those that are known already, and others behind them.
    pub fn learn(&mut self, layouts: &Layouts) {
        let new = layouts.numbers.get(self.numbers.len()..).unwrap_or_default();
        self.numbers
            .extend(new.iter().map(|layout| Number { layout: *layout, ..Number::default() }));
        self.known = self.numbers.len();
        self.values.resize(layouts.slots as usize, 0);
    }

    /// Allows only the first `known` numbers, as [`Layouts::numbers`] counts them, until more are
    /// learned.
    pub fn restrict(&mut self, known: usize) {
        self.known = known;
    }

    /// Forgets everything but blocks and paths.
    pub fn forget(&mut self) {
        self.chunk += 1;
        self.last = 0;
        self.numbers[0].next = 0;
    }

    /// How many slots follow a number; `None` if it stands for nothing.
    #[inline]
    pub fn slots(&self, number: u32) -> Option<usize> {
        let known = self.numbers.get(number as usize)?;
        (number > 0 && (number as usize) < self.known).then_some(known.layout.slots.into())
    }

    /// The number that is expected now, or 0.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.numbers[self.last as usize].next
    }

    /// Continues after a number that stands for something. Returns the expected values of its
    /// slots, which are to be replaced by the right ones.
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

    /// Forgets what is known of a number from earlier chunks.
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
