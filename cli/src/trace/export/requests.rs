//! Writes accesses as requests of simulators of memories, one for each cache line that is accessed.
//!
//! The traces have no times. Where a request needs one, it is the number of instructions that were executed before, so that one
//! instruction is executed in each clock.

use std::io::{self, Write};

use hmtt::table::requests::{LINE_BYTES, Request, Simulator};

use super::rounds::{Rounds, Single};
use super::steps::{Exporter, LeftOut, Step};

/// Writes requests.
pub struct Requests<W> {
    output: W,
    simulator: Simulator,
    /// Instructions that were executed.
    executed: u64,
    /// Requests with addresses that the simulator cannot read.
    out_of_range: u64,
}

impl<W: Write> Requests<W> {
    /// Starts a file.
    pub fn new(output: W, simulator: Simulator) -> Self {
        Requests { output, simulator, executed: 0, out_of_range: 0 }
    }
}

/// Addresses of the requests of an access: its first byte, and the following lines.
fn addresses(Single { address, size, .. }: Single) -> impl Iterator<Item = u64> {
    let last = address.saturating_add(u64::from(size.max(1)) - 1);
    let following = address / LINE_BYTES + 1..=last / LINE_BYTES;
    std::iter::once(address).chain(following.map(|line| line * LINE_BYTES))
}

impl<W: Write> Exporter for Requests<W> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        let Requests { output, simulator, executed, out_of_range } = self;
        rounds.each(step.accesses, |singles| {
            for single in singles {
                for address in addresses(*single) {
                    let (direction, clock) = (single.direction, *executed);
                    let request = Request { clock, direction, address };
                    *out_of_range += u64::from(!simulator.write(request, output)?);
                }
            }
            *executed += 1;
            Ok(())
        })
    }

    fn finish(&mut self, _: Option<u64>) -> io::Result<()> {
        self.output.flush()
    }

    fn left_out(&self) -> LeftOut {
        vec![("accesses beyond 2^63", self.out_of_range)]
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::Direction;

    use super::*;

    #[test]
    fn an_access_has_a_request_for_each_line() {
        let of = |address, size| {
            let single = Single { direction: Direction::Read, address, size };
            addresses(single).collect::<Vec<_>>()
        };
        assert_eq!(of(0x1038, 8), [0x1038]);
        assert_eq!(of(0x1039, 8), [0x1039, 0x1040]);
        assert_eq!(of(0x1001, 128), [0x1001, 0x1040, 0x1080]);
        assert_eq!(of(0x1000, 0), [0x1000]);
        assert_eq!(of(u64::MAX, 64), [u64::MAX]);
    }
}
