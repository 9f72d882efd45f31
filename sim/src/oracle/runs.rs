//! Groups accesses into runs of accesses to one page, by `docs/format.md`, page mode.

use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};

/// The times at which the card checks whether a run has ended, in addition to each access.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Number of clocks from one tick to the next. The last clock of each period is the tick.
    pub tick_clocks: u64,
    /// Number of clocks of a slice, if there are slices with a known grid.
    pub slice_clocks: Option<u64>,
}

impl Looks {
    /// The last of these times that is not after a clock.
    fn last(&self, clock: u64) -> u64 {
        let tick = ((clock + 1) / self.tick_clocks * self.tick_clocks).saturating_sub(1);
        let slice = self.slice_clocks.map_or(0, |length| clock / length * length);
        tick.max(slice)
    }
}

/// An open run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    page: u64,
    first: u64,
    last: u64,
    reads: u32,
    writes: u32,
}

impl Run {
    /// Begins a run with an access.
    pub fn of(access: &Access) -> Self {
        let clock = access.clock.0;
        let page = access.address.0 >> PAGE_LOG2;
        let mut run = Run { page, first: clock, last: clock, reads: 0, writes: 0 };
        run.join(access);
        run
    }

    /// Adds an access to the run.
    pub fn join(&mut self, access: &Access) {
        self.last = access.clock.0;
        match access.direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
    }

    /// Whether an access belongs to this run.
    pub fn takes(&self, access: &Access, looks: Looks) -> bool {
        let looked = looks.last(access.clock.0).max(self.last);
        self.page == access.address.0 >> PAGE_LOG2
            && self.reads >> RUN_COUNT_LOG2 == 0
            && self.writes >> RUN_COUNT_LOG2 == 0
            && looked < self.first + (1 << RUN_DURATION_LOG2)
    }

    /// The record of the run.
    pub fn record(&self) -> Event {
        Event::Page {
            clock: Cycles(self.first),
            address: PhysAddr(self.page << PAGE_LOG2),
            reads: self.reads,
            writes: self.writes,
            duration: (self.last - self.first) as u32,
        }
    }
}
