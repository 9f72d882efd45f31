//! Parses the output of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! `I  PC,SIZE` is an instruction. The lines after it are its accesses: ` L ADDRESS,SIZE` is a
//! load, ` S ADDRESS,SIZE` is a store, and ` M ADDRESS,SIZE` is a load and a store of the same
//! bytes. Addresses are hexadecimal, and sizes are decimal. Messages of Valgrind begin with `==` or
//! `--`.

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::{LineKind, Parsed, decimal, hexadecimal, wrong};

/// Sentence on the values that a trace does not state.
pub const NOTE: &str =
    "lackey does not say which thread has made an access; Valgrind runs one thread at a time";

const EXPECTED: &str = "`I  PC,SIZE`, or ` L`, ` S` or ` M` with `ADDRESS,SIZE`";

/// Parses the lines. Keeps the address of the last instruction, to which the next accesses belong.
#[derive(Default)]
pub struct Lackey {
    pc: u64,
}

impl Lackey {
    /// Parses a line, and adds its accesses to `add`.
    pub fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        if line.starts_with("==") || line.starts_with("--") {
            return Ok(LineKind::Other);
        }
        let parsed = line.split_at_checked(3).and_then(|(kind, rest)| {
            let (address, size) = rest.split_once(',')?;
            let size = u32::try_from(decimal(size)?).ok()?;
            Some((kind, hexadecimal(address)?, size))
        });
        let (read, write) = (&[Direction::Read][..], &[Direction::Write][..]);
        let (directions, address, size) = match parsed {
            Some(("I  ", address, _)) => {
                self.pc = address;
                return Ok(LineKind::Record);
            }
            Some((" L ", address, size)) => (read, address, size),
            Some((" S ", address, size)) => (write, address, size),
            Some((" M ", address, size)) => {
                (&[Direction::Read, Direction::Write][..], address, size)
            }
            _ => return Err(wrong(EXPECTED, line)),
        };
        let pc = self.pc;
        add.extend(directions.iter().map(|direction| ImportedAccess {
            pc,
            size,
            ..ImportedAccess::new(*direction, address)
        }));
        Ok(LineKind::Record)
    }
}
