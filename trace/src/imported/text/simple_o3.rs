//! Parses traces of instructions for Ramulator: `SimpleO3` of version 2, and CPU traces of version
//! 1.
//!
//! A line is `BUBBLES LOAD` or `BUBBLES LOAD STORE`. `BUBBLES` is the number of instructions
//! without an access that come first. `LOAD` is the address of a read, and `STORE` is the address
//! of a write. Addresses are decimal, or hexadecimal with `0x`.

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::{LineKind, Parsed, decimal, number, wrong};

const EXPECTED: &str = "`BUBBLES LOAD_ADDRESS` or `BUBBLES LOAD_ADDRESS STORE_ADDRESS`";
/// Maximum number of words of a line that are parsed.
const MOST_WORDS: usize = 4;

/// Parses the lines. Counts instructions without an access, and the lines of each form.
#[derive(Default)]
pub struct SimpleO3 {
    bubbles: u64,
    loads_alone: u64,
    with_stores: u64,
}

impl SimpleO3 {
    /// Parses a line, and adds its accesses to `add`.
    pub fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        let (bubbles, load, store) = match words[..] {
            [bubbles, load] => (bubbles, load, None),
            [bubbles, load, store] => (bubbles, load, Some(store)),
            _ => return Err(wrong(EXPECTED, line)),
        };
        let expected = || wrong(EXPECTED, line);
        let bubbles = decimal(bubbles).ok_or_else(expected)?;
        let load = number(load).ok_or_else(expected)?;
        let store = store.map(|store| number(store).ok_or_else(expected)).transpose()?;
        self.bubbles = self.bubbles.saturating_add(bubbles);
        *(if store.is_some() { &mut self.with_stores } else { &mut self.loads_alone }) += 1;
        add.push_back(ImportedAccess::new(Direction::Read, load));
        add.extend(store.map(|store| ImportedAccess::new(Direction::Write, store)));
        Ok(LineKind::Record)
    }

    /// Whether there were lines with and lines without a write. Other files of numbers rarely have
    /// both.
    pub fn has_both_forms(&self) -> bool {
        self.loads_alone > 0 && self.with_stores > 0
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        vec![format!(
            "{} instructions without an access, between those with accesses, are not used",
            self.bubbles
        )]
    }
}
