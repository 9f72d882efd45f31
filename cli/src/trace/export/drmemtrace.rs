//! Writes instructions and accesses in the form in which the view tool of DynamoRIO's drmemtrace
//! prints a trace without encodings.
//!
//! Each line has the number of the record, the number of the instruction, the thread, and the
//! record: `ifetch`, `read` or `write`. There are no lines of markers, because their contents
//! (times, processors, versions) are not in the trace. The further rounds of a repeated string
//! instruction are not fetched again, as in drmemtrace.

use std::io::{self, Write};

use hmtt::table::requests::RequestSums;
use hmtt_format::Direction;
use hmtt_translator::instructions::Flow;

use super::rounds::Rounds;
use super::steps::{Exporter, Step};

/// Lines before the records.
const HEADING: &str = "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n";
/// A line before the first record, and between records of different threads.
const DIVIDER: &str = "------------------------------------------------------------\n";

/// Writes the lines of records.
pub struct Drmemtrace<W> {
    output: W,
    is_begun: bool,
    /// Thread of the last record.
    thread: Option<u32>,
    records: u64,
    /// Number of instructions that were fetched.
    fetched: u64,
    /// Number of lines of instructions, with a line for each further round of a string instruction.
    shown: u64,
    sums: RequestSums,
}

impl<W: Write> Drmemtrace<W> {
    /// Starts a file.
    pub fn new(output: W) -> Self {
        let (is_begun, thread, sums) = (false, None, RequestSums::default());
        Drmemtrace { output, is_begun, thread, records: 0, fetched: 0, shown: 0, sums }
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        write!(self.output, "{HEADING}{DIVIDER}")
    }
}

/// The tool's name of an instruction, by the instruction that may follow it.
fn flow_name(flow: Flow) -> &'static str {
    match flow {
        Flow::Next => "non-branch",
        Flow::Jump => "jump",
        Flow::IndirectJump => "indirect jump",
        Flow::Branch => "conditional jump",
        Flow::Call => "call",
        Flow::IndirectCall => "indirect call",
        Flow::Return => "return",
    }
}

impl<W: Write> Exporter for Drmemtrace<W> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        self.begin()?;
        if self.thread.replace(step.thread).is_some_and(|last| last != step.thread) {
            self.output.write_all(DIVIDER.as_bytes())?;
        }
        let Drmemtrace { output, records, fetched, shown, sums, .. } = self;
        let Step { thread, pc, instruction, accesses, .. } = *step;
        *fetched += 1;
        let mut name = flow_name(instruction.flow);
        rounds.each(accesses, |singles| {
            *records += 1;
            *shown += 1;
            writeln!(
                output,
                "{records:>12}{fetched:>12}: {thread:>11} ifetch      {:>2} byte(s) @ 0x{pc:016x} {name}",
                instruction.bytes
            )?;
            name = "non-fetched instruction";
            for single in singles {
                let kind = if single.direction == Direction::Write { "write" } else { "read" };
                let (size, address) = (single.size, single.address);
                sums.count(single.direction);
                *records += 1;
                writeln!(
                    output,
                    "{records:>12}{fetched:>12}: {thread:>11} {kind:<12}{size:>2} byte(s) @ 0x{address:016x} by PC 0x{pc:016x}"
                )?;
            }
            Ok(())
        })
    }

    fn finish(&mut self, _: Option<u64>) -> io::Result<()> {
        self.begin()?;
        writeln!(self.output, "View tool results:\n{:>15} : total instructions", self.shown)?;
        self.output.flush()
    }

    fn sums(&self) -> RequestSums {
        RequestSums { instructions: self.shown, ..self.sums }
    }
}
