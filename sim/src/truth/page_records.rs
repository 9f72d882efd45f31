//! Accesses to the page records a card must make of them.

use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};
use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr};

use super::interruptions::Interruptions;

/// A run that goes on.
#[derive(Clone, Copy)]
struct Run {
    page: u64,
    first: u64,
    last: u64,
    reads: u32,
    writes: u32,
}

impl Run {
    fn of(access: &Access) -> Self {
        let clock = access.clock.0;
        let mut run = Run { page: page(access), first: clock, last: clock, reads: 0, writes: 0 };
        run.join(access);
        run
    }

    fn join(&mut self, access: &Access) {
        self.last = access.clock.0;
        match access.direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
    }

    /// Whether an access goes on with this run.
    fn takes(&self, access: &Access, interruptions: &Interruptions) -> bool {
        self.page == page(access)
            && self.reads >> RUN_COUNT_LOG2 == 0
            && self.writes >> RUN_COUNT_LOG2 == 0
            && self.last - self.first < 1 << RUN_DURATION_LOG2
            && !interruptions.between(self.last, access.clock.0)
    }

    fn record(&self) -> Event {
        Event::Page {
            clock: Cycles(self.first),
            address: PhysAddr(self.page << PAGE_LOG2),
            reads: self.reads,
            writes: self.writes,
            duration: (self.last - self.first) as u32,
        }
    }
}

fn page(access: &Access) -> u64 {
    access.address.0 >> PAGE_LOG2
}

/// Runs of accesses to one page. Tags, marks and faults end a run; so do the limits of a record.
pub fn pages(accesses: &[Access], interruptions: &Interruptions) -> Vec<Event> {
    let mut records = Vec::new();
    let mut open: Option<Run> = None;
    for access in accesses {
        if let Some(tag) = interruptions.tag(access) {
            records.extend(open.take().map(|run| run.record()));
            records.push(tag);
            continue;
        }
        match &mut open {
            Some(run) if run.takes(access, interruptions) => run.join(access),
            open => {
                let ended = open.replace(Run::of(access));
                records.extend(ended.map(|run| run.record()));
            }
        }
    }
    records.extend(open.map(|run| run.record()));
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::tests::memory;
    use hmtt_format::record::TagSource;
    use hmtt_format::{FaultKind, truth::parse_line};

    fn runs(text: &str, interrupting: &[Event]) -> Vec<(u64, u64, u32, u32, u32)> {
        let accesses: Vec<_> =
            text.split(',').map(|line| parse_line(line).unwrap().unwrap()).collect();
        pages(&accesses, &Interruptions::new(interrupting, &memory()))
            .into_iter()
            .map(|event| match event {
                Event::Page { clock, address, reads, writes, duration } => {
                    (clock.0, address.0, reads, writes, duration)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_run_lasts_until_another_page() {
        assert_eq!(
            runs("1 R 1000,4 W 1fff,9 R 2000,12 R 1000", &[]),
            [(1, 0x1000, 1, 1, 3), (9, 0x2000, 1, 0, 0), (12, 0x1000, 1, 0, 0)]
        );
    }

    #[test]
    fn a_fault_or_mark_in_between_ends_a_run() {
        let fault = Event::Fault { clock: Cycles(3), kind: FaultKind::ReadIdle, bank: 0 };
        assert_eq!(runs("1 R 1000,4 R 1000", &[fault]).len(), 2);
        let mark = Event::Tag { clock: Cycles(4), source: TagSource::Mark, value: 0x60 };
        let found = runs("1 R 1000,4 R 1000,7 R 1000", &[mark]);
        assert_eq!(found, [(1, 0x1000, 2, 0, 3), (7, 0x1000, 1, 0, 0)]);
    }

    #[test]
    fn a_run_is_cut_at_its_limits() {
        let late = u64::from(RUN_DURATION_LOG2);
        assert_eq!(runs(&format!("1 R 0,{} R 0", late), &[]).len(), 1);
        assert_eq!(runs(&format!("1 R 0,{} R 0", late + 1), &[]).len(), 2);
        let access = |clock| Access {
            clock: Cycles(clock),
            direction: Direction::Write,
            address: PhysAddr(0),
        };
        let many: Vec<_> = (0..=u64::from(RUN_COUNT_LOG2)).map(access).collect();
        let records = pages(&many, &Interruptions::default());
        assert_eq!(records.len(), 2);
        assert!(matches!(records[0], Event::Page { writes: RUN_COUNT_LOG2, .. }));
    }
}
