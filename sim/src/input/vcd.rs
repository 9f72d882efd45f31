//! Reads a logic analyser's VCD as spans of pin levels, sampled at each rising edge of the clock
//! signal. The time between edges is not used.
//!
//! Clock 0 is the first rising edge in the file. Until all pins are known, CKE counts as low. After
//! that an unknown level is an error, except on pins that have no meaning at that clock.

use std::path::{Path, PathBuf};

use hmtt_format::{MemoryDescription, Pins};
use vcd::{Command, Parser, Value};

use super::lines::Reader;
use super::pin_map::{PinMap, Sample};
use super::{InputError, Recording, Span};

mod bounded;
mod signals;

use bounded::{Bound, Bounded};
use signals::{Levels, Signals};

/// Opens a VCD.
pub fn open(
    path: &Path,
    reader: Reader,
    memory: Option<MemoryDescription>,
    pins: Option<PinMap>,
) -> Result<Recording, InputError> {
    let fail = |reason: &str| InputError::Vcd { path: path.into(), reason: reason.into() };
    let pins = pins.ok_or_else(|| fail("a VCD needs a pin map (--pins)"))?;
    let memory = memory.ok_or_else(|| fail("a VCD needs a memory description (--memory)"))?;
    if memory.generation.has_act_n() && pins.act_n.is_none() {
        return Err(fail("the pin map has no act_n, which DDR4 needs"));
    }
    let bound = Bound::default();
    let mut parser = Parser::new(Bounded { reader, bound: bound.clone() });
    let signals = signals::read_header(&mut parser, &pins, || bound.begin())
        .map_err(|reason| fail(&reason))?;
    let spans = VcdReader {
        path: path.into(),
        parser,
        bound,
        signals,
        sample: pins.sample,
        levels: Levels::default(),
        before: Levels::default(),
        time: 0,
        known: false,
        ended: false,
        rose: false,
    };
    Ok(Recording { memory, clocks: None, spans: Box::new(spans) })
}

struct VcdReader {
    path: PathBuf,
    parser: Parser<Bounded<Reader>>,
    bound: Bound,
    signals: Signals,
    sample: Sample,
    /// Levels after the last command.
    levels: Levels,
    /// Levels before the current time stamp.
    before: Levels,
    time: u64,
    /// Whether every pin has been 0 or 1 at some clock.
    known: bool,
    ended: bool,
    /// Whether the clock rose at the current time stamp.
    rose: bool,
}

impl VcdReader {
    fn fail(&self, reason: impl std::fmt::Display) -> InputError {
        let reason = format!("at time {}: {reason}", self.time);
        InputError::Vcd { path: self.path.clone(), reason }
    }

    /// Reads commands up to the next clock edge.
    fn advance(&mut self) -> Result<Option<Span>, InputError> {
        loop {
            self.bound.begin();
            let span = match self.parser.next() {
                None => {
                    self.ended = true;
                    return self.edge();
                }
                Some(Err(error)) => return Err(self.fail(error)),
                Some(Ok(Command::Timestamp(time))) => {
                    if time < self.time {
                        return Err(self.fail(format_args!("time goes back to {time}")));
                    }
                    let span = if time > self.time { self.edge()? } else { None };
                    self.time = time;
                    span
                }
                Some(Ok(Command::ChangeScalar(code, value))) => {
                    self.signals.change(&mut self.levels, code, &[value]);
                    None
                }
                Some(Ok(Command::ChangeVector(code, values))) => {
                    self.signals.change(&mut self.levels, code, &values);
                    None
                }
                Some(Ok(_)) => None,
            };
            if span.is_some() {
                return Ok(span);
            }
        }
    }

