//! Derives the line or burst records that a card must send for accesses.

use hmtt_format::{Access, Cycles, Event, MemoryDescription, PhysAddr};

use super::interruptions::Interruptions;

/// Returns the records with granularity `burst`: one for each access, at the burst's first byte.
/// With bursts of 32 bytes, `R 48` becomes `R 40`.
pub fn bursts(
    accesses: &[Access],
    memory: &MemoryDescription,
    interruptions: &Interruptions,
) -> Vec<Event> {
    let record = |access: &Access| {
        interruptions.tag(access).unwrap_or_else(|| aligned(access, memory.burst_log2()))
    };
    accesses.iter().map(record).collect()
}

/// A line record to which further bursts may be added.
#[derive(Clone, Copy)]
struct Open {
    first: u64,
    last: u64,
    line: u64,
    write: bool,
    /// The bursts of the line so far, one bit each.
    seen: u64,
}

/// Returns the records with granularity `line`. A burst is part of the record before it if
/// direction and line are equal, the record does not yet contain the burst, the burst is within the
/// merge window, and nothing else was recorded in between. Example with lines of two bursts of 32
/// bytes: the reads of 40, 60, 80 and 40 become the records 40, 80 and 40.
pub fn lines(
    accesses: &[Access],
    memory: &MemoryDescription,
    interruptions: &Interruptions,
) -> Vec<Event> {
    let burst_log2 = memory.burst_log2();
    let bursts_log2 = u32::from(memory.line_log2.saturating_sub(burst_log2));
    let mut open: Option<Open> = None;
    let mut records = Vec::with_capacity(accesses.len());
    for access in accesses {
        if let Some(tag) = interruptions.tag(access) {
            records.push(tag);
            open = None;
            continue;
        }
        let burst = access.address.0 >> burst_log2 & ((1 << bursts_log2) - 1);
        let write = access.direction.bit() != 0;
        let line = access.address.0 >> memory.line_log2;
        let clock = access.clock.0;
        let joined = open.filter(|open| {
            (open.line, open.write) == (line, write)
                && open.seen >> burst & 1 == 0
                && clock - open.first <= u64::from(memory.merge_window)
                && !interruptions.between(open.last, clock)
        });
        if joined.is_none() {
            records.push(aligned(access, memory.line_log2));
        }
        let before = joined.unwrap_or(Open { first: clock, last: clock, line, write, seen: 0 });
        open = Some(Open { seen: before.seen | 1 << burst, last: clock, ..before });
    }
    records
}

fn aligned(access: &Access, unit_log2: u8) -> Event {
    let address = PhysAddr(access.address.0 >> unit_log2 << unit_log2);
    Event::Access(Access { clock: Cycles(access.clock.0), address, ..*access })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::tests::memory;
    use hmtt_format::{FaultKind, truth::parse_line};

    fn accesses(text: &str) -> Vec<Access> {
        text.split(',').map(|line| parse_line(line).unwrap().unwrap()).collect()
    }

    fn shown(events: &[Event]) -> String {
        let line = |event: &Event| match event {
            Event::Access(access) => access.to_string(),
            other => panic!("{other:?}"),
        };
        events.iter().map(line).collect::<Vec<_>>().join(",")
    }

    fn merged(text: &str) -> String {
        // Bursts have 32 bytes, lines 64 bytes, and the merge window 64 clocks.
        shown(&lines(&accesses(text), &memory(), &Interruptions::default()))
    }

    #[test]
    fn both_bursts_of_a_line_make_one_record_whichever_comes_first() {
        assert_eq!(merged("1 R 40,3 R 60"), "1 R 40");
        assert_eq!(merged("1 R 68,3 R 40"), "1 R 40");
    }

    #[test]
    fn bursts_of_other_lines_or_directions_are_not_merged() {
        assert_eq!(merged("1 R 40,3 R 40"), "1 R 40,3 R 40");
        assert_eq!(merged("1 R 40,3 W 60"), "1 R 40,3 W 40");
        assert_eq!(merged("1 R 40,3 R 80,5 R 60"), "1 R 40,3 R 80,5 R 40");
        assert_eq!(merged("1 R 40,3 R 60,5 R 60"), "1 R 40,5 R 40");
    }

    #[test]
    fn a_fault_in_between_prevents_a_merge() {
        let fault = Event::Fault { clock: Cycles(2), kind: FaultKind::ReadIdle, bank: 0 };
        let interruptions = Interruptions::new(&[fault], &memory());
        let records = lines(&accesses("1 R 40,3 R 60"), &memory(), &interruptions);
        assert_eq!(shown(&records), "1 R 40,3 R 40");
    }

    #[test]
    fn the_merge_window_ends_after_its_last_clock() {
        assert_eq!(merged("1 R 40,65 R 60"), "1 R 40");
        assert_eq!(merged("1 R 40,66 R 60"), "1 R 40,66 R 40");
    }

    #[test]
    fn bursts_are_aligned_and_never_merged() {
        let events = bursts(&accesses("1 R 48,3 R 60"), &memory(), &Interruptions::default());
        assert_eq!(shown(&events), "1 R 40,3 R 60");
    }
}
