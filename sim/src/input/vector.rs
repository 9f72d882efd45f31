//! Reads the vectors' text format as spans of pin levels.
//!
//! ```text
//! # ddr command-bus vector 1
//! key=value ...                                    hmtt_format::header
//! ---
//! clock cke cs_n [act_n] ras_n cas_n we_n ba a     clock decimal, ba and a hexadecimal
//! ```
//!
//! A memory description from another file replaces the header's, which may then be incomplete.
//!
//! If the map has several ranks, cke and cs_n are hexadecimal too, with one bit for each rank, rank
//! 0 lowest. If the ranks share one CKE, all bits of cke are equal.
//!
//! A clock without a line is DESELECT with the CKE of the line before; clocks before the first line
//! have the CKE of the first line. Rejected: clocks that do not increase or are outside the
//! header's range, levels other than 0 and 1, addresses wider than the generation's pins, and a
//! missing clock if the header states that every clock is listed.

use hmtt_format::command::ALL_RANKS;
use hmtt_format::header::{END, HeaderError, HeaderParser, MAGIC, VectorHeader};
use hmtt_format::record::CLOCK_MASK;
use hmtt_format::{MemoryDescription, Pins};

use super::lines::Lines;
use super::{InputError, Span};

mod columns;

use columns::{Columns, Widths};

/// Reads the header when created, and the clocks as an iterator.
pub struct VectorReader {
    lines: Lines,
    header: VectorHeader,
    columns: Columns,
    widths: Widths,
    /// The first clock that has not been returned.
    next: u64,
    /// CKE of the line before.
    cke: u8,
    /// A line whose preceding clocks are being returned.
    pending: Option<(u64, Pins)>,
    /// Whether a line was read.
    started: bool,
    /// Whether the last clock or an error was returned.
    ended: bool,
}

impl VectorReader {
    /// Reads the header. `memory`, if given, replaces the header's description.
    pub fn new(mut lines: Lines, memory: Option<MemoryDescription>) -> Result<Self, InputError> {
        let mut parser = HeaderParser::default();
        let mut stated = None;
        loop {
            let Some(line) = lines.next_line()? else {
                return Err(lines.malformed(format!("`{END}` after the header"), "end of file"));
            };
            let line = line.to_owned();
            if lines.number() == 1 && line.trim_end() != MAGIC {
                return Err(lines.malformed(format!("`{MAGIC}`"), &line));
            }
            if line.trim_end() == END {
                break;
            }
            if let Some(names) = line.strip_prefix("columns=") {
                stated = Some(Columns::parse(names).map_err(|what| lines.malformed(what, &line))?);
            }
            parser.line(&line).map_err(|error| header_error(&lines, error))?;
        }
        let header = match memory {
            Some(memory) => parser.finish_with(memory),
            None => parser.finish(),
        }
        .map_err(|error| header_error(&lines, error))?;
        if header.last_clock > CLOCK_MASK {
            let got = header.last_clock.to_string();
            return Err(lines.malformed("last_clock below 2^48", &got));
        }
        let columns = stated.unwrap_or_else(|| Columns::from_generation(header.generation));
        if header.memory.generation.has_act_n() && !columns.has_act_n() {
            return Err(lines.malformed("a column act_n for DDR4", "columns without it"));
        }
        Ok(VectorReader {
            lines,
            widths: Widths::new(header.generation, header.ranks),
            header,
            columns,
            next: 0,
            cke: ALL_RANKS,
            pending: None,
            started: false,
            ended: false,
        })
    }

    /// The header of the vector.
    pub const fn header(&self) -> &VectorHeader {
        &self.header
    }

    fn advance(&mut self) -> Result<Option<Span>, InputError> {
        if let Some((clock, pins)) = self.pending.take() {
            return Ok(Some(self.listed(clock, pins)));
        }
        while let Some(line) = self.lines.next_line()? {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = self.columns.line(line, self.widths);
            let (clock, pins) = match parsed {
                Ok(parsed) => parsed,
                Err(expected) => {
                    let line = line.to_owned();
                    return Err(self.lines.malformed(expected, &line));
                }
            };
            self.check(clock)?;
            if !self.started {
                self.started = true;
                self.cke = pins.cke;
            }
            if clock == self.next {
                return Ok(Some(self.listed(clock, pins)));
            }
            self.pending = Some((clock, pins));
            return Ok(Some(self.unlisted(clock)));
        }
        self.tail()
    }

    fn check(&self, clock: u64) -> Result<(), InputError> {
        let VectorHeader { first_clock, last_clock, .. } = self.header;
        let refuse = |expected: String| Err(self.lines.malformed(expected, &clock.to_string()));
        if clock < first_clock || clock > last_clock {
            return refuse(format!("a clock from {first_clock} to {last_clock}"));
        }
        if clock < self.next {
            return refuse(format!("a clock after {}", self.next - 1));
        }
        let due = self.next.max(first_clock);
        if self.header.all_clocks_listed && clock != due {
            return refuse(format!("clock {due}, as every clock is listed"));
        }
        Ok(())
    }

    fn listed(&mut self, clock: u64, pins: Pins) -> Span {
        self.next = clock + 1;
        self.cke = pins.cke;
        Span { clocks: 1, pins }
    }

    fn unlisted(&mut self, until: u64) -> Span {
        let clocks = until - self.next;
        self.next = until;
        Span { clocks, pins: Pins { cke: self.cke, ..Pins::DESELECT } }
    }

    /// Returns the clocks between the last line and the header's last clock.
    fn tail(&mut self) -> Result<Option<Span>, InputError> {
        let end = self.header.last_clock + 1;
        if !self.started {
            return Err(self.lines.malformed("at least one clock", "end of file"));
        }
        if self.next == end {
            return Ok(None);
        }
        if self.header.all_clocks_listed {
            let expected = format!("clock {}, as every clock is listed", self.next);
            return Err(self.lines.malformed(expected, "end of file"));
        }
        Ok(Some(self.unlisted(end)))
    }
}

impl Iterator for VectorReader {
    type Item = Result<Span, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.advance().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

fn header_error(lines: &Lines, error: HeaderError) -> InputError {
    let (path, line) = (lines.path().into(), lines.number());
    match error {
        HeaderError::Undescribed(_) => InputError::Undescribed { path, line, error },
        _ => InputError::Header { path, line, error },
    }
}
