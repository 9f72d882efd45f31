//! Writes accesses as requests, for simulators of memories. These files hold nothing else, and are not read back.
//!
//! | simulator | a line |
//! |---|---|
//! | Ramulator 2, `LoadStoreTrace` | `LD 0xADDRESS` or `ST 0xADDRESS` |
//! | DRAMsim3, trace-driven | `0xADDRESS READ CLOCK` or `0xADDRESS WRITE CLOCK`, the clock in decimal |
//!
//! After a restart of the card its clocks continue after the last one, as DRAMsim3 needs it.

use std::io::{self, Write};

use hmtt_format::{Direction, Event};

use super::{Entry, LeftOut, Row, TableError, Writer};
use crate::identity::CardId;

/// Bytes of a cache line, of which there is a request for each.
pub const LINE_BYTES: u64 = 64;

/// A simulator of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulator {
    /// Ramulator 2. It reads addresses below 2^63, and no times.
    Ramulator,
    /// DRAMsim3.
    Dramsim3,
}

/// An access by a simulator of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Clock of the memory at which it is made.
    pub clock: u64,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Its address, in bytes.
    pub address: u64,
}

impl Simulator {
    /// Writes a request. Returns whether the simulator can read its address; if not, nothing is written.
    ///
    /// # Errors
    /// The error of writing.
    pub fn write(self, request: Request, output: &mut impl Write) -> io::Result<bool> {
        let Request { clock, direction, address } = request;
        let is_write = direction == Direction::Write;
        match self {
            Simulator::Ramulator if address > i64::MAX as u64 => return Ok(false),
            Simulator::Ramulator => {
                writeln!(output, "{} {address:#x}", if is_write { "ST" } else { "LD" })?;
            }
            Simulator::Dramsim3 => {
                let direction = if is_write { "WRITE" } else { "READ" };
                writeln!(output, "{address:#x} {direction} {clock}")?;
            }
        }
        Ok(true)
    }
}

/// A writer of the requests of a trace.
pub struct RequestWriter<W> {
    output: W,
    simulator: Simulator,
    /// Card of the last access.
    card: Option<CardId>,
    /// What is added to clocks, and the clock of the last request.
    base: u64,
    last: u64,
    backward: u64,
    out_of_range: u64,
    cards: u64,
    others: Vec<(&'static str, u64)>,
}

impl<W: Write> RequestWriter<W> {
    /// Starts a file.
    pub fn new(output: W, simulator: Simulator) -> Self {
        RequestWriter {
            output,
            simulator,
            card: None,
            base: 0,
            last: 0,
            backward: 0,
            out_of_range: 0,
            cards: 0,
            others: Vec::new(),
        }
    }

    fn leave_out(&mut self, kind: &'static str) {
        match self.others.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.others.push((kind, 1)),
        }
    }
}

impl<W: Write> Writer for RequestWriter<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        if row.entry == Entry::Restart {
            self.base = self.last.saturating_add(1);
        }
        let Some(access) = row.entry.access() else {
            self.leave_out(row.entry.kind());
            return Ok(());
        };
        if !matches!(row.entry, Entry::Event(Event::Access(_))) {
            self.leave_out(row.entry.kind());
        }
        if *self.card.get_or_insert(row.card) != row.card {
            self.cards += 1;
            return Ok(());
        }
        let clock = self.base.saturating_add(access.clock.0);
        let (direction, address) = (access.direction, access.address.0);
        let is_written =
            self.simulator.write(Request { clock, direction, address }, &mut self.output)?;
        self.out_of_range += u64::from(!is_written);
        self.backward += u64::from(clock < self.last);
        self.last = clock;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.flush()?;
        let has_times = self.simulator == Simulator::Dramsim3;
        let mut counts = self.others;
        counts.push(("accesses of other cards", self.cards));
        counts.push(("accesses beyond 2^63", self.out_of_range));
        if has_times {
            counts.push(("accesses out of the order of clocks", self.backward));
        }
        Ok(LeftOut(counts))
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::event::MarkRegister;
    use hmtt_format::{Access, Cycles, PhysAddr};

    use super::*;

    fn access(clock: u64, direction: Direction, address: u64) -> Entry {
        let (clock, address) = (Cycles(clock), PhysAddr(address));
        Entry::Event(Event::Access(Access { clock, direction, address }))
    }

    fn written(simulator: Simulator, rows: &[(usize, Entry)]) -> (String, String) {
        let mut output = Vec::new();
        let mut writer = Box::new(RequestWriter::new(&mut output, simulator));
        for (card, entry) in rows {
            writer.row(&Row { card: CardId(*card), entry: *entry }).unwrap();
        }
        let left_out = writer.finish().unwrap().to_string();
        (String::from_utf8(output).unwrap(), left_out)
    }

    #[test]
    fn requests_are_lines_and_the_rest_is_counted() {
        let mark = Event::Mark { clock: Cycles(7), register: MarkRegister(0x60) };
        let rows = [
            (0, access(5, Direction::Read, 0x1234_0040)),
            (0, Entry::Event(mark)),
            (0, access(9, Direction::Write, 0x80)),
            (1, access(9, Direction::Write, 0xc0)),
            (0, Entry::Restart),
            (0, access(2, Direction::Read, 0)),
            (0, access(1, Direction::Read, 0x40)),
        ];
        let (text, left_out) = written(Simulator::Dramsim3, &rows);
        assert_eq!(text, "0x12340040 READ 5\n0x80 WRITE 9\n0x0 READ 12\n0x40 READ 11\n");
        let counts = "1 mark, 1 restart, 1 accesses of other cards";
        assert_eq!(left_out, format!("{counts}, 1 accesses out of the order of clocks"));
        let (text, left_out) = written(Simulator::Ramulator, &rows);
        assert_eq!(text, "LD 0x12340040\nST 0x80\nLD 0x0\nLD 0x40\n");
        assert_eq!(left_out, counts);
    }

    #[test]
    fn addresses_that_ramulator_cannot_read_are_counted() {
        let rows = [(0, access(5, Direction::Read, 1 << 63))];
        let (text, left_out) = written(Simulator::Ramulator, &rows);
        assert_eq!((text.as_str(), left_out.as_str()), ("", "1 accesses beyond 2^63"));
    }
}
