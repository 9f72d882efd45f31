//! Writes rows as 6-byte records, and counts the rows and values that the format cannot represent.

use std::io::Write;

use hmtt_format::{Access, Direction, Event};

use super::{EMPTY_CLOCKS, LINE_BITS, LINE_LOG2, MmioHole, Record};
use crate::identity::CardId;
use crate::table::{Entry, LeftOut, Row, TableError, Writer};

/// Maximum number of empty records for one pause. They take 100 MB, and stand for 43 s of DDR-200.
/// Longer pauses are shortened and counted.
const MAX_EMPTY_RECORDS: u64 = 1 << 24;
/// Number that is added to the sequence number where accesses are missing. It is half the range of
/// sequence numbers, so that a reader cannot take a break for a few lost records.
const BREAK: u8 = 128;

/// A writer of 6-byte records.
pub struct Hmtt6Writer<W> {
    output: W,
    hole: MmioHole,
    sequence: u8,
    /// Clock of the last record; `None` before the first and after a restart.
    clock: Option<u64>,
    /// Whether the last access was written one clock late, so that `clock` is one more than the
    /// clock of this access.
    is_ahead: bool,
    /// Whether accesses are missing before the next record.
    is_broken: bool,
    counts: Counts,
}

/// Counts of the rows and values that the records do not represent.
#[derive(Default)]
struct Counts {
    /// Rows of other kinds, by kind.
    others: Vec<(&'static str, u64)>,
    /// Accesses whose line number does not fit, or that are in the hole.
    out_of_range: u64,
    /// Accesses whose offset within their line was dropped.
    within_line: u64,
    /// Accesses that were written one clock late.
    moved: u64,
    /// Pauses that were shortened.
    cut: u64,
    /// Accesses with a lower clock than the access before.
    backward: u64,
    /// Gaps and restarts, which are stored as breaks only.
    breaks: u64,
    /// Rows of other cards than the first, whose card is not stored.
    captures: u64,
}

impl<W: Write> Hmtt6Writer<W> {
    /// Starts a file.
    pub fn new(output: W, hole: MmioHole) -> Self {
        Hmtt6Writer {
            output,
            hole,
            sequence: 0,
            clock: None,
            is_ahead: false,
            is_broken: false,
            counts: Counts::default(),
        }
    }

    fn record(&mut self, duration: u8, read: bool, line: u32) -> std::io::Result<()> {
        let record = Record { sequence: self.sequence, duration, read, line };
        self.sequence = self.sequence.wrapping_add(1);
        self.output.write_all(&record.encode())
    }

    fn access(&mut self, access: Access) -> std::io::Result<()> {
        let line = self.hole.to_card(access.address.0).map(|address| address >> LINE_LOG2);
        let line =
            line.and_then(|line| u32::try_from(line).ok()).filter(|line| line >> LINE_BITS == 0);
        let Some(line) = line else {
            self.counts.out_of_range += 1;
            self.is_broken = true;
            return Ok(());
        };
        self.counts.within_line += u64::from(access.address.0 & ((1 << LINE_LOG2) - 1) != 0);
        if std::mem::take(&mut self.is_broken) {
            self.sequence = self.sequence.wrapping_add(BREAK);
        }
        let duration = self.pause(access.clock.0)?;
        let is_read = access.direction == Direction::Read;
        // An access to line 0 without a pause would be read as an empty record. So it is written
        // one clock late, and the next difference is one less.
        if line == 0 && duration == 0 {
            self.counts.moved += 1;
            (self.clock, self.is_ahead) = (Some(access.clock.0.saturating_add(1)), true);
            return self.record(1, is_read, line);
        }
        self.record(duration, is_read, line)
    }

    /// Writes empty records up to `clock`, and returns the clocks that remain for the next record.
    /// A pause of 600 clocks becomes two empty records, and 88 clocks remain.
    fn pause(&mut self, clock: u64) -> std::io::Result<u8> {
        let before = self.clock.unwrap_or(clock);
        let at_moved = self.is_ahead && clock.checked_add(1) == Some(before);
        if !at_moved {
            self.counts.backward += u64::from(clock < before);
            (self.clock, self.is_ahead) = (Some(clock), false);
        }
        let pause = clock.saturating_sub(before);
        let empty = pause / EMPTY_CLOCKS;
        self.counts.cut += u64::from(empty > MAX_EMPTY_RECORDS);
        for _ in 0..empty.min(MAX_EMPTY_RECORDS) {
            self.record(0, false, 0)?;
        }
        Ok((pause % EMPTY_CLOCKS) as u8)
    }

    /// Counts a row of another kind.
    fn leave_out(&mut self, kind: &'static str) {
        let others = &mut self.counts.others;
        match others.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => others.push((kind, 1)),
        }
    }
}

impl<W: Write> Writer for Hmtt6Writer<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        self.counts.captures += u64::from(row.card != CardId(0));
        if let Some(access) = row.entry.access() {
            self.access(access)?;
        }
        match row.entry {
            Entry::Event(Event::Access(_)) => {}
            Entry::Gap(_) => {
                self.is_broken = true;
                self.counts.breaks += 1;
            }
            Entry::Restart => {
                (self.is_broken, self.clock) = (true, None);
                self.counts.breaks += 1;
            }
            other => self.leave_out(other.kind()),
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        let Counts {
            mut others,
            out_of_range,
            within_line,
            moved,
            cut,
            backward,
            breaks,
            captures,
        } = self.counts;
        others.extend([
            ("accesses beyond the range of addresses", out_of_range),
            ("offsets within a line of 64 bytes", within_line),
            ("gaps and restarts, but for a break in the sequence numbers", breaks),
            ("accesses to line 0 at their clock, one clock late instead", moved),
            ("pauses beyond 2^32 clocks, cut there", cut),
            ("steps back in time", backward),
            ("rows' cards", captures),
        ]);
        Ok(LeftOut(others))
    }
}
