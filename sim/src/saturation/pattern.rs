//! A seed to an endless stream of bursts somebody wants, in the order they want them.

use hmtt_format::config::{self, register_address};
use hmtt_format::{Direction, MemoryDescription};

/// What the traffic is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Line after line of one row.
    RowHits,
    /// Every line in another row, the banks in turn.
    RowMisses,
    /// Any line, some runs of them written.
    Random,
    /// A read, a write, a read, a write.
    Alternating,
    /// Lines just too far apart for their delta to fit their record.
    Gaps,
    /// Every sixteenth access is to the tag window, with a mark and a setting now and then.
    Tags,
    /// The bursts of two lines of different banks, one by one in turn: no two in a row are of one line.
    Interleaved,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Pattern; 7] = [
        Pattern::RowHits,
        Pattern::RowMisses,
        Pattern::Random,
        Pattern::Alternating,
        Pattern::Gaps,
        Pattern::Tags,
        Pattern::Interleaved,
    ];

    /// Its name on the command line.
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

/// What a burst is to the card besides an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing.
    Plain,
    /// In the tag window.
    Tag,
    /// It completes a mark.
    Mark(u16),
}

/// A burst somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of the word named.
    pub address: u64,
    /// Read or write.
    pub direction: Direction,
    /// Fewest clocks after the burst before.
    pub distance: u64,
    /// What it is besides.
    pub note: Note,
}

/// Where software puts the tag window.
const TAG_BASE: u64 = 0x1000_0000;
/// Clocks between the accesses of a configuration command: the pace of lines.
const CONFIGURATION_DISTANCE: u64 = 4;
/// Clocks between lines of [`Pattern::Gaps`]: one more than a record's delta can say.
const GAP: u64 = 31;
/// Lines between two tags, and between two marks.
const TAG_LINES: u64 = 16;
const MARK_LINES: u64 = 4096;
/// Lines of one direction in [`Pattern::Random`], one run in four a write.
const RUN_LINES: u64 = 8;
/// Clocks before each of the commands that set the tag window: software that sets up a card has time.
const START_PAUSE: u64 = 1000;
/// A setting made amid the traffic: the threshold it has already.
const SETTING: u16 = config::THRESHOLD_FIRST + 7;
/// The register the marks are of.
const MARK: u16 = config::MARK_FREE_FIRST;

/// The stream. It has no end.
#[derive(Clone, Debug)]
pub struct Wants {
    pattern: Pattern,
    state: u64,
    line_bytes: u64,
    burst_bytes: u64,
    capacity: u64,
    /// Where rows and banks change, in bytes: a row of one bank, and a row of all banks.
    row_bytes: u64,
    bank_bytes: u64,
    lines: u64,
    write: bool,
    /// Bursts of what is under way, last one first.
    ready: Vec<Wanted>,
    registers: MemoryDescription,
}

impl Wants {
    /// Starts a stream.
    pub fn new(memory: &MemoryDescription, pattern: Pattern, seed: u64) -> Self {
        let mut wants = Wants {
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
                wants.configure(config::TAG_NIBBLE_FIRST + digit, START_PAUSE, Note::Plain);
            }
            wants.configure(config::TAG_ON, START_PAUSE, Note::Plain);
            wants.ready.reverse();
        }
        wants
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

    /// The bursts of a line, any of them first.
    fn line(&mut self, address: u64, direction: Direction, distance: u64) {
        let bursts = self.line_bytes / self.burst_bytes;
        let first = self.number() % bursts;
        for at in 0..bursts {
            let address = address + (at ^ first) * self.burst_bytes;
            let distance = if at == 0 { distance } else { 0 };
            self.ready.push(Wanted { address, direction, distance, note: Note::Plain });
        }
    }

    /// Line `number` of one row.
    fn in_row(&self, number: u64) -> u64 {
        0x80_0000 + number * self.line_bytes % self.bank_bytes
    }

    /// Queues what comes next.
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
                // From the first burst of a line to that of the next.
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

    /// A line of the whole memory, but not among the registers.
    fn anywhere(&mut self) -> u64 {
        let lines = self.capacity / self.line_bytes;
        let first = (self.line_bytes << config::REGISTERS_LOG2) / self.line_bytes;
        (first + self.number() % (lines - first)) * self.line_bytes
    }
}

impl Iterator for Wants {
    type Item = Wanted;

    fn next(&mut self) -> Option<Wanted> {
        if self.ready.is_empty() {
            self.more();
        }
        self.ready.pop()
    }
}
