//! Parses the output of `perf script` for a recording of `perf mem record`.
//!
//! ```text
//! COMM PID/TID [CPU] SECONDS.FRACTION: PERIOD EVENT: ADDRESS DATA_SRC |OP LOAD|LVL L1 hit|... WEIGHT IP SYMBOL (FILE)
//! ```
//!
//! `perf script -F comm,tid,time,event,addr,data_src,weight,ip` prints all fields that are needed,
//! and other fields of the line above are skipped. The operation in `data_src` states whether a
//! sample reads or writes; without it, the name of the event does. Times become nanoseconds. If
//! call chains were recorded, the line of the sample has no instruction. Then lines that begin with
//! a tab follow, and the first of these has the instruction.
//!
//! ```text
//! mm 4452/4452 82877.315633: cpu/mem-loads/P: 7ffe0010 5868100142 |OP LOAD|LVL L1 hit|... 7
//!         55d0c0de1139 multiply+0x29 (/home/user/mm)
//!         55d0c0de1234 main+0x84 (/home/user/mm)
//! ```

use std::collections::VecDeque;

use hmtt_format::Direction;

use super::super::ImportedAccess;
use super::super::samples::{Sample, Samples};
use super::{LineKind, Parsed, decimal, hexadecimal, wrong};

const EXPECTED: &str = "a sample of `perf script -F comm,tid,time,event,addr,data_src,weight,ip`";
const OPERATION: &str = "|OP ";
/// Maximum number of digits in the fraction of a second.
const NANOSECOND_DIGITS: usize = 9;
/// Least number of digits of the address of an instruction. Shorter numbers are latencies.
const ADDRESS_DIGITS: usize = 6;

/// Parses the lines, and counts the samples.
#[derive(Default)]
pub struct PerfScript {
    samples: Samples,
    /// The last sample, if its line has no instruction. A call chain with the instruction may
    /// follow.
    waiting: Option<Sample>,
}

/// Parses a time `SECONDS.FRACTION:` as nanoseconds.
fn nanoseconds(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    if seconds.is_empty() || fraction.is_empty() || fraction.len() > NANOSECOND_DIGITS {
        return None;
    }
    let scale = 10u64.pow((NANOSECOND_DIGITS - fraction.len()) as u32);
    let fraction = decimal(fraction)? * scale;
    decimal(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Parses the number of a thread: `TID` or `PID/TID`.
fn thread(word: &str) -> Option<u32> {
    let digits = word.rsplit_once('/').map_or(word, |(_, digits)| digits);
    u32::try_from(decimal(digits)?).ok()
}

/// The direction of a sample: by its operation or, if the line has none, by the name of the event.
/// `None` if it is not known.
fn direction(operation: Option<&str>, event: &str) -> Option<Direction> {
    let (load, store) = match operation {
        Some(operation) => (operation.contains("LOAD"), operation.contains("STORE")),
        None => (event.contains("load"), event.contains("store")),
    };
    match (load, store) {
        (true, false) => Some(Direction::Read),
        (false, true) => Some(Direction::Write),
        _ => None,
    }
}

/// Weight and address of the instruction. `rest`: the text after the last part of `data_src`, which
/// has latencies and, after them, the address.
fn weight_and_instruction(rest: &str) -> (Option<u64>, Option<u64>) {
    let words = rest.split_whitespace().skip_while(|word| decimal(word).is_none());
    let mut numbers = words.map_while(|word| Some(word).filter(|word| hexadecimal(word).is_some()));
    let weight = numbers.next().and_then(decimal);
    let pc = numbers.find(|word| word.len() >= ADDRESS_DIGITS).and_then(hexadecimal);
    (weight, pc)
}

/// The values at the begin of a sample's line.
struct Begin<'l> {
    clock: u64,
    thread: u32,
    event: &'l str,
    address: u64,
}

fn begin(line: &str) -> Option<Begin<'_>> {
    let mut before = None;
    let mut words = line.split_whitespace();
    let clock = loop {
        let word = words.next()?;
        match nanoseconds(word) {
            Some(clock) => break clock,
            None if word.starts_with('[') => {}
            None => before = Some(word),
        }
    };
    let thread = thread(before?)?;
    let mut event = words.next()?;
    if decimal(event).is_some() {
        event = words.next()?;
    }
    let event = event.strip_suffix(':')?;
    let address = hexadecimal(words.next()?)?;
    Some(Begin { clock, thread, event, address })
}

impl PerfScript {
    /// Parses a line, and adds the access of a sample that is complete.
    pub fn line(&mut self, line: &str, add: &mut VecDeque<ImportedAccess>) -> Parsed {
        if let Some(chain) = line.strip_prefix('\t') {
            if let Some(sample) = self.waiting.take() {
                let pc = chain.split_whitespace().next().and_then(hexadecimal).unwrap_or(0);
                add.extend(self.samples.access(&Sample { pc, ..sample }));
            }
            return Ok(LineKind::Other);
        }
        if line.starts_with('#') {
            return Ok(LineKind::Other);
        }
        self.finish(add);
        let Begin { clock, thread, event, address } =
            begin(line).ok_or_else(|| wrong(EXPECTED, line))?;
        let operation = line.split_once(OPERATION).map(|(_, rest)| rest);
        let name = operation.map(|rest| rest.split('|').next().unwrap_or_default());
        let rest = operation.and_then(|rest| rest.rsplit_once('|')).map_or("", |(_, rest)| rest);
        let direction = direction(name, event);
        let (weight, pc) = weight_and_instruction(rest);
        let sample = Sample { clock, thread, pc: pc.unwrap_or(0), address, direction, weight };
        match pc {
            Some(_) => add.extend(self.samples.access(&sample)),
            None => self.waiting = Some(sample),
        }
        Ok(LineKind::Record)
    }

    /// Adds the access of the last sample, if it still waits for a call chain.
    pub fn finish(&mut self, add: &mut VecDeque<ImportedAccess>) {
        add.extend(self.waiting.take().and_then(|sample| self.samples.access(&sample)));
    }

    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.samples.notes()
    }
}
