//! Accesses to runs of accesses to one page: `docs/format.md`, page mode.

use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};

/// When the card looks at a run besides when an access joins it.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Clocks from one tick to the next; the last of each is the tick.
    pub tick_clocks: u64,
    /// Clocks of a slice, where there are slices whose grid is known.
    pub slice_clocks: Option<u64>,
}

impl Looks {
    /// The last one up to a clock.
    fn last(&self, clock: u64) -> u64 {
        let tick = ((clock + 1) / self.tick_clocks * self.tick_clocks).saturating_sub(1);
        let slice = self.slice_clocks.map_or(0, |length| clock / length * length);
        tick.max(slice)
    }
}

/// A run that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    page: u64,
    first: u64,
    last: u64,
    reads: u32,
    writes: u32,
}

impl Run {
    /// A run of one access.
    pub fn of(access: &Access) -> Self {
        let clock = access.clock.0;
        let page = access.address.0 >> PAGE_LOG2;
        let mut run = Run { page, first: clock, last: clock, reads: 0, writes: 0 };
        run.join(access);
        run
    }

    /// Takes an access.
    pub fn join(&mut self, access: &Access) {
        self.last = access.clock.0;
        match access.direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
    }

    /// Whether an access goes on with this run.
    pub fn takes(&self, access: &Access, looks: Looks) -> bool {
        let looked = looks.last(access.clock.0).max(self.last);
        self.page == access.address.0 >> PAGE_LOG2
            && self.reads >> RUN_COUNT_LOG2 == 0
            && self.writes >> RUN_COUNT_LOG2 == 0
            && looked < self.first + (1 << RUN_DURATION_LOG2)
    }

    /// Its record.
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
