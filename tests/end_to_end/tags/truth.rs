//! Attributes accesses to functions and blocks with a simple model: one stack per thread.

use std::collections::{BTreeMap, BTreeSet};

use hmtt_format::Direction;
use serde_json::{Value, json};

use super::program::{Event, Program};

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

/// A loop of `nested`, which the functions called from it show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loop {
    Outer,
    Inner,
}

#[derive(Debug, Default)]
pub struct Truth {
    pub functions: BTreeMap<u32, Function>,
    pub outside: Share,
    /// Accesses while both threads had a function open.
    pub several: Share,
    pub accesses: u64,
    /// Executions of blocks, and their accesses.
    pub blocks: BTreeMap<u32, Function>,
    /// Own accesses of functions before any of their blocks.
    pub outside_blocks: BTreeMap<u32, Share>,
    /// Accesses of the loops of `nested`.
    pub loops: BTreeMap<Loop, Function>,
    /// Loop from which each function is called, unless it is called outside of loops.
    callers: BTreeMap<u32, Loop>,
    /// Loop in which the function called last was called.
    place: Option<Loop>,
    /// Function of each block.
    functions_of_blocks: BTreeMap<u32, u32>,
    /// Open calls: the function, and the block that the call entered last.
    stack: Vec<(u32, Option<u32>)>,
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
        let counts =
            ["accesses", "reads", "writes", "access_bytes", "pages"].map(|key| &reported[key]);
        let bytes = accesses * BURST_BYTES;
        let expected = [accesses, self.reads, self.writes, bytes, self.pages.len() as u64];
        assert_eq!(counts.map(Value::clone), expected.map(|count| json!(count)), "{name}");
    }
}

impl Truth {
    /// Starts without open calls.
    pub fn new(program: &Program) -> Self {
        let caller = |(number, name): (&u32, &String)| match name.as_str() {
            "outer_step" => Some((*number, Loop::Outer)),
            "inner_step" => Some((*number, Loop::Inner)),
            _ => None,
        };
        Truth {
            functions_of_blocks: program.blocks.clone(),
            callers: program.names.iter().filter_map(caller).collect(),
            ..Truth::default()
        }
    }

    /// Enters a function, or leaves the innermost one, or enters a block of the innermost one.
    pub fn event(&mut self, event: Event) {
        if let Some(function) = self.functions_of_blocks.get(&event.number) {
            let (innermost, block) = self.stack.last_mut().unwrap();
            assert_eq!((*innermost, event.is_exit), (*function, false));
            *block = Some(event.number);
            self.blocks.entry(event.number).or_default().calls += 1;
            return;
        }
        self.place = self.callers.get(&event.number).copied();
        if event.is_exit {
            assert_eq!(self.stack.pop().map(|call| call.0), Some(event.number));
        } else {
            self.stack.push((event.number, None));
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
                self.outside_blocks.entry(number).or_default().add(direction, address);
                return function.inclusive.add(direction, address);
            }
            (Some(own), None) => own,
        };
        self.functions.entry(own.0).or_default().own.add(direction, address);
        match own.1 {
            Some(block) => self.blocks.entry(block).or_default().own.add(direction, address),
            None => self.outside_blocks.entry(own.0).or_default().add(direction, address),
        }
        if let Some(place) = self.place {
            let own = self.loops.entry(place).or_default();
            if !self.callers.contains_key(&self.stack[self.stack.len() - 1].0) {
                own.own.add(direction, address);
            }
            own.inclusive.add(direction, address);
            if place == Loop::Inner {
                self.loops.entry(Loop::Outer).or_default().inclusive.add(direction, address);
            }
        }
        for open in self.stack.iter().map(|call| call.0).collect::<BTreeSet<_>>() {
            self.functions.entry(open).or_default().inclusive.add(direction, address);
        }
        for open in self.stack.iter().filter_map(|call| call.1).collect::<BTreeSet<_>>() {
            self.blocks.entry(open).or_default().inclusive.add(direction, address);
        }
    }
}
