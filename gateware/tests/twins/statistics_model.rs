//! The statistics unit in plain Rust: items to what must come out of the packer, in order.

use gateware::statistics::WordKind;
use hmtt_format::block::Event;
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::record::{RUN_COUNT_LIMIT, RUN_DURATION_LIMIT, TagSource};
use hmtt_format::{Access, Cycles, Direction, FaultKind, MemoryDescription, PhysAddr};

use crate::decoding::Told;

/// One item.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    Access(Direction, u64),
    WindowTag(Direction, u64),
    Mark(u32),
    Fault(FaultKind, u8),
    Tick,
    Slice,
    Start,
    Stop,
    Change,
    Overrun(u32, u8),
}

/// What is fixed while the model runs.
#[derive(Clone)]
pub struct Rules {
    pub memory: MemoryDescription,
    pub mode: Mode,
    pub granularity: Granularity,
    pub slices: bool,
    pub slice_code: u8,
    pub slice_clocks: u64,
}

impl Rules {
    /// log2 of the bytes of a unit.
    pub fn unit_log2(&self) -> u8 {
        match (self.mode, self.granularity) {
            (Mode::Line, Granularity::Line) => self.memory.line_log2,
            (Mode::Line, Granularity::Burst) => self.memory.burst_log2(),
            (Mode::Page, _) => hmtt_format::memory::PAGE_LOG2,
            (Mode::Frequency, _) => hmtt_format::block::UNIT_NONE,
        }
    }
}

struct Line {
    access: Access,
    parts: u8,
}

struct Page {
    first: u64,
    address: u64,
    reads: u32,
    writes: u32,
    duration: u64,
}

/// The model; [`Model::told`] is the result.
pub struct Model {
    rules: Rules,
    line: Option<Line>,
    page: Option<Page>,
    slice: (u64, u32, u32),
    /// What came out so far.
    pub told: Vec<Told>,
}

impl Model {
    pub fn new(rules: Rules) -> Self {
        Self { rules, line: None, page: None, slice: (0, 0, 0), told: Vec::new() }
    }

    /// Takes one item.
    pub fn take(&mut self, clock: u64, input: Input) {
        match input {
            Input::Access(direction, address) => self.access(clock, direction, address),
            Input::Slice => {
                self.end_slice(clock);
                self.slice = (clock, 0, 0);
            }
            Input::Tick => {
                let window = u64::from(self.rules.memory.merge_window);
                if self.line.as_ref().is_some_and(|line| clock - line.access.clock.0 > window) {
                    self.flush_line();
                }
                let limit = u64::from(RUN_DURATION_LIMIT);
                if self.page.as_ref().is_some_and(|page| clock - page.first >= limit) {
                    self.flush_page();
                }
                self.told.push(Told::Steer(WordKind::Tick, clock));
            }
            _ => {
                self.flush_line();
                self.flush_page();
                self.other(clock, input);
            }
        }
    }

    fn other(&mut self, clock: u64, input: Input) {
        let at = Cycles(clock);
        let told = match input {
            Input::WindowTag(direction, address) => {
                let mask = (1 << self.rules.memory.tag_window_log2) - 1;
                let (source, value) = (TagSource::Window(direction), (address & mask) as u32);
                Told::Event(Event::Tag { clock: at, source, value })
            }
            Input::Mark(value) => {
                Told::Event(Event::Tag { clock: at, source: TagSource::Mark, value })
            }
            Input::Fault(kind, bank) => Told::Event(Event::Fault { clock: at, kind, bank }),
            Input::Overrun(accesses, faults) => Told::Overrun(accesses.into(), faults.into()),
            Input::Start => Told::Steer(WordKind::Start, clock),
            Input::Stop => {
                self.end_slice(clock);
                Told::Steer(WordKind::Stop, clock)
            }
            _ => {
                self.end_slice(clock);
                Told::Steer(WordKind::Change, clock)
            }
        };
        if matches!(input, Input::Start | Input::Change) {
            self.slice = (clock, 0, 0);
        }
        self.told.push(told);
    }

    fn access(&mut self, clock: u64, direction: Direction, address: u64) {
        if self.rules.slices {
            match direction {
                Direction::Read => self.slice.1 += 1,
                Direction::Write => self.slice.2 += 1,
            }
        }
        match self.rules.mode {
            Mode::Line => self.line(clock, direction, address),
            Mode::Page => self.page(clock, direction, address),
            Mode::Frequency => {}
        }
    }

    fn line(&mut self, clock: u64, direction: Direction, address: u64) {
        let unit_log2 = self.rules.unit_log2();
        let unit = address >> unit_log2 << unit_log2;
        let part = 1 << (address - unit >> self.rules.memory.burst_log2());
        let window = u64::from(self.rules.memory.merge_window);
        if let Some(line) = &mut self.line {
            let same = line.access.address.0 == unit && line.access.direction == direction;
            if same && line.parts & part == 0 && clock - line.access.clock.0 <= window {
                line.parts |= part;
                return;
            }
        }
        self.flush_line();
        let access = Access { clock: Cycles(clock), direction, address: PhysAddr(unit) };
        self.line = Some(Line { access, parts: part });
    }

    fn page(&mut self, clock: u64, direction: Direction, address: u64) {
        let address = address >> 12 << 12;
        let counts = match direction {
            Direction::Read => (1, 0),
            Direction::Write => (0, 1),
        };
        if let Some(page) = &mut self.page {
            let full = page.reads == RUN_COUNT_LIMIT || page.writes == RUN_COUNT_LIMIT;
            let age = clock - page.first;
            if page.address == address && !full && age < u64::from(RUN_DURATION_LIMIT) {
                page.reads += counts.0;
                page.writes += counts.1;
                page.duration = age;
                return;
            }
        }
        self.flush_page();
        let (reads, writes) = counts;
        self.page = Some(Page { first: clock, address, reads, writes, duration: 0 });
    }

    fn flush_line(&mut self) {
        let line = self.line.take();
        self.told.extend(line.map(|line| Told::Event(Event::Access(line.access))));
    }

    fn flush_page(&mut self) {
        let Some(page) = self.page.take() else { return };
        self.told.push(Told::Event(Event::Page {
            clock: Cycles(page.first),
            address: PhysAddr(page.address),
            reads: page.reads,
            writes: page.writes,
            duration: page.duration as u32,
        }));
    }

    fn end_slice(&mut self, clock: u64) {
        let (first, reads, writes) = self.slice;
        if reads == 0 && writes == 0 {
            return;
        }
        let length = clock - first;
        self.told.push(Told::Event(Event::Slice {
            clock: Cycles(first),
            code: self.rules.slice_code,
            partial: (length != self.rules.slice_clocks).then_some(Cycles(length)),
            reads,
            writes,
        }));
        self.slice = (clock, 0, 0);
    }
}
