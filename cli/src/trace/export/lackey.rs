//! Writes instructions and accesses as Valgrind's lackey prints them with `--trace-mem=yes`.
//!
//! `I  ADDRESS,SIZE` is an instruction, ` L ADDRESS,SIZE` a load, ` S ADDRESS,SIZE` a store and ` M
//! ADDRESS,SIZE` a load and a store of the same bytes by one instruction. Addresses are
//! hexadecimal, with eight digits at least.

use std::io::{self, Write};

use hmtt::table::requests::RequestSums;
use hmtt_format::Direction;

use super::rounds::{Rounds, Single};
use super::steps::{Exporter, Step};

/// Writes the lines of instructions and accesses.
pub struct Lackey<W> {
    output: W,
    sums: RequestSums,
}

impl<W: Write> Lackey<W> {
    /// Starts a file.
    pub fn new(output: W) -> Self {
        Lackey { output, sums: RequestSums::default() }
    }
}

fn accesses(output: &mut impl Write, mut singles: &[Single]) -> io::Result<()> {
    while let [first, rest @ ..] = singles {
        let Single { direction, address, size } = *first;
        let is_modified = direction == Direction::Read
            && rest.first() == Some(&Single { direction: Direction::Write, ..*first });
        let kind = match direction {
            _ if is_modified => 'M',
            Direction::Read => 'L',
            Direction::Write => 'S',
        };
        writeln!(output, " {kind} {address:08x},{size}")?;
        singles = if is_modified { &rest[1..] } else { rest };
    }
    Ok(())
}

impl<W: Write> Exporter for Lackey<W> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        let Lackey { output, sums } = self;
        rounds.each(step.accesses, |singles| {
            sums.instructions += 1;
            singles.iter().for_each(|single| sums.count(single.direction));
            writeln!(output, "I  {:08x},{}", step.pc, step.instruction.bytes)?;
            accesses(output, singles)
        })
    }

    fn finish(&mut self, _: Option<u64>) -> io::Result<()> {
        self.output.flush()
    }

    fn sums(&self) -> RequestSums {
        self.sums
    }
}
