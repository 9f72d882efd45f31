//! Reads a logic analyser's VCD as spans of pin levels, sampled at each rising edge of the clock
//! signal. The time between edges is not used.
//!
//! Clock 0 is the first rising edge in the file. Until all pins are known, CKE counts as low. After
//! that an unknown level is an error, except on pins that have no meaning at that clock.
//!
//! Other content is skipped: other declarations, values of other signals, real values, strings and
//! ports.

use std::path::Path;

use hmtt_format::{MemoryDescription, Pins};

use super::lines::Reader;
use super::pin_map::{PinMap, Sample};
use super::{InputError, Recording, Span};

mod declarations;
mod signals;
mod tokens;

use signals::{Level, Levels, Signals};
use tokens::Tokens;
pub use tokens::{is_space, without_mark};

/// Opens a VCD.
pub fn open(
    path: &Path,
    reader: Reader,
    memory: Option<MemoryDescription>,
    pins: Option<PinMap>,
) -> Result<Recording, InputError> {
    let fail = |reason: &str| InputError::VcdArguments { path: path.into(), reason: reason.into() };
    let pins = pins.ok_or_else(|| fail("a VCD needs a pin map (--pins)"))?;
    let memory = memory.ok_or_else(|| fail("a VCD needs a memory description (--memory)"))?;
    if memory.generation.has_act_n() && pins.act_n.is_none() {
        return Err(fail("the pin map has no act_n, which DDR4 needs"));
    }
    let mut tokens = Tokens::new(path, reader)?;
    let declared = declarations::read(&mut tokens, pins.names())?;
    let signals = Signals::connect(&declared, &pins).map_err(|reason| tokens.fail(reason))?;
    let spans = VcdReader {
        tokens,
        signals,
        sample: pins.sample,
        levels: Levels::default(),
        before: Levels::default(),
        time: 0,
        time_line: 1,
        timed: false,
        digits: Vec::new(),
        known: false,
        ended: false,
        rose: false,
    };
    Ok(Recording { memory, clocks: None, spans: Box::new(spans) })
}

struct VcdReader {
    tokens: Tokens,
    signals: Signals,
    sample: Sample,
    /// Levels after the last command.
    levels: Levels,
    /// Levels before the current time stamp.
    before: Levels,
    time: i128,
    /// Line of the current time stamp.
    time_line: u64,
    /// Whether there was a time stamp.
    timed: bool,
    /// The digits of the current value.
    digits: Vec<u8>,
    /// Whether every pin has been 0 or 1 at some clock.
    known: bool,
    ended: bool,
    /// Whether the clock has risen at least once.
    rose: bool,
}

impl VcdReader {
    /// Creates an error that concerns the current time stamp.
    fn fail(&self, reason: impl std::fmt::Display) -> InputError {
        self.tokens.fail_at(self.time_line, format!("at time {}: {reason}", self.time))
    }

    /// Reads commands up to the next clock edge.
    fn advance(&mut self) -> Result<Option<Span>, InputError> {
        while self.tokens.advance()? {
            if let Some(span) = self.command()? {
                return Ok(Some(span));
            }
        }
        self.ended = true;
        self.edge()
    }

    /// Executes the command that begins with the last token.
    fn command(&mut self) -> Result<Option<Span>, InputError> {
        match *self.tokens.token() {
            [b'#', ..] => return self.time_stamp(),
            [b'b' | b'B', ..] => self.vector()?,
            [b'r' | b'R'] => {
                self.tokens.operand("a real value")?;
                self.tokens.operand("a change of a real value")?;
            }
            [b'r' | b'R' | b's' | b'S', ..] => {
                self.tokens.operand("a change of a value")?;
            }
            // A port of an extended VCD: its state, two strengths and its identifier code.
            [b'p', ..] => {
                for _ in 0..3 {
                    self.tokens.operand("a change of a port")?;
                }
            }
            [b'$', ..] => self.keyword()?,
            [first, ..] if Level::from_byte(first).is_some() => self.scalar(first)?,
            _ => return Err(self.tokens.unexpected("a time or a change of a value")),
        }
        Ok(None)
    }

    /// Skips a keyword and its text. Keywords that begin with `$dump` enclose changes of values,
    /// which are not skipped.
    fn keyword(&mut self) -> Result<(), InputError> {
        match self.tokens.token() {
            token if token == b"$end" || token.starts_with(b"$dump") => Ok(()),
            _ => self.tokens.skip_text(),
        }
    }

    fn time_stamp(&mut self) -> Result<Option<Span>, InputError> {
        if self.tokens.token() == b"#" {
            self.tokens.operand("a time")?;
        }
        let token = self.tokens.token();
        let digits = token.strip_prefix(b"#").unwrap_or(token);
        let time: Option<i128> = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
        let time = time.ok_or_else(|| self.tokens.unexpected("a time"))?;
        let line = self.tokens.line();
        if time < self.time && self.timed {
            let reason = format!("at time {}: time goes back to {time}", self.time);
            return Err(self.tokens.fail_at(line, reason));
        }
        let span = if time != self.time { self.edge()? } else { None };
        (self.time, self.time_line, self.timed) = (time, line, true);
        Ok(span)
    }

    fn scalar(&mut self, value: u8) -> Result<(), InputError> {
        if self.tokens.token().len() == 1 {
            self.tokens.operand("a change of a value")?;
            self.signals.change(&mut self.levels, self.tokens.token(), &[value]);
        } else {
            self.signals.change(&mut self.levels, &self.tokens.token()[1..], &[value]);
        }
        Ok(())
    }

    fn vector(&mut self) -> Result<(), InputError> {
        let line = self.tokens.line();
        self.digits.clear();
        if self.tokens.token().len() == 1 {
            self.digits.extend_from_slice(self.tokens.operand("a vector")?);
        } else {
            self.digits.extend_from_slice(&self.tokens.token()[1..]);
        }
        let code = self.tokens.operand("a change of a vector")?;
        if !self.signals.change(&mut self.levels, code, &self.digits) {
            let got = tokens::start(&self.digits);
            return Err(self.tokens.malformed_at(line, "the digits of levels", &got));
        }
        Ok(())
    }

    /// Ends a time stamp. Returns a span if the clock rose in it.
    fn edge(&mut self) -> Result<Option<Span>, InputError> {
        let before = std::mem::replace(&mut self.before, self.levels.clone());
        let rose = before.clock() == Level::Low && self.levels.clock() == Level::High;
        if !rose {
            return Ok(None);
        }
        let sampled = match self.sample {
            Sample::Before => before,
            Sample::After => self.levels.clone(),
        };
        let pins = if !self.known && !sampled.all_known(&self.signals) {
            Pins { cke: 0, ..Pins::DESELECT }
        } else {
            self.known = true;
            sampled
                .pins(&self.signals)
                .map_err(|pin| self.fail(format_args!("{pin} is neither 0 nor 1")))?
        };
        Ok(Some(Span { clocks: 1, pins }))
    }
}

impl Iterator for VcdReader {
    type Item = Result<Span, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.advance().transpose();
        self.ended |= !matches!(item, Some(Ok(_)));
        if item.is_none() && !self.rose {
            return Some(Err(self.fail("the clock never rises")));
        }
        self.rose = true;
        item
    }
}

#[cfg(test)]
mod tests;
