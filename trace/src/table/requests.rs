//! Writes accesses as requests, for simulators of memories and caches.
//!
//! ```text
//! accesses -> lines: a request for each line of 64 bytes -> output: a line or record of the simulator's format
//!                                                            oracle: when each line is accessed next
//! ```
//!
//! | simulator | a request |
//! |---|---|
//! | Ramulator 2, `LoadStoreTrace` | `LD 0xADDRESS` or `ST 0xADDRESS` |
//! | DRAMsim3, trace-driven | `0xADDRESS READ CLOCK` or `0xADDRESS WRITE CLOCK`, the clock in decimal |
//! | DRAMSys, `player` | `CLOCK: read 0xADDRESS` or `CLOCK: write 0xADDRESS`, the clock in decimal |
//! | libCacheSim, `oracleGeneral` | 24 bytes (`oracle.rs`) |
//!
//! These files contain nothing but requests. After a restart of the card, its clocks continue after
//! the last clock, because simulators need ascending times.

mod lines;
mod oracle;
mod output;

use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use hmtt_format::{Direction, Event};

use super::{Card, Entry, LeftOut, Row, TableError, Writer};
use crate::identity::CardId;
pub use lines::LineRequests;
pub use output::RequestOutput;

/// Bytes of a cache line. A request is for one line.
pub const LINE_BYTES: u64 = 64;

/// The simulator that will read the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulator {
    /// Ramulator 2. It reads addresses below 2^63, and no times.
    Ramulator,
    /// DRAMsim3.
    Dramsim3,
    /// DRAMSys, which reads the requests as a trace with the extension `stl`.
    Dramsys,
    /// libCacheSim, in its format `oracleGeneral`, which has no directions.
    LibCacheSim,
}

/// A request to a simulated memory or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Clock of the memory at which the request is made.
    pub clock: u64,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Address of its first byte.
    pub address: u64,
}

/// Sums of the requests that were written for a simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSums {
    /// Requests that read.
    pub reads: u64,
    /// Requests that write.
    pub writes: u64,
    /// Executed instructions, if the requests come from the trace of a program.
    pub instructions: u64,
    /// Clock of the last request.
    pub last_clock: u64,
    /// A clock at which even a slow memory has answered all requests, if each request takes at most
    /// [`SERVICE_CLOCKS`].
    pub drained_clock: u64,
    /// Bursts without a request of their own, because they joined the request of another burst of
    /// their line.
    pub merged_bursts: u64,
    /// Accesses of unknown size. Each became one request.
    pub unsized_accesses: u64,
    /// Period of the clock in picoseconds, if it is known.
    pub tck_ps: Option<u32>,
}

/// Maximum number of clocks for which a memory is assumed to be busy with a request. A request to
/// another row of the same bank takes tRC, about 46 ns: 75 clocks of DDR4-3200, and refresh takes a
/// tenth of all clocks.
pub const SERVICE_CLOCKS: u64 = 100;

impl RequestSums {
    /// Counts a request that has no clock.
    pub fn count(&mut self, direction: Direction) {
        let is_write = direction == Direction::Write;
        *(if is_write { &mut self.writes } else { &mut self.reads }) += 1;
    }

    /// Counts a request.
    pub fn add(&mut self, request: &Request) {
        self.count(request.direction);
        self.last_clock = request.clock;
        let begin = self.drained_clock.max(request.clock);
        self.drained_clock = begin.saturating_add(SERVICE_CLOCKS);
    }
}

/// A writer of the requests of a trace.
pub struct RequestWriter<W: Write> {
    output: RequestOutput<W>,
    lines: LineRequests,
    has_times: bool,
    /// The card whose accesses are written: the card of the first access.
    card: Option<CardId>,
    /// For each card that has sent a report, the bytes of an access and the clock period in
    /// picoseconds.
    descriptions: HashMap<CardId, (u32, u32)>,
    /// Bytes of an access, for cards without a report; `None` if the user has not stated them.
    unit_bytes: Option<u32>,
    unsized_accesses: u64,
    /// Clocks that are added to the card's clocks: 0, or one more than `last` at the last restart.
    base: u64,
    /// Clock of the last access, with `base` added.
    last: u64,
    /// Accesses with a lower clock than the access before.
    backward: u64,
    /// Accesses of other cards, which are left out.
    cards: u64,
    /// Rows of other kinds, by kind.
    others: Vec<(&'static str, u64)>,
    sums: Rc<Cell<RequestSums>>,
}

impl<W: Write> RequestWriter<W> {
    /// Starts a file.
    pub fn new(output: W, simulator: Simulator) -> Self {
        RequestWriter {
            output: RequestOutput::new(output, simulator),
            lines: LineRequests::default(),
            has_times: simulator != Simulator::Ramulator,
            card: None,
            descriptions: HashMap::new(),
            unit_bytes: None,
            unsized_accesses: 0,
            base: 0,
            last: 0,
            backward: 0,
            cards: 0,
            others: Vec::new(),
            sums: Rc::default(),
        }
    }