    /// Ends a time stamp. Returns a span if the clock rose in it.
    fn edge(&mut self) -> Result<Option<Span>, InputError> {
        let before = std::mem::replace(&mut self.before, self.levels.clone());
        let rose = before.clock() == Value::V0 && self.levels.clock() == Value::V1;
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
mod tests {
    use super::*;
    use hmtt_format::toml_memory;

    const MEMORY: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\n\
        burst_length = 4\n[map]\ncolumn = ['p3-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
    const PINS: &str = "clock='ck'\ncke='p.cke'\ncs_n='cs'\nras_n='ras'\ncas_n='cas'\nwe_n='we'\n\
        ba=['ba0','ba1']\na='a'\n";
    const HEADER: &str = "$timescale 1ps $end $scope module p $end\n\
        $var wire 1 ! ck $end $var wire 1 \" cke $end $var wire 1 # cs $end\n\
        $var wire 1 $ ras $end $var wire 1 % cas $end $var wire 1 & we $end\n\
        $var wire 1 ' ba0 $end $var wire 1 ( ba1 $end $var wire 13 ) a [12:0] $end\n\
        $upscope $end $enddefinitions $end\n";

    fn spans(pins: &str, body: &str) -> Result<Vec<Pins>, InputError> {
        let text = format!("{HEADER}{body}");
        let reader = Box::new(std::io::Cursor::new(text.into_bytes()));
        let memory = toml_memory::parse(MEMORY).unwrap();
        let pins = PinMap::parse(pins).unwrap();
        let recording = open(Path::new("x.vcd"), reader, Some(memory), Some(pins))?;
        recording.spans.map(|span| span.map(|span| span.pins)).collect()
    }

    const START: &str = "#0 0! 1\" 1# 1$ 1% 1& 0' 0( b0 )\n";

    #[test]
    fn pins_are_sampled_at_rising_edges() {
        let body = format!("{START}#5 1!\n#7 0# 0$ b101 ) 1(\n#10 0!\n#15 1! 1#\n#20 0!\n#25 1!\n");
        let active = Pins { cs_n: 0b1110, ras_n: false, ba: 2, a: 5, ..Pins::DESELECT };
        let idle = Pins { cs_n: 0b1111, ..active };
        assert_eq!(spans(PINS, &body).unwrap(), [Pins::DESELECT, active, idle]);
        let after = format!("{PINS}sample='after'\n");
        assert_eq!(spans(&after, &body).unwrap(), [Pins::DESELECT, idle, idle]);
    }

    #[test]
    fn ranks_have_their_own_pins_or_share_a_clock_enable() {
        let pins = PINS.replace("cs_n='cs'", "cs_n=['cs','ba0']").replace("'ba0','ba1'", "'ba1'");
        let body = format!("{START}#1 1'\n#5 1!\n#7 0'\n#10 0!\n#15 1!\n#17 0\"\n#20 0!\n#25 1!\n");
        let levels: Vec<_> =
            spans(&pins, &body).unwrap().iter().map(|pins| (pins.cke, pins.cs_n)).collect();
        assert_eq!(levels, [(0b1111, 0b1111), (0b1111, 0b1101), (0, 0b1101)]);
    }

    #[test]
    fn unknown_levels_are_power_up_first_and_errors_later() {
        let off = Pins { cke: 0, ..Pins::DESELECT };
        let body = format!("#0 0! x\"\n#5 1!\n#10 0!\n{}#15 1!\n", START.replace("#0", "#12"));
        assert_eq!(spans(PINS, &body).unwrap(), [off, Pins::DESELECT]);
        let late = format!("{body}#20 0! 0# x$\n#25 1!\n");
        let error = spans(PINS, &late).unwrap_err().to_string();
        assert_eq!(error, "x.vcd: at time 25: ras_n is neither 0 nor 1");
        let deselected = format!("{body}#20 0! xras x$\n#25 1!\n").replace("xras ", "");
        assert_eq!(spans(PINS, &deselected).unwrap().len(), 3);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |pins: &str, body: &str| spans(pins, body).unwrap_err().to_string();
        let missing = PINS.replace("'ras'", "'rass'");
        assert_eq!(error(&missing, ""), "x.vcd: ras_n: there is no signal `rass`");
        let wide = PINS.replace("'we'", "'a'");
        assert_eq!(error(&wide, ""), "x.vcd: we_n: signal `a` has 13 bits, 1 expected");
        let many = PINS.replace("cs_n='cs'", "cs_n=['cs','ras','cas','we','ba0']");
        assert_eq!(error(&many, ""), "x.vcd: cs_n: more than 4 bits");
        assert_eq!(error(PINS, "#5 1!\n#4 0!"), "x.vcd: at time 5: time goes back to 4");
        assert!(error(PINS, "#5 ?").starts_with("x.vcd: at time 5: "));
        assert_eq!(error(PINS, "#5 0!\n"), "x.vcd: at time 5: the clock never rises");
    }
}
