//! Writes a request for each cache line that an access touches, in the formats of memory
//! simulators.
//!
//! ```text
//! accesses -> caches, if they are asked for: lines that are read and written back -> RequestOutput
//! ```
//!
//! The clock of a request is the number of instructions that were executed before it. Each round of
//! a repeated string instruction counts as one.

use std::io::{self, Write};

use hmtt::cache::{AccessKind, Hierarchy};
use hmtt::table::requests::{
    LINE_BYTES, LineRequests, Request, RequestOutput, RequestSums, Simulator,
};
use hmtt_format::Direction;

use super::rounds::{Rounds, Single};
use super::steps::{Exporter, LeftOut, Step};

/// Writes requests for memory simulators.
pub struct Requests<W: Write> {
    output: RequestOutput<W>,
    /// Caches whose misses and write-backs become requests. They are empty at the start. `None` if
    /// the accesses themselves become requests.
    caches: Option<Hierarchy>,
    lines: LineRequests,
    /// Number of executed instructions, which is the clock.
    executed: u64,
}

impl<W: Write> Requests<W> {
    /// Starts a file. `caches`: caches whose misses and write-backs become requests instead of the
    /// accesses.
    pub fn new(output: W, simulator: Simulator, caches: Option<Hierarchy>) -> Self {
        let (output, lines) = (RequestOutput::new(output, simulator), LineRequests::default());
        Requests { output, caches, lines, executed: 0 }
    }
}

/// Addresses of an access's requests: its first byte, and the begin of each further line.
fn addresses(Single { address, size, .. }: Single) -> impl Iterator<Item = u64> {
    let last = address.saturating_add(u64::from(size.max(1)) - 1);
    let following = address / LINE_BYTES + 1..=last / LINE_BYTES;
    std::iter::once(address).chain(following.map(|line| line * LINE_BYTES))
}

/// Makes an access in the caches, and writes its misses and write-backs as requests.
fn write_transfers<W: Write>(
    single: Single,
    clock: u64,
    caches: &mut Hierarchy,
    lines: &mut LineRequests,
    output: &mut RequestOutput<W>,
) -> io::Result<()> {
    let kind = match single.direction {
        Direction::Read => AccessKind::Read,
        Direction::Write => AccessKind::Write,
    };
    let mut written = Ok(());
    caches.access(kind, single.address, single.size, &mut |transfer| {
        let (direction, address) = (transfer.direction, transfer.address);
        let mut requests = lines.requests(Request { clock, direction, address }, transfer.bytes);
        if written.is_ok() {
            written = requests.try_for_each(|request| output.write(request));
        }
    });
    written
}

impl<W: Write> Exporter for Requests<W> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        let Requests { output, caches, lines, executed } = self;
        rounds.each(step.accesses, |singles| {
            let clock = *executed;
            for single in singles {
                if let Some(caches) = caches {
                    write_transfers(*single, clock, caches, lines, output)?;
                    continue;
                }
                let direction = single.direction;
                for address in addresses(*single) {
                    output.write(Request { clock, direction, address })?;
                }
            }
            *executed += 1;
            Ok(())
        })
    }

    fn finish(&mut self, _: Option<u64>) -> io::Result<()> {
        self.output.finish()
    }

    fn sums(&self) -> RequestSums {
        let (instructions, merged_bursts) = (self.executed, self.lines.merged_bursts());
        RequestSums { instructions, merged_bursts, ..self.output.sums() }
    }

    fn left_out(&self) -> LeftOut {
        self.output.left_out().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::Direction;

    use super::*;

    #[test]
    fn misses_and_write_backs_are_requests() {
        let direct = "128,1,64,lru".parse().unwrap();
        let caches = Hierarchy::new(&[direct], None).unwrap();
        let mut text = Vec::new();
        let mut requests = Requests::new(&mut text, Simulator::Dramsim3, Some(caches));
        let instruction = hmtt_translator::instructions::instructions(0, &[0x90])[0];
        let (thread, pc, is_complete) = (1, 0, true);
        let mut rounds = Rounds::default();
        // The last access crosses the border of two lines. The caches have the second line.
        for (direction, address) in
            [(Direction::Write, 0x1000), (Direction::Read, 0x1008), (Direction::Read, 0x1000 - 4)]
        {
            let access = hmtt_files::access_trace::Made {
                pc,
                direction,
                address: Some(address),
                represents: 1,
                size: 8,
                elements: 1,
                is_down: false,
                conditional: false,
            };
            let accesses = &[access];
            let step = Step { thread, pc, instruction: &instruction, accesses, is_complete };
            requests.step(&step, &mut rounds).unwrap();
        }
        // This line takes the place of the changed line in the caches.
        let single = Single { direction: Direction::Read, address: 0x1080, size: 8 };
        let Requests { output, caches, lines, .. } = &mut requests;
        write_transfers(single, 9, caches.as_mut().unwrap(), lines, output).unwrap();
        requests.finish(None).unwrap();
        let RequestSums { reads, writes, instructions, .. } = requests.sums();
        assert_eq!((reads, writes, instructions), (3, 1, 3));
        let expected = "0x1000 READ 0\n0xfc0 READ 2\n0x1080 READ 9\n0x1000 WRITE 9\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn an_access_has_a_request_for_each_line() {
        let starts = |address, size| {
            let single = Single { direction: Direction::Read, address, size };
            addresses(single).collect::<Vec<_>>()
        };
        assert_eq!(starts(0x1038, 8), [0x1038]);
        assert_eq!(starts(0x1039, 8), [0x1039, 0x1040]);
        assert_eq!(starts(0x1001, 128), [0x1001, 0x1040, 0x1080]);
        assert_eq!(starts(0x1000, 0), [0x1000]);
        assert_eq!(starts(u64::MAX, 64), [u64::MAX]);
    }
}
