//! Writes a log of a real program's events at generated times with marks between them, and adds the
//! marks to a recording.

use std::io::Write;
use std::path::Path;

use hmtt_files::tag_log::{
    Chunk, ClockPair, Content, Ending, EventEncoder, FunctionId, Header, Mark, TagEvent,
};
use hmtt_format::config::MARK_FREE_FIRST;
use hmtt_sim::traffic::Traffic;

use super::program::{Event, Program};

/// Ticks of the log's clock per clock of the card, and its value when the card's clock is 0.
const TICKS: u64 = 20;
const ORIGIN: u64 = 1 << 50;
/// Ticks by which a mark's begin and end differ from the time at which the card records it.
const MARK_TICKS: u64 = 300;
/// Ticks per second for a card with clocks of 10 ns.
const TSC_HZ: u64 = TICKS * 100_000_000;

/// Converts a clock of the card to ticks.
pub fn ticks(clock: u64) -> u64 {
    ORIGIN + TICKS * clock
}

/// A log that is being built.
pub struct MarkedLog {
    bytes: Vec<u8>,
    events: Vec<TagEvent>,
    /// Events of the second thread.
    others: Vec<TagEvent>,
    marks: u64,
}

impl MarkedLog {
    pub fn new(program: &Program) -> Self {
        let id = program.map()["id"].as_str().unwrap().to_owned();
        let byte = |at: usize| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap();
        let map_id = std::array::from_fn(byte);
        let header = Header { is_timed: true, pid: 1, tsc_hz: TSC_HZ, start_ns: 0, map_id };
        MarkedLog {
            bytes: header.encode().into(),
            events: Vec::new(),
            others: Vec::new(),
            marks: 0,
        }
    }

    /// Adds an event at a clock of the card.
    pub fn event(&mut self, event: Event, clock: u64) {
        let Event { number, is_exit, sp } = event;
        self.events.push(TagEvent { tsc: ticks(clock), sp, number: FunctionId(number), is_exit });
    }

    /// Adds an event of another thread.
    pub fn other(&mut self, number: u32, is_exit: bool, clock: u64) {
        self.others.push(TagEvent {
            tsc: ticks(clock),
            sp: 0x1000_0000,
            number: FunctionId(number),
            is_exit,
        });
    }

    fn events(&mut self, thread: u32, events: &[TagEvent]) {
        for events in events.chunks(500) {
            let mut buffer = vec![0; 1 << 16];
            let mut encoder = EventEncoder::new(&mut buffer, thread, true).unwrap();
            events.iter().for_each(|event| encoder.push(*event).unwrap());
            let length = encoder.finish();
            self.bytes.extend_from_slice(&buffer[..length]);
        }
    }

    fn chunk(&mut self, thread: u32, content: Content<'_>) {
        let mut buffer = [0; 100];
        let length = Chunk { thread, content }.encode(&mut buffer).unwrap();
        self.bytes.extend_from_slice(&buffer[..length]);
    }

    /// Adds the next mark to the bus and to the log, unless it is lost in either.
    pub fn mark(&mut self, traffic: &mut Traffic, is_on_bus: bool, is_in_log: bool) {
        let register = MARK_FREE_FIRST + (self.marks % 256) as u16;
        self.marks += 1;
        if is_on_bus {
            traffic.configure(register);
        }
        let seen = traffic.truth().last().map_or(0, |access| access.clock.0);
        if is_in_log {
            let (register, tsc) = (register.into(), ticks(seen));
            let (tsc_before, tsc_after) = (tsc - MARK_TICKS, tsc + MARK_TICKS);
            self.chunk(0, Content::Mark(Mark { register, tsc_before, tsc_after }));
        }
    }

    /// Writes the log to a file.
    pub fn finish(mut self, path: &Path, last: u64) {
        // Threads write their chunks when their buffers are full, so chunks are not in the order of
        // time.
        let (events, others) = (std::mem::take(&mut self.events), std::mem::take(&mut self.others));
        self.events(2, &others);
        self.events(1, &events);
        self.chunk(0, Content::Clocks(ClockPair { tsc: ticks(last), ..ClockPair::default() }));
        self.chunk(0, Content::End(Ending::Exited(0)));
        std::fs::File::create(path).unwrap().write_all(&self.bytes).unwrap();
    }
}
