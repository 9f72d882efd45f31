//! What is expected of a thread's next units, from what it has written before.
//!
//! A number is expected to be followed by the number that followed it the last time, and a slot to have the value of the
//! last time. Slots of a path have one state, wherever it is left. Expectations are forgotten at the start of each chunk,
//! so that it is read without those before it.

use hmtt_format::access_trace::BlockAccesses;

/// What is expected.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// By number; the first one is not used.
    numbers: Vec<Number>,
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
    /// The first number of its path.
    home: u32,
    /// Place of its first slot.
    first: u32,
    /// How many slots follow it, and how many the whole path has.
    slots: u16,
    all_slots: u16,
    /// In which chunk the slots of the path were written last, if this is its first number.
    slots_chunk: u32,
    /// The number that followed it, and in which chunk.
    next: u32,
    next_chunk: u32,
}

impl Default for Predictor {
    fn default() -> Self {
        let (numbers, values) = (vec![Number::default()], Vec::new());
        Predictor { numbers, values, chunk: 1, last: 0 }
    }
}

impl Predictor {
    /// Adds the next blocks and paths.
    pub fn add(&mut self, blocks: &[BlockAccesses]) {
        for block in blocks {
            let (home, first) = (self.numbers.len() as u32, self.values.len() as u32);
            let all_slots = block.slots;
            self.numbers.extend((0..block.numbers()).map(|part| {
                let slots = block.up_to(part).1;
                Number { home, first, slots, all_slots, ..Number::default() }
            }));
            self.values.resize(self.values.len() + usize::from(all_slots), 0);
        }
    }

    /// Forgets everything but blocks and paths.
    pub fn forget(&mut self) {
        self.chunk += 1;
        self.last = 0;
    }

    /// How many slots follow a number; `None` if it stands for nothing.
    pub fn slots(&self, number: u32) -> Option<usize> {
        let known = self.numbers.get(number as usize)?;
        (number > 0).then_some(known.slots.into())
    }

    /// The number that is expected now, or 0.
    pub fn expected(&self) -> u32 {
        let last = &self.numbers[self.last as usize];
        if last.next_chunk == self.chunk { last.next } else { 0 }
    }

    /// Continues after a number that stands for something. Returns the expected values of its slots, which are to be
    /// replaced by the right ones.
    pub fn follow(&mut self, number: u32) -> &mut [u64] {
        let last = &mut self.numbers[self.last as usize];
        (last.next, last.next_chunk) = (number, self.chunk);
        self.last = number;
        let Number { home, first, slots, all_slots, .. } = self.numbers[number as usize];
        let first = first as usize;
        let home = &mut self.numbers[home as usize];
        if home.slots_chunk != self.chunk {
            home.slots_chunk = self.chunk;
            self.values[first..first + usize::from(all_slots)].fill(0);
        }
        &mut self.values[first..first + usize::from(slots)]
    }
}
