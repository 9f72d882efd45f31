//! Derives the page records that a card must send for accesses.

use hmtt_format::config::slice_clocks;
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{RUN_COUNT_LOG2, RUN_DURATION_LOG2};
use hmtt_format::{Access, Cycles, Direction, Event, MemoryDescription, PhysAddr};

use super::interruptions::Interruptions;

/// The clocks at which a card checks the length of a run, in addition to the clocks of accesses.
#[derive(Clone, Copy)]
pub struct Moments {
    tick_clocks: u64,
    slice_clocks: Option<u64>,
}

impl Moments {
    /// Creates the moments: ticks, and ends of time slices if there are slices.
    pub fn new(memory: &MemoryDescription, slice_code: Option<u8>) -> Self {
        let slice = |code| u64::from(slice_clocks(code, memory.tck_ps)).max(1);
        Moments { tick_clocks: memory.tick_clocks.into(), slice_clocks: slice_code.map(slice) }
    }

    /// Returns the last moment up to a clock. A tick or the end of a slice comes before an access
    /// at its clock.
    fn last(&self, clock: u64) -> Option<u64> {
        let tick = ((clock + 1) / self.tick_clocks * self.tick_clocks).checked_sub(1);
        let slice = self.slice_clocks.map(|length| clock / length * length);
        tick.max(slice)
    }
}

/// A run that has not ended.
#[derive(Clone, Copy)]
struct Run {
    page: u64,
    first: u64,
    last: u64,
    reads: u32,
    writes: u32,
}

impl Run {
    fn new(access: &Access) -> Self {
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

    /// Whether an access continues this run.
    fn takes(&self, access: &Access, interruptions: &Interruptions, moments: Moments) -> bool {
        let clock = access.clock.0;
        let looked = moments.last(clock).unwrap_or(0).max(self.last);
        self.page == page(access)
            && self.reads >> RUN_COUNT_LOG2 == 0
            && self.writes >> RUN_COUNT_LOG2 == 0
            && looked < self.first + (1 << RUN_DURATION_LOG2)
            && !interruptions.between(self.last, clock)
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

/// Returns the runs of accesses to one page. A run ends at a tag, mark or fault, or at the limits
/// of its length. Example: a read of 1000 at clock 1, a write of 1fff at clock 4 and a read of 2000
/// become two runs; the first has one READ, one WRITE and a duration of 3 clocks.
pub fn pages(accesses: &[Access], interruptions: &Interruptions, moments: Moments) -> Vec<Event> {
    let mut records = Vec::new();
    let mut open: Option<Run> = None;
    for access in accesses {
        if let Some(tag) = interruptions.tag(access) {
            records.extend(open.take().map(|run| run.record()));
            records.push(tag);
            continue;
        }
        match &mut open {
            Some(run) if run.takes(access, interruptions, moments) => run.join(access),
            open => {
                let ended = open.replace(Run::new(access));
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
    use hmtt_format::event::MarkRegister;
    use hmtt_format::{FaultKind, truth::parse_line};

    fn runs(text: &str, interrupting: &[Event]) -> Vec<(u64, u64, u32, u32, u32)> {
        let moments = Moments::new(&memory(), None);
        let accesses: Vec<_> =
            text.split(',').map(|line| parse_line(line).unwrap().unwrap()).collect();
        pages(&accesses, &Interruptions::new(interrupting, &memory()), moments)
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
        let mark = Event::Mark { clock: Cycles(4), register: MarkRegister(0x60) };
        let records = runs("1 R 1000,4 R 1000,7 R 1000", &[mark]);
        assert_eq!(records, [(1, 0x1000, 2, 0, 3), (7, 0x1000, 1, 0, 0)]);
    }

    /// Counts the runs that two or three reads of a page make, with the default ticks.
    fn cut(clocks: &[u64], slice_code: Option<u8>) -> usize {
        let reads: Vec<Access> = clocks
            .iter()
            .map(|&clock| Access {
                clock: Cycles(clock),
                direction: Direction::Read,
                address: PhysAddr(0),
            })
            .collect();
        pages(&reads, &Interruptions::default(), Moments::new(&memory(), slice_code)).len()
    }

    #[test]
    fn a_run_ends_at_the_first_check_after_its_longest_duration() {
        let (longest, tick) = (1 << RUN_DURATION_LOG2, u64::from(memory().tick_clocks));
        assert_eq!(cut(&[0, longest], None), 1, "no check before that access");
        assert_eq!(cut(&[0, longest + tick - 2], None), 1);
        assert_eq!(
            cut(&[0, longest + tick - 1], None),
            2,
            "a tick comes before the access at its clock"
        );
        assert_eq!(cut(&[0, longest, longest + 1], None), 2, "the access before checked");
        assert_eq!(cut(&[0, longest - 1, longest + 1], None), 1);
        // Slices of 1 us have 100 clocks of 10 ns.
        let slice = longest.next_multiple_of(100);
        assert_eq!(cut(&[0, slice - 1], Some(0)), 1);
        assert_eq!(cut(&[0, slice], Some(0)), 2, "the end of a slice checks too");
    }

    #[test]
    fn a_run_is_cut_when_a_count_is_full() {
        let access = |clock| Access {
            clock: Cycles(clock),
            direction: Direction::Write,
            address: PhysAddr(0),
        };
        let most = 1 << RUN_COUNT_LOG2;
        let many: Vec<_> = (0..=u64::from(most)).map(access).collect();
        let records = pages(&many, &Interruptions::default(), Moments::new(&memory(), None));
        assert_eq!(records.len(), 2);
        assert!(matches!(records[0], Event::Page { writes, .. } if writes == most));
    }
}