    /// Sets the bytes of an access, for accesses before the first report of their card.
    pub fn with_unit(self, unit_bytes: Option<u32>) -> Self {
        RequestWriter { unit_bytes, ..self }
    }

    /// The cell that gets the sums when the file is complete.
    pub fn sums(&self) -> Rc<Cell<RequestSums>> {
        self.sums.clone()
    }

    /// Counts a row of another kind.
    fn leave_out(&mut self, kind: &'static str) {
        match self.others.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.others.push((kind, 1)),
        }
    }
}

impl<W: Write> Writer for RequestWriter<W> {
    fn row(&mut self, row: &Row) -> Result<(), TableError> {
        // The clocks of the written card do not depend on what other cards do.
        if row.entry == Entry::Restart && self.card == Some(row.card) {
            self.base = self.last.saturating_add(1);
            self.lines.close();
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
        self.backward += u64::from(clock < self.last);
        self.last = clock;
        let unit = self.descriptions.get(&row.card).map(|(unit, _)| *unit).or(self.unit_bytes);
        self.unsized_accesses += u64::from(unit.is_none());
        let (direction, address) = (access.direction, access.address.0);
        let request = Request { clock, direction, address };
        for request in self.lines.requests(request, unit.unwrap_or(0)) {
            self.output.write(request)?;
        }
        Ok(())
    }

    fn card(&mut self, card: CardId, description: Card) {
        self.descriptions.insert(card, (description.unit_bytes, description.tck_ps));
    }

    fn finish(mut self: Box<Self>) -> Result<LeftOut, TableError> {
        self.output.finish()?;
        let mut counts = std::mem::take(&mut self.others);
        counts.push(("accesses of other cards", self.cards));
        counts.extend(self.output.left_out());
        if self.has_times {
            counts.push(("accesses out of the order of clocks", self.backward));
        }
        let description = self.card.and_then(|card| self.descriptions.get(&card));
        self.sums.set(RequestSums {
            merged_bursts: self.lines.merged_bursts(),
            unsized_accesses: self.unsized_accesses,
            tck_ps: description.map(|(_, tck_ps)| *tck_ps).filter(|tck_ps| *tck_ps > 0),
            ..self.output.sums()
        });
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
            (1, Entry::Restart),
            (0, access(10, Direction::Read, 0x100)),
            (0, Entry::Restart),
            (0, access(2, Direction::Read, 0)),
            (0, access(1, Direction::Read, 0x40)),
        ];
        let (text, left_out) = written(Simulator::Dramsim3, &rows);
        assert_eq!(
            text,
            "0x12340040 READ 5\n0x80 WRITE 9\n0x100 READ 10\n0x0 READ 13\n0x40 READ 12\n"
        );
        let counts = "1 mark, 2 restart, 1 accesses of other cards";
        assert_eq!(left_out, format!("{counts}, 1 accesses out of the order of clocks"));
        let (text, left_out) = written(Simulator::Ramulator, &rows);
        assert_eq!(text, "LD 0x12340040\nST 0x80\nLD 0x100\nLD 0x0\nLD 0x40\n");
        assert_eq!(left_out, counts);
    }

    #[test]
    fn bursts_of_a_line_are_one_request() {
        let mut output = Vec::new();
        let mut writer = Box::new(RequestWriter::new(&mut output, Simulator::Dramsys));
        let sums = writer.sums();
        let (tck_ps, unit_bytes, format_version) = (5000, 32, 3);
        let digest = String::new();
        writer.card(CardId(0), Card { tck_ps, unit_bytes, format_version, digest });
        let read = Direction::Read;
        for (clock, direction, address) in
            [(5, read, 0x60), (9, read, 0x40), (12, read, 0x40), (80, Direction::Write, 0x60)]
        {
            let entry = access(clock, direction, address);
            writer.row(&Row { card: CardId(0), entry }).unwrap();
        }
        assert!(writer.finish().unwrap().is_nothing());
        let text = String::from_utf8(output).unwrap();
        assert_eq!(text, "5: read 0x40\n12: read 0x40\n80: write 0x40\n");
        let RequestSums { reads, writes, last_clock, drained_clock, merged_bursts, .. } =
            sums.get();
        assert_eq!((reads, writes, last_clock, drained_clock, merged_bursts), (2, 1, 80, 305, 1));
        assert_eq!((sums.get().tck_ps, sums.get().unsized_accesses), (Some(5000), 0));
    }

    #[test]
    fn addresses_that_ramulator_cannot_read_are_counted() {
        let rows = [(0, access(5, Direction::Read, 1 << 63))];
        let (text, left_out) = written(Simulator::Ramulator, &rows);
        assert_eq!((text.as_str(), left_out.as_str()), ("", "1 accesses beyond 2^63"));
    }
}
