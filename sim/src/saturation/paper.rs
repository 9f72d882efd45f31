//! Computes what a card of the published design would have lost: records of 64 bits, one for each
//! line, through a FIFO of 128 KB, over the same link.
//!
//! All assumptions favour the published design: no syncs, no tags or marks, bursts of a line
//! merged, and a link that never waits for a frame to fill.

use hmtt_format::Event;
use hmtt_format::frame::MAX_WORDS;

use super::budget::WIRE_BYTES;

/// Number of records in the FIFO: 128 KB of 8 bytes.
pub const RECORDS: u64 = 128 * 1024 / 8;

/// The FIFO. Its unit of time is 1 ps divided by the number of records in a frame, so sending a
/// record takes an integer number of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperFifo {
    tck_ps: u64,
    /// Duration of a full frame on the wire in picoseconds.
    frame_ps: u64,
    /// Time in these units until the link has sent all records in the FIFO.
    backlog: u64,
    clock: u64,
    /// Number of records produced.
    pub produced: u64,
    /// Number of records lost.
    pub lost: u64,
    /// Clock of the first lost record.
    pub first_lost: Option<u64>,
}

impl PaperFifo {
    /// Creates an empty FIFO from the periods of the DDR clock and of the TX clock in picoseconds.
    pub fn new(tck_ps: u32, tx_period_ps: u32) -> Self {
        let frame_ps = u64::from(WIRE_BYTES) * u64::from(tx_period_ps);
        PaperFifo { tck_ps: tck_ps.into(), frame_ps, ..PaperFifo::default() }
    }

    /// Takes a record.
    pub fn take(&mut self, event: &Event) {
        let Event::Access(access) = event else { return };
        let clock = access.clock.0;
        let passed = (clock - self.clock) * self.tck_ps * u64::from(MAX_WORDS);
        self.clock = clock;
        self.backlog = self.backlog.saturating_sub(passed);
        self.produced += 1;
        if self.backlog + self.frame_ps > RECORDS * self.frame_ps {
            self.lost += 1;
            self.first_lost.get_or_insert(clock);
        } else {
            self.backlog += self.frame_ps;
        }
    }

    /// Share of lost records in percent.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.produced.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::{Access, Cycles, Direction, PhysAddr};

    fn after_records(distance: u64, count: u64) -> PaperFifo {
        let mut fifo = PaperFifo::new(10_000, 8_000);
        for at in 0..count {
            let (clock, direction) = (Cycles(at * distance), Direction::Read);
            fifo.take(&Event::Access(Access { clock, direction, address: PhysAddr(0) }));
        }
        fifo
    }

    #[test]
    fn a_slow_stream_loses_nothing_and_a_fast_one_what_the_link_cannot_take() {
        // A record leaves the FIFO every 12304 ns / 187 = 65.8 ns.
        assert_eq!(after_records(7, 100_000).lost, 0);
        let fast = after_records(4, 1_000_000);
        assert!((fast.lost_percent() - 100.0 * (1.0 - 40.0 / 65.797)).abs() < 1.7);
        // The FIFO is full after 16384 / (1 - 40 / 65.797) records, which are 4 clocks apart.
        assert!((fast.first_lost.unwrap() as f64 - 167_146.0).abs() < 10.0, "{fast:?}");
    }
}
