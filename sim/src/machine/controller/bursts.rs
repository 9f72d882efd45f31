//! Splits lines into bursts, and holds the bursts that wait.

use std::collections::VecDeque;

use hmtt_format::{Coordinates, Direction, MemoryDescription, PhysAddr};

use super::LineRequest;

/// A burst that waits.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// First clock for a command.
    pub from: u64,
    /// Read or write.
    pub direction: Direction,
    /// Place of the first word.
    pub place: Coordinates,
    /// Address of the first word.
    pub address: PhysAddr,
    /// Whether no later burst of the line is in this row.
    pub last_of_row: bool,
    last_of_line: bool,
}

/// The bursts that wait, in the order in which they are transferred.
#[derive(Clone, Debug)]
pub struct Bursts {
    memory: MemoryDescription,
    /// The address bits that the map names.
    named_bits: u64,
    /// Step in bytes from one word that is looked up to the next: a burst, or one word if bursts
    /// are not contiguous.
    step: usize,
    bursts: VecDeque<Burst>,
    lines: usize,
}

impl Bursts {
    /// Creates an empty queue.
    pub fn new(memory: &MemoryDescription) -> Self {
        let contiguous = 1 << memory.burst_log2() == memory.burst_bytes();
        let step = if contiguous { memory.burst_bytes() as usize } else { 1 << memory.bus_log2 };
        let (memory, named_bits) = (memory.clone(), memory.map.named_bits());
        Bursts { memory, named_bits, step, bursts: VecDeque::new(), lines: 0 }
    }

    /// Number of lines with a waiting burst.
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// The bursts, the next one first.
    pub fn iter(&self) -> impl Iterator<Item = &Burst> {
        self.bursts.iter()
    }

    /// Removes the next burst.
    pub fn pop(&mut self) -> Option<Burst> {
        let burst = self.bursts.pop_front()?;
        self.lines -= usize::from(burst.last_of_line);
        Some(burst)
    }

    /// Adds the bursts of a line, each once, in the order of their words in the line. A burst
    /// begins with the first word of the line in it. If the mode register sets the burst length, it
    /// begins at its aligned start, because the card knows no other address.
    pub fn push(&mut self, request: LineRequest) {
        let start = request.address.0 & !u64::from(request.bytes - 1);
        let first = self.bursts.len();
        let words = !(u32::from(self.memory.burst_length) - 1);
        let aligned = |place: Coordinates| Coordinates { column: place.column & words, ..place };
        for word in (0..u64::from(request.bytes)).step_by(self.step) {
            let mut address = PhysAddr((start + word) & self.named_bits);
            let mut place = self.memory.map.to_coordinates(address.0);
            let same = |burst: &Burst| aligned(burst.place) == aligned(place);
            if self.bursts.iter().skip(first).any(same) {
                continue;
            }
            if self.memory.burst_from_mode_register {
                place = aligned(place);
                address = PhysAddr(self.memory.map.to_address(place));
            }
            let LineRequest { from, direction, .. } = request;
            let (last_of_row, last_of_line) = (false, false);
            let from = from.0;
            let burst = Burst { from, direction, place, address, last_of_row, last_of_line };
            self.bursts.push_back(burst);
        }
        let mut later = Vec::new();
        for burst in self.bursts.iter_mut().skip(first).rev() {
            let row = Coordinates { column: 0, ..burst.place };
            burst.last_of_row = !later.contains(&row);
            later.push(row);
        }
        if let Some(last) = self.bursts.back_mut() {
            last.last_of_line = true;
        }
        self.lines += 1;
    }
}
