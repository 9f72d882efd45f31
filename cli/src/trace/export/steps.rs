//! Passes each executed instruction on, with its accesses.
//!
//! Blocks are decoded from the code that the trace has of them. Memory is limited: decoded blocks
//! are forgotten when there are too many.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use hmtt::access_trace::{Executed, Refused, ThreadAccess, Visitor};
use hmtt::table::requests::RequestSums;
use hmtt_format::access_trace::Made;
use hmtt_translator::instructions::{Instruction, instructions};

use super::rounds::Rounds;

/// Most decoded instructions that are kept.
const KEPT: usize = 1 << 20;

/// An instruction that a thread has executed.
pub struct Step<'s> {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Its address.
    pub pc: u64,
    /// What is known from its bytes.
    pub instruction: &'s Instruction,
    /// Its accesses, in program order.
    pub accesses: &'s [Made],
    /// Whether it was executed to its end. What a signal or fault has interrupted is executed
    /// again.
    pub is_complete: bool,
}

/// Writes executed instructions in the format of a simulator.
pub trait Exporter {
    /// Writes an instruction.
    ///
    /// # Errors
    /// The error of writing.
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()>;

    /// Writes what is left. `next`: address of the instruction that the thread executes next, if
    /// that is known.
    ///
    /// # Errors
    /// The error of writing.
    fn finish(&mut self, next: Option<u64>) -> io::Result<()>;

    /// Sums of what was written.
    fn sums(&self) -> RequestSums;

    /// What the format could not hold.
    fn left_out(&self) -> LeftOut {
        Vec::new()
    }
}

/// Counts of what an export leaves out, with descriptions.
pub type LeftOut = Vec<(&'static str, u64)>;

/// A block whose accesses are being collected.
struct Open {
    thread: u32,
    start: u64,
    executed: usize,
    code: Rc<[Instruction]>,
}

/// Finds the instructions of executed blocks.
pub struct Steps<'e> {
    exporter: &'e mut dyn Exporter,
    rounds: Rounds,
    written: io::Result<()>,
    decoded: HashMap<u32, Rc<[Instruction]>>,
    kept: usize,
    open: Option<Open>,
    accesses: Vec<Made>,
    /// Instructions that cannot be decoded, and accesses that belong to no decoded one.
    undecoded: u64,
    strays: u64,
}

/// What an export could not write.
#[derive(Debug, Default)]
pub struct NotWritten {
    /// Accesses whose addresses are not known.
    pub unknown: u64,
    /// Elements of string instructions that are too many.
    pub elements: Option<Refused>,
    /// Instructions that cannot be decoded.
    pub undecoded: u64,
    /// Accesses that belong to no decoded instruction.
    pub strays: u64,
}

impl<'e> Steps<'e> {
    /// Passes instructions on to a format.
    pub fn new(exporter: &'e mut dyn Exporter) -> Self {
        Steps {
            exporter,
            rounds: Rounds::default(),
            written: Ok(()),
            decoded: HashMap::new(),
            kept: 0,
            open: None,
            accesses: Vec::new(),
            undecoded: 0,
            strays: 0,
        }
    }

    /// Passes the last block on. `next`: address of the instruction behind it, if that is known.
    /// Returns what could not be written.
    ///
    /// # Errors
    /// The error of writing.
    pub fn finish(mut self, next: Option<u64>) -> io::Result<NotWritten> {
        self.close();
        self.written?;
        self.exporter.finish(next)?;
        let (unknown, elements) = (self.rounds.unknown, self.rounds.left_out());
        let (undecoded, strays) = (self.undecoded, self.strays);
        Ok(NotWritten { unknown, elements, undecoded, strays })
    }

    fn decoded(&mut self, executed: &Executed<'_>) -> Rc<[Instruction]> {
        if let Some(known) = self.decoded.get(&executed.number) {
            return known.clone();
        }
        let new: Rc<[Instruction]> =
            instructions(executed.block.start, &executed.block.code).into();
        self.kept += new.len();
        if self.kept > KEPT {
            self.decoded.clear();
            self.kept = new.len();
        }
        self.decoded.insert(executed.number, new.clone());
        new
    }

    /// Passes the instructions of the open block on.
    fn close(&mut self) {
        let Some(Open { thread, start, executed, code }) = self.open.take() else { return };
        let mut accesses = &self.accesses[..];
        for (index, instruction) in code.iter().enumerate().take(executed.saturating_add(1)) {
            let pc = start.wrapping_add(instruction.offset.into());
            let count = accesses.iter().take_while(|made| made.pc == pc).count();
            let (own, rest) = accesses.split_at(count);
            // An instruction that was interrupted has accessed elements of a string, or nothing.
            if self.written.is_ok() && (index < executed || count > 0) {
                let is_complete = index < executed;
                let step = Step { thread, pc, instruction, accesses: own, is_complete };
                self.written = self.exporter.step(&step, &mut self.rounds);
            }
            accesses = rest;
        }
        self.undecoded += executed.saturating_sub(code.len()) as u64;
        self.strays += accesses.len() as u64;
        self.accesses.clear();
    }
}

impl Visitor for Steps<'_> {
    fn block(&mut self, executed: &Executed<'_>) {
        self.close();
        if self.written.is_ok() {
            let code = self.decoded(executed);
            let (thread, start) = (executed.thread, executed.block.start);
            let instructions = executed.instructions.min(executed.block.instructions.into());
            self.open = Some(Open { thread, start, executed: instructions, code });
        }
    }

    fn access(&mut self, _: &Executed<'_>, access: ThreadAccess) {
        if self.open.is_some() {
            self.accesses.push(access.made);
        }
    }
}
