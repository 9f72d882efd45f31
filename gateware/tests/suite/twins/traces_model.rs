//! Models the traces in plain Rust: derives from items the records that must be passed on, in
//! order.

use gateware::record::RecordKind;
use hmtt_format::MemoryDescription;
use hmtt_format::config::Mode;
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};

/// An item.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    Access(bool, u64),
    Mark(u64),
    Fault(u64),
    Overrun(u64),
    Time,
}

/// Settings that do not change during a test.
#[derive(Clone)]
pub struct Rules {
    pub memory: MemoryDescription,
    pub mode: Mode,
    pub burst: bool,
    /// Base of the tag window, if it is on.
    pub window: Option<u64>,
}

/// A record: its clock, and for an access or a page the unit's number, for others their value.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedRecord {
    pub kind: RecordKind,
    pub clock: u64,
    pub write: bool,
    pub number: u64,
    pub counts: [u64; 2],
    pub duration: u64,
    parts: u64,
}

impl PassedRecord {
    pub fn new(kind: RecordKind, clock: u64, write: bool, number: u64) -> Self {
        let counts = [u64::from(!write), u64::from(write)];
        Self { kind, clock, write, number, counts, duration: 0, parts: 0 }
    }

    /// Returns the record without fields that its kind does not have.
    pub fn plain(mut self) -> Self {
        self.parts = 0;
        if self.kind != RecordKind::Page {
            (self.counts, self.duration) = ([0; 2], 0);
            if matches!(self.kind, RecordKind::Tag | RecordKind::Mark) {
                self.number &= 0xffff_ffff;
            }
            self.write &= matches!(self.kind, RecordKind::Access | RecordKind::Tag);
        } else {
            self.write = false;
        }
        self
    }
}

/// The model. [`Model::passed`] is the result.
pub struct Model {
    rules: Rules,
    held: Option<PassedRecord>,
    /// Clock of the last item.
    clock: u64,
    /// Clock from which time is counted: that of the last record, or of the last restart.
    pub since: u64,
    pub passed: Vec<PassedRecord>,
}

impl Model {
    pub fn new(rules: Rules) -> Self {
        Self { rules, held: None, clock: 0, since: 0, passed: Vec::new() }
    }

    pub fn take(&mut self, clock: u64, input: Input, running: bool) {
        let before = std::mem::replace(&mut self.clock, clock);
        let memory = &self.rules.memory;
        let window = memory.tag_window_log2;
        let other = match input {
            _ if !running => return,
            Input::Access(write, address) => match self.rules.window {
                Some(base) if base >> window == address >> window => {
                    let offset = address & ((1 << window) - 1);
                    PassedRecord::new(RecordKind::Tag, clock, write, offset)
                }
                _ => return self.access(before, write, address),
            },
            Input::Mark(value) => PassedRecord::new(RecordKind::Mark, clock, false, value),
            Input::Fault(value) => PassedRecord::new(RecordKind::Fault, clock, false, value),
            Input::Overrun(value) => PassedRecord::new(RecordKind::Overrun, clock, false, value),
            Input::Time => return,
        };
        self.hold(other);
    }

    fn access(&mut self, before: u64, write: bool, address: u64) {
        let (memory, clock) = (&self.rules.memory, self.clock);
        let line_log2 = if self.rules.burst { memory.burst_log2() } else { memory.line_log2 };
        let (kind, unit_log2) = match self.rules.mode {
            Mode::Line => (RecordKind::Access, line_log2),
            Mode::Page => (RecordKind::Page, PAGE_LOG2),
            _ => return,
        };
        let unit = address >> unit_log2;
        let burst = (address - (unit << unit_log2)) >> memory.burst_log2();
        let part = if kind == RecordKind::Access { 1 << burst } else { 0 };
        let window = u64::from(memory.merge_window);
        if let Some(held) =
            self.held.as_mut().filter(|held| (held.kind, held.number) == (kind, unit))
        {
            let joins = match kind {
                RecordKind::Page => {
                    held.counts.iter().all(|count| count >> RUN_COUNT_LOG2 == 0)
                        && before - held.clock < 1 << RUN_DURATION_LOG2
                }
                _ => held.write == write && held.parts & part == 0 && clock - held.clock <= window,
            };
            if joins {
                held.parts |= part;
                held.counts[usize::from(write)] += 1;
                held.duration = clock - held.clock;
                return;
            }
        }
        self.hold(PassedRecord { parts: part, ..PassedRecord::new(kind, clock, write, unit) });
    }

    fn hold(&mut self, passed: PassedRecord) {
        self.flush();
        self.since = passed.clock;
        self.held = Some(passed);
    }

    /// Whether nothing can be added to the waiting record.
    pub fn stale(&self) -> Option<bool> {
        let window = u64::from(self.rules.memory.merge_window);
        self.held.as_ref().map(|held| match held.kind {
            RecordKind::Access => self.clock - held.clock > window,
            RecordKind::Page => self.clock - held.clock >= 1 << RUN_DURATION_LOG2,
            _ => true,
        })
    }

    pub fn flush(&mut self) {
        self.passed.extend(self.held.take().map(PassedRecord::plain));
    }
}
