//! Derives the frequency slices that a card must send for accesses.

use std::ops::Range;

use hmtt_format::config::slice_clocks;
use hmtt_format::event::SliceLength;
use hmtt_format::{Access, Cycles, Direction, Event};

/// Clocks after a slice's nominal start or end within which the card may start or stop, since its
/// pipeline has several stages.
const SWITCH_CLOCKS: u64 = 32;

/// Returns the counts per slice without empty slices. `clocks`: length of the recording. `sent`:
/// the card's slices, which decide where exactly the first slice starts and the last one ends.
pub fn slices(
    accesses: &[Access],
    code: u8,
    tck_ps: u32,
    clocks: u64,
    sent: &[Event],
) -> Vec<Event> {
    let length = u64::from(slice_clocks(code, tck_ps)).max(1);
    let mut counts: Vec<(u64, u32, u32)> = Vec::new();
    for access in accesses {
        let start = access.clock.0 / length * length;
        if counts.last().is_none_or(|(last, ..)| *last != start) {
            counts.push((start, 0, 0));
        }
        if let Some((_, reads, writes)) = counts.last_mut() {
            match access.direction {
                Direction::Read => *reads += 1,
                Direction::Write => *writes += 1,
            }
        }
    }
    let record = |(at, (start, reads, writes)): (usize, (u64, u32, u32))| {
        let due = start..start + length;
        let (clock, partial) = sent
            .get(at)
            .and_then(|event| switched(event, due, clocks))
            .unwrap_or((start, (start + length > clocks).then(|| Cycles(clocks - start))));
        let length = SliceLength::of_record(partial);
        Event::Slice { clock: Cycles(clock), code: Some(code), length, reads, writes }
    };
    counts.into_iter().enumerate().map(record).collect()
}

/// Returns start and length of a slice as sent, if the recording's start or end makes them
/// uncertain and they are within [`SWITCH_CLOCKS`].
fn switched(sent: &Event, due: Range<u64>, clocks: u64) -> Option<(u64, Option<Cycles>)> {
    let Event::Slice { clock, length, .. } = sent else { return None };
    let partial = length.clocks();
    let end = clock.0 + partial.map_or(due.end - due.start, |length| length.0);
    let starts = clock.0 == due.start || due.start == 0 && clock.0 <= SWITCH_CLOCKS;
    let stop = clocks..=clocks + SWITCH_CLOCKS;
    let ends = end == due.end.min(clocks) || stop.contains(&end) && end <= due.end;
    (starts && ends).then_some((clock.0, partial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::truth::parse_line;

    fn slice(clock: u64, partial: Option<u64>, reads: u32, writes: u32) -> Event {
        let length = SliceLength::of_record(partial.map(Cycles));
        Event::Slice { clock: Cycles(clock), code: Some(0), length, reads, writes }
    }

    #[test]
    fn slices_count_from_clock_zero_and_empty_ones_are_left_out() {
        let text = ["0 R 0", "99 W 0", "100 W 0", "299 R 0", "850 R 0"];
        let accesses: Vec<_> = text.iter().map(|line| parse_line(line).unwrap().unwrap()).collect();
        // Slices of 1 us have 100 clocks of 10 ns.
        let expected = [
            slice(0, None, 1, 1),
            slice(100, None, 0, 1),
            slice(200, None, 1, 0),
            slice(800, Some(51), 1, 0),
        ];
        assert_eq!(slices(&accesses, 0, 10_000, 851, &[]), expected);
    }

    #[test]
    fn the_card_may_start_and_stop_some_clocks_late() {
        let accesses = [parse_line("50 R 0").unwrap().unwrap()];
        let expected_slices = |clocks, sent| slices(&accesses, 0, 10_000, clocks, &[sent]);
        for sent in [slice(0, None, 1, 0), slice(3, Some(97), 1, 0), slice(2, Some(96), 1, 0)] {
            assert_eq!(expected_slices(98, sent), [sent]);
        }
        for sent in [slice(0, None, 1, 0), slice(40, Some(60), 1, 0), slice(0, Some(50), 1, 0)] {
            assert_ne!(expected_slices(60, sent), [sent]);
        }
    }
}
