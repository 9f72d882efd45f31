//! Attributes accesses to functions with a simple model: one stack per thread.

use std::collections::{BTreeMap, BTreeSet};

use hmtt_format::Direction;
use serde_json::{Value, json};

use super::program::Event;

/// Length of a burst of the memory in bytes.
const BURST_BYTES: u64 = 32;

/// Accesses that are attributed to one owner.
#[derive(Debug, Default)]
pub struct Share {
    pub reads: u64,
    pub writes: u64,
    pages: BTreeSet<u64>,
}

/// Calls and accesses of a function.
#[derive(Debug, Default)]
pub struct Function {
    pub calls: u64,
    pub inclusive: Share,
    pub own: Share,
}

#[derive(Debug, Default)]
pub struct Truth {
    pub functions: BTreeMap<u32, Function>,
    pub outside: Share,
    /// Accesses while both threads had a function open.
    pub several: Share,
    pub accesses: u64,
    stack: Vec<u32>,
    other: Option<u32>,
}

impl Share {
    fn add(&mut self, direction: Direction, address: u64) {
        match direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
        self.pages.insert(address / 4096);
    }

    /// Compares these accesses with the reported ones.
    pub fn check(&self, reported: &Value, name: &str) {
        let accesses = self.reads + self.writes;
        let found =
            ["accesses", "reads", "writes", "access_bytes", "pages"].map(|key| &reported[key]);
        let bytes = accesses * BURST_BYTES;
        let expected = [accesses, self.reads, self.writes, bytes, self.pages.len() as u64];
        assert_eq!(found.map(Value::clone), expected.map(|count| json!(count)), "{name}");
    }
}

impl Truth {
    /// Enters a function, or leaves the innermost one.
    pub fn event(&mut self, event: Event) {
        if event.is_exit {
            assert_eq!(self.stack.pop(), Some(event.number));
        } else {
            self.stack.push(event.number);
            self.functions.entry(event.number).or_default().calls += 1;
        }
    }

    /// Lets the second thread enter a function, or leave the one that it entered.
    pub fn other(&mut self, number: u32, is_exit: bool) {
        self.other = (!is_exit).then_some(number);
        self.functions.entry(number).or_default().calls += u64::from(!is_exit);
    }

    pub fn access(&mut self, direction: Direction, address: u64) {
        self.accesses += 1;
        let own = match (self.stack.last(), self.other) {
            (None, None) => return self.outside.add(direction, address),
            (Some(_), Some(_)) => return self.several.add(direction, address),
            (None, Some(number)) => {
                let function = self.functions.entry(number).or_default();
                function.own.add(direction, address);
                return function.inclusive.add(direction, address);
            }
            (Some(own), None) => own,
        };
        self.functions.entry(*own).or_default().own.add(direction, address);
        for open in self.stack.iter().collect::<BTreeSet<_>>() {
            self.functions.entry(*open).or_default().inclusive.add(direction, address);
        }
    }
}
