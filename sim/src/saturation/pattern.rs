//! Generates an endless stream of wanted bursts from a seed, in the order in which they are wanted.

use hmtt_format::config::{self, register_address};
use hmtt_format::{Direction, MemoryDescription};

/// Kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The lines of one row in order.
    RowHits,
    /// Each line in another row, the banks in turn.
    RowMisses,
    /// Random lines; some runs of them are writes.
    Random,
    /// Alternating reads and writes.
    Alternating,
    /// Lines just too far apart for their delta to fit in a record.
    Gaps,
    /// Every sixteenth access is in the tag window, with occasional marks and settings.
    Tags,
    /// The bursts of two lines of different banks, alternating: no two consecutive bursts are of
    /// one line.
    Interleaved,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 7] = [
        Pattern::RowHits,
        Pattern::RowMisses,
        Pattern::Random,
        Pattern::Alternating,
        Pattern::Gaps,
        Pattern::Tags,
        Pattern::Interleaved,
    ];

    /// The name of the pattern on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::RowHits => "row-hits",
            Pattern::RowMisses => "row-misses",
            Pattern::Random => "random",
            Pattern::Alternating => "alternating",
            Pattern::Gaps => "gaps",
            Pattern::Tags => "tags",
            Pattern::Interleaved => "interleaved",
        }
    }
}

/// Whether a burst is more than an access to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An access only.
    Plain,
    /// An access in the tag window.
    Tag,
    /// The last access of a mark of this register.
    Mark(u16),
}

/// A burst that the traffic contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Address of the first word that is transferred.
    pub address: u64,
    /// Direction of the burst.
    pub direction: Direction,
    /// Minimum number of clocks after the burst before.
    pub distance: u64,
    /// Whether the burst is also a tag or the end of a mark.
    pub note: Note,
}

/// Base of the tag window, as software sets it.
const TAG_BASE: u64 = 0x1000_0000;
/// Clocks between the accesses of a configuration command, as between lines.
const CONFIGURATION_DISTANCE: u64 = 4;
/// Clocks between lines of [`Pattern::Gaps`]: one more than the delta of a record can express.
const GAP: u64 = 31;
/// Lines from one tag to the next.
const TAG_LINES: u64 = 16;
/// Lines from one mark to the next.
const MARK_LINES: u64 = 4096;
/// Lines of one direction in [`Pattern::Random`]. One run in four is a run of writes.
const RUN_LINES: u64 = 8;
/// Clocks before each command that sets the tag window, as software pauses when it sets up a card.
const START_PAUSE: u64 = 1000;
/// A setting made amid the traffic. It sets the threshold to its present value.
const SETTING: u16 = config::THRESHOLD_FIRST + 7;
/// The register of the marks.
const MARK: u16 = config::MARK_FREE_FIRST;

/// The endless stream of bursts.
#[derive(Clone, Debug)]
pub struct WantedBursts {
    pattern: Pattern,
    state: u64,
    line_bytes: u64,
    burst_bytes: u64,
    capacity: u64,
    /// Sizes in bytes of a row of all banks (`row_bytes`) and of a row of one bank (`bank_bytes`).
    row_bytes: u64,
    bank_bytes: u64,
    lines: u64,
    write: bool,
    /// Queued bursts, last one first.
    ready: Vec<Wanted>,
    registers: MemoryDescription,
}

impl WantedBursts {
    /// Creates a stream.
    pub fn new(memory: &MemoryDescription, pattern: Pattern, seed: u64) -> Self {
        let mut wanted = WantedBursts {
            pattern,
            state: seed ^ 0x9e37_79b9_7f4a_7c15,
            line_bytes: 1 << memory.line_log2,
            burst_bytes: memory.burst_bytes().into(),
            capacity: memory.capacity(),
            bank_bytes: 1 << 14,
            row_bytes: 1 << 16,
            lines: 0,
            write: false,
            ready: Vec::new(),
            registers: memory.clone(),
        };
        if pattern == Pattern::Tags {
            for digit in format!("{TAG_BASE:x}").bytes() {
                let digit = char::from(digit).to_digit(16).expect("a digit") as u16;
                wanted.configure(config::TAG_NIBBLE_FIRST + digit, START_PAUSE, Note::Plain);
            }
            wanted.configure(config::TAG_ON, START_PAUSE, Note::Plain);
            wanted.ready.reverse();
        }
        wanted
    }

