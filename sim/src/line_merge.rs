//! Merges bursts into line records by the rules of `docs/format.md`, line mode: consecutive bursts
//! of one line are one record.
//!
//! The merger does not model other records. A caller that records a tag, mark or fault in between
//! closes the open record first.

use hmtt_format::{Access, MemoryDescription, PhysAddr};

/// A record to which further bursts may be added.
#[derive(Clone, Copy)]
struct Open {
    record: Access,
    seen: u64,
}

/// Merges the bursts of one trace.
#[derive(Clone)]
pub struct LineMerge {
    line_log2: u8,
    burst_log2: u8,
    window: u64,
    open: Option<Open>,
}

impl LineMerge {
    /// Creates a merger for accesses to one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        LineMerge {
            line_log2: memory.line_log2,
            burst_log2: memory.burst_log2(),
            window: memory.merge_window.into(),
            open: None,
        }
    }

    /// Adds a burst. If the burst cannot be merged into the open record, returns that record and
    /// opens another one. Example with lines of two bursts of 32 bytes: for reads at 0x40, 0x60 and
    /// 0x80 it returns `None`, `None` and the record of the line 0x40.
    pub fn join(&mut self, access: Access) -> Option<Access> {
        let line = PhysAddr(access.address.0 >> self.line_log2 << self.line_log2);
        let burst = 1 << ((access.address.0 - line.0) >> self.burst_log2);
        let joins = |open: &&mut Open| {
            open.record.address == line
                && open.record.direction == access.direction
                && open.seen & burst == 0
                && access.clock.0 - open.record.clock.0 <= self.window
        };
        if let Some(open) = self.open.as_mut().filter(joins) {
            open.seen |= burst;
            return None;
        }
        let before = self.close();
        self.open = Some(Open { record: Access { address: line, ..access }, seen: burst });
        before
    }

    /// Closes and returns the open record.
    pub fn close(&mut self) -> Option<Access> {
        self.open.take().map(|open| open.record)
    }
}
