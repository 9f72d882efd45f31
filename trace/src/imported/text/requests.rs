//! Parses requests for memory simulators.
//!
//! | simulator | a line |
//! |---|---|
//! | DRAMsim3 | `0xADDRESS READ CYCLE`, or with `WRITE` |
//! | DRAMSys | `CYCLE: read 0xADDRESS`, or with `write`; `(BYTES)` before `read` and data after the address are optional; `#` begins a comment |
//! | Ramulator 2, `LoadStoreTrace` | `LD ADDRESS` or `ST ADDRESS`, decimal or with `0x` |
//! | Ramulator 1, traces of memories | `0xADDRESS R` or `0xADDRESS W` |

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::{LineKind, Parsed, decimal, hexadecimal, number, wrong};

/// Maximum number of words of a line that are parsed.
const MOST_WORDS: usize = 6;

/// The simulator whose requests are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    Dramsim3,
    Dramsys,
    Ramulator,
}

impl Requests {
    const fn expected(self) -> &'static str {
        match self {
            Requests::Dramsim3 => "`0xADDRESS READ|WRITE CYCLE`",
            Requests::Dramsys => "`CYCLE: read|write 0xADDRESS`",
            Requests::Ramulator => "`LD|ST ADDRESS`, or `0xADDRESS R|W`",
        }
    }

    /// Parses a line, and adds its access to `add`.
    pub fn line(self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        if self == Requests::Dramsys && line.starts_with('#') {
            return Ok(LineKind::Other);
        }
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        let access = match self {
            Requests::Dramsim3 => dramsim3(&words),
            Requests::Dramsys => dramsys(&words),
            Requests::Ramulator => ramulator(&words),
        };
        add.push_back(access.ok_or_else(|| wrong(self.expected(), line))?);
        Ok(LineKind::Record)
    }
}

fn dramsim3(words: &[&str]) -> Option<ImportedAccess> {
    let [address, kind, clock] = words else { return None };
    let direction = match *kind {
        "READ" | "read" | "P_MEM_RD" | "P_FETCH" => Direction::Read,
        "WRITE" | "write" | "P_MEM_WR" | "BOFF" => Direction::Write,
        _ => return None,
    };
    let clock = decimal(clock)?;
    Some(ImportedAccess { clock, ..ImportedAccess::new(direction, hexadecimal(address)?) })
}

fn dramsys(words: &[&str]) -> Option<ImportedAccess> {
    let [clock, rest @ ..] = words else { return None };
    let clock = decimal(clock.strip_suffix(':')?)?;
    let bytes = |word: &&str| word.strip_prefix('(')?.strip_suffix(')').and_then(decimal);
    let (size, rest) = match rest {
        [first, rest @ ..] if first.starts_with('(') => (u32::try_from(bytes(first)?).ok()?, rest),
        _ => (0, rest),
    };
    let [kind, address, ..] = rest else { return None };
    let direction = match *kind {
        "read" => Direction::Read,
        "write" => Direction::Write,
        _ => return None,
    };
    Some(ImportedAccess { clock, size, ..ImportedAccess::new(direction, hexadecimal(address)?) })
}

fn ramulator(words: &[&str]) -> Option<ImportedAccess> {
    let (direction, address) = match words {
        ["LD", address] => (Direction::Read, address),
        ["ST", address] => (Direction::Write, address),
        [address, "R"] if address.starts_with("0x") => (Direction::Read, address),
        [address, "W"] if address.starts_with("0x") => (Direction::Write, address),
        _ => return None,
    };
    Some(ImportedAccess::new(direction, number(address)?))
}
