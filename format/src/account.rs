//! Compares the bursts that the card counted with the bursts that its records represent.
//!
//! Reports count READ and WRITE bursts before bursts are merged, including accesses to the tag
//! window and to registers. Records represent bursts too: a record of a burst, tag, page run or
//! slice represents the number that it states. A record of a line represents at least one burst,
//! and at most all bursts of the line. So both numbers can be compared from the report at a start
//! to the first end frame, whatever was set in between. Losses widen the range: the card does not
//! count a burst that its event queue lost, and may count several bursts for a lost record of a
//! line.

use crate::config::Mode;
use crate::info::Report;
use crate::tally::Tally;

/// The two counts of bursts, from a start to a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Bursts that the card counted.
    pub card: u64,
    /// Fewest bursts that the records represent.
    pub least: u64,
    /// Most bursts that the records represent, including lost records.
    pub most: u64,
    /// Bursts of the slices and tags; `None` unless slices were on all the time and no record was
    /// lost.
    pub sliced: Option<u64>,
}

impl Balance {
    /// Whether the two counts agree.
    pub fn holds(&self) -> bool {
        let in_records = self.least <= self.card && self.card <= self.most;
        in_records && self.sliced.is_none_or(|sliced| sliced == self.card)
    }
}

/// Counts the bursts of one card's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    open: Option<Open>,
    /// Whether the previous frame was an end frame.
    ended: bool,
}

/// The counts of a capture whose start was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    /// Bursts that the card had counted before the start.
    before: u64,
    /// log2 of the bytes of the unit of burst records.
    burst_log2: u8,
    /// log2 of the bursts of a line.
    line_bursts_log2: u8,
    least: u64,
    most: u64,
    sliced: Option<u64>,
}

impl Account {
    /// Counts the records of a data frame.
    pub fn data(&mut self, tally: &Tally) {
        self.ended = false;
        let Some(open) = &mut self.open else { return };
        let units = tally.accesses.saturating_sub(tally.bursts);
        let each = tally.sync.unit_log2.saturating_sub(open.burst_log2);
        open.least = open.least.saturating_add(tally.accesses);
        let most = units.saturating_mul(1 << each.min(12)).saturating_add(tally.bursts);
        open.most = open.most.saturating_add(most);
        open.sliced = open.sliced.map(|sliced| sliced.saturating_add(tally.sliced));
    }

    /// Counts a gap. The content of missing or damaged frames is unknown, and may include a change
    /// of settings.
    pub fn gap(&mut self, accesses: u64, records: u32, frames: u64) {
        if frames != 0 {
            self.open = None;
        }
        let Some(open) = &mut self.open else { return };
        if accesses != 0 || records != 0 {
            open.most =
                open.most.saturating_add(accesses.saturating_mul(1 << open.line_bursts_log2));
            open.sliced = None;
        }
    }