    fn number(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn configure(&mut self, register: u16, pause: u64, last: Note) {
        let address = register_address(register, self.registers.config_stride_log2);
        for left in (0..self.registers.config_count).rev() {
            let note = if left == 0 { last } else { Note::Plain };
            let direction = Direction::Read;
            let first = left + 1 == self.registers.config_count;
            let distance = if first { pause } else { CONFIGURATION_DISTANCE };
            self.ready.push(Wanted { address, direction, distance, note });
        }
    }

    /// Queues the bursts of a line, starting with a random one.
    fn line(&mut self, address: u64, direction: Direction, distance: u64) {
        let bursts = self.line_bytes / self.burst_bytes;
        let first = self.number() % bursts;
        for at in 0..bursts {
            let address = address + (at ^ first) * self.burst_bytes;
            let distance = if at == 0 { distance } else { 0 };
            self.ready.push(Wanted { address, direction, distance, note: Note::Plain });
        }
    }

    /// Returns the address of line `number` of one row.
    fn in_row(&self, number: u64) -> u64 {
        0x80_0000 + number * self.line_bytes % self.bank_bytes
    }

    /// Queues the next bursts.
    fn more(&mut self) {
        let number = self.lines;
        self.lines += 1;
        let banks = self.row_bytes / self.bank_bytes;
        match self.pattern {
            Pattern::RowHits => self.line(self.in_row(number), Direction::Read, 0),
            Pattern::RowMisses => {
                let line = self.number() % (self.bank_bytes / self.line_bytes);
                let bank = number % banks * self.bank_bytes;
                let row = (number / banks + 1) * self.row_bytes % self.capacity;
                self.line(row + bank + line * self.line_bytes, Direction::Read, 0);
            }
            Pattern::Random => {
                if number.is_multiple_of(RUN_LINES) {
                    self.write = self.number().is_multiple_of(4);
                }
                let address = self.anywhere();
                self.line(address, Direction::from_bit(self.write), 0);
            }
            Pattern::Alternating => {
                let direction = Direction::from_bit(!number.is_multiple_of(2));
                self.line(self.in_row(number), direction, 0);
            }
            Pattern::Gaps => {
                // The distance is from the first burst of a line to the first burst of the next.
                let bursts = self.line_bytes / self.burst_bytes;
                let within = (bursts - 1) * u64::from(self.registers.burst_length / 2);
                self.line(self.in_row(number), Direction::Read, GAP - within);
            }
            Pattern::Tags if number % MARK_LINES == MARK_LINES - 1 => {
                self.configure(MARK, 0, Note::Mark(MARK));
            }
            Pattern::Tags if number % MARK_LINES == MARK_LINES / 2 => {
                self.configure(SETTING, 0, Note::Plain);
            }
            Pattern::Tags if number.is_multiple_of(TAG_LINES) => {
                let address = TAG_BASE + self.number() % (1 << 16) / 8 * 8;
                let direction = Direction::Write;
                self.ready.push(Wanted { address, direction, distance: 0, note: Note::Tag });
            }
            Pattern::Tags => self.line(self.in_row(number), Direction::Write, 0),
            Pattern::Interleaved => self.two_lines(number),
        }
        self.ready.reverse();
    }

    fn two_lines(&mut self, number: u64) {
        let (first, second) = (self.in_row(number), self.in_row(number) + self.bank_bytes);
        self.line(first, Direction::Read, 0);
        let half = self.ready.split_off(self.ready.len() / 2);
        let other =
            |wanted: &Wanted| Wanted { address: wanted.address ^ first ^ second, ..*wanted };
        let (a, b) = (self.ready.clone(), half);
        self.ready.clear();
        for part in [a, b] {
            self.ready.extend(part.iter());
            self.ready.extend(part.iter().map(other));
        }
    }

    /// Returns a random line of the memory outside the registers.
    fn anywhere(&mut self) -> u64 {
        let lines = self.capacity / self.line_bytes;
        let first = (self.line_bytes << config::REGISTERS_LOG2) / self.line_bytes;
        (first + self.number() % (lines - first)) * self.line_bytes
    }
}

impl Iterator for WantedBursts {
    type Item = Wanted;

    fn next(&mut self) -> Option<Wanted> {
        if self.ready.is_empty() {
            self.more();
        }
        self.ready.pop()
    }
}
