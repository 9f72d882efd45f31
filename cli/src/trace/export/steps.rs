//! Finds each executed instruction with its accesses, and passes it to a format's exporter.
//!
//! Blocks are decoded from their code in the trace. The use of memory is limited: if there are too
//! many decoded instructions, all decoded blocks are dropped and decoded again when they are
//! needed.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use hmtt::access_trace::{Executed, Refused, ThreadAccess, Visitor};
use hmtt::table::requests::RequestSums;
use hmtt_files::access_trace::Made;
use hmtt_translator::instructions::{Instruction, instructions};

use super::rounds::Rounds;

/// Maximum number of decoded instructions that are kept in memory.
const KEPT: usize = 1 << 20;

/// An instruction that a thread has executed.
pub struct Step<'s> {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Properties of the instruction that its bytes determine.
    pub instruction: &'s Instruction,
    /// Accesses of the instruction, in program order.
    pub accesses: &'s [Made],
    /// Whether the instruction was executed to its end. An instruction that a signal or fault has
    /// interrupted is executed again, as a further step.
    pub is_complete: bool,
}

/// A writer of executed instructions in the format of a simulator.
pub trait Exporter {
    /// Writes an instruction.
    ///
    /// # Errors
    /// Writing has failed.
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()>;

    /// Writes what is still buffered. `next`: address of the instruction that the thread executes
    /// next, if it is known.
    ///
    /// # Errors
    /// Writing has failed.
    fn finish(&mut self, next: Option<u64>) -> io::Result<()>;

    /// Sums of the written requests or instructions.
    fn sums(&self) -> RequestSums;

    /// Counts of what the format cannot hold.
    fn left_out(&self) -> LeftOut {
        Vec::new()
    }
}

/// Counts of what an export leaves out, each with a description.
pub type LeftOut = Vec<(&'static str, u64)>;

/// A block that is being executed, whose accesses are being collected.
struct Open {
    thread: u32,
    start: u64,
    executed: usize,
    code: Rc<[Instruction]>,
}

/// A visitor that finds the instructions of executed blocks.
pub struct Steps<'e> {
    exporter: &'e mut dyn Exporter,
    rounds: Rounds,
    written: io::Result<()>,
    decoded: HashMap<u32, Rc<[Instruction]>>,
    kept: usize,
    open: Option<Open>,
    accesses: Vec<Made>,
    /// Number of instructions that cannot be decoded.
    undecoded: u64,
    /// Number of accesses that belong to no decoded instruction.
    strays: u64,
}

/// Counts of what an export could not write.
#[derive(Debug, Default)]
pub struct NotWritten {
    /// Number of accesses whose addresses are not known.
    pub unknown: u64,
    /// Elements of string instructions that were left out because there are too many.
    pub elements: Option<Refused>,
    /// Number of instructions that cannot be decoded.
    pub undecoded: u64,
    /// Number of accesses that belong to no decoded instruction.
    pub strays: u64,
}

impl<'e> Steps<'e> {
    /// Creates a visitor that passes instructions to `exporter`.
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

    /// Passes on the instructions of the last block, and completes the export. `next`: address of
    /// the instruction after the block, if it is known. Returns counts of what could not be
    /// written.
    ///
    /// # Errors
    /// Writing has failed.
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

    /// Ends the current block: passes its instructions on with their accesses.
    fn close(&mut self) {
        let Some(Open { thread, start, executed, code }) = self.open.take() else { return };
        let mut accesses = &self.accesses[..];
        for (index, instruction) in code.iter().enumerate().take(executed.saturating_add(1)) {
            let pc = start.wrapping_add(instruction.offset.into());
            let count = accesses.iter().take_while(|made| made.pc == pc).count();
            let (own, rest) = accesses.split_at(count);
            // The instruction after the executed ones was interrupted. It is passed on only if it
            // has accessed elements of a string.
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