    /// Counts a report. At the first end frame after a start, it returns the two counts.
    pub fn report(&mut self, report: &Report, end: bool) -> Option<Balance> {
        let bursts = report.reads.wrapping_add(report.writes);
        let ended = core::mem::replace(&mut self.ended, end);
        if end {
            let Open { before, least, most, sliced, .. } = self.open.take()?;
            return Some(Balance { card: bursts.wrapping_sub(before), least, most, sliced });
        }
        if self.open.is_none() && (ended || bursts == 0) {
            let burst_log2 = report.memory.burst_log2();
            let line_bursts_log2 = report.memory.line_log2.saturating_sub(burst_log2).min(12);
            let (before, sliced) = (bursts, Some(0));
            self.open =
                Some(Open { before, burst_log2, line_bursts_log2, least: 0, most: 0, sliced });
        }
        let open = self.open.as_mut()?;
        if !report.frequency && report.mode != Mode::Frequency {
            open.sliced = None;
        }
        if !report.frequency && report.mode == Mode::Analysis {
            // In analysis mode bursts have no records.
            open.most = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_map::{Axis, MapBuilder};
    use crate::block::UNIT_NONE;
    use crate::command::Generation;
    use crate::config::Granularity;
    use crate::event::{Event, SliceLength};
    use crate::frame::Sync;
    use crate::memory::MemoryDescription;
    use crate::units::{Access, Cycles, Direction, PhysAddr};

    fn report(mode: Mode, frequency: bool, bursts: u64) -> Report {
        let mut map = MapBuilder::default();
        (0..11).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
        (0..2).for_each(|bit| map.bit(Axis::Bank, bit, 1 << (14 + bit)).unwrap());
        (0..13).for_each(|bit| map.bit(Axis::Row, bit, 1 << (16 + bit)).unwrap());
        let map = map.build().unwrap();
        let memory = MemoryDescription::new(Generation::Ddr1, map, 8, 4, 10_000).unwrap();
        Report {
            version: crate::FORMAT_VERSION,
            running: true,
            mode,
            frequency,
            granularity: Granularity::Line,
            slice_code: 0,
            threshold: 187,
            tag_window: None,
            reads: bursts,
            writes: 0,
            faults: 0,
            tags: 0,
            unreported: 0,
            burst_length: Some(4),
            digest: 0,
            memory,
        }
    }

    fn tally(unit_log2: u8, events: &[Event]) -> Tally {
        let mut tally = Tally::new(Sync { unit_log2, ..Sync::default() });
        events.iter().for_each(|event| tally.note(event));
        tally
    }

    fn access() -> Event {
        let (direction, address) = (Direction::Read, PhysAddr(64));
        Event::Access(Access { clock: Cycles(1), direction, address })
    }

    fn tag() -> Event {
        Event::Tag { clock: Cycles(1), direction: Direction::Read, offset: 0, address: None }
    }

    fn slice(reads: u32) -> Event {
        let length = SliceLength::of_record(None);
        Event::Slice { clock: Cycles(0), code: Some(0), length, reads, writes: 0 }
    }

    /// Returns both counts of one frame, if the card counted `bursts`.
    fn balance(mode: Mode, slices: bool, events: &[Event], bursts: u64) -> Balance {
        let mut account = Account::default();
        assert_eq!(account.report(&report(mode, slices, 0), false), None);
        let unit = if mode == Mode::Line { 6 } else { UNIT_NONE };
        account.data(&tally(unit, events));
        account.report(&report(mode, slices, bursts), true).expect("a balance")
    }

    #[test]
    fn a_line_is_one_burst_up_to_all_of_it() {
        let holds = |bursts| balance(Mode::Line, false, &[access(), access()], bursts).holds();
        assert_eq!([1, 2, 4, 5].map(holds), [false, true, true, false]);
    }

    #[test]
    fn slices_and_tags_are_all_bursts() {
        let holds = |mode, counted| balance(mode, true, &[slice(counted), tag()], 4).holds();
        assert_eq!([2, 3, 4].map(|counted| holds(Mode::Frequency, counted)), [false, true, false]);
        // With records of lines, the counts also differ if the slice counts the tag too.
        let lines = |counted| {
            balance(Mode::Line, true, &[access(), access(), slice(counted), tag()], 4).holds()
        };
        assert_eq!([3, 4].map(lines), [true, false]);
    }

    #[test]
    fn losses_widen_the_range_and_missing_frames_leave_nothing_to_compare() {
        let mut account = Account::default();
        account.report(&report(Mode::Line, true, 0), false);
        account.data(&tally(6, &[access()]));
        account.gap(3, 3, 0);
        let most = account.report(&report(Mode::Line, true, 8), true).unwrap();
        assert!(most.holds() && most == Balance { card: 8, least: 1, most: 8, sliced: None });
        account.report(&report(Mode::Line, false, 8), false);
        account.gap(0, 0, 1);
        assert_eq!(account.report(&report(Mode::Line, false, 99), true), None);
    }

    #[test]
    fn a_capture_counts_from_its_start() {
        let mut account = Account::default();
        // The first report is not at the start of a capture. Bursts may be counted in it whose
        // records follow later, so there is nothing to compare.
        account.report(&report(Mode::Line, false, 70), false);
        account.data(&tally(6, &[access()]));
        assert_eq!(account.report(&report(Mode::Line, false, 75), true), None);
        account.report(&report(Mode::Line, false, 75), false);
        account.data(&tally(6, &[access()]));
        let balance = account.report(&report(Mode::Line, false, 77), true).unwrap();
        assert!(balance.holds() && balance.card == 2);
        assert_eq!(account.report(&report(Mode::Line, false, 77), true), None);
    }

    #[test]
    fn the_analysis_alone_records_no_burst() {
        assert!(balance(Mode::Analysis, false, &[tag()], 1000).holds());
        assert!(!balance(Mode::Analysis, false, &[tag(), tag()], 1).holds());
    }
}
