//! Parses the words of a command line into commands to the card.

use anyhow::{Context, Result, bail};
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::control::{Control, SliceCode, TAG_BASE_BITS, Threshold};

use crate::tag::values::{duration, number};

/// The part of `--help` that lists the commands.
pub const HELP: &str = "Commands, made in the order in which they are given:
  reset                               Stop, restore the power-on settings, start
  start                               Start the capture
  stop                                Stop the capture
  mode line|page|frequency|analysis   Select the kind of records
  granularity line|burst              Select the unit of line records
  slices on|off                       Send slices beside line or page records
  slice TIME                          Set the length of slices: 1us, 2us, 5us, 10us ... 1s
  threshold WORDS                     Send frames of 8, 16, 32, 64, 96, 128, 160 or 187 words
  tag-base ADDRESS                    Set the physical address of the tag window
  tag-window on|off                   Turn accesses to the tag window into tags
  analysis on|off                     Send the analysis beside any mode
  mark NUMBER                         Make a mark for free use, 0 to 255
  mark kernel-enter|kernel-exit       Make the mark that the kernel was entered or left

Exit codes: 0 all accesses made, 1 error, 2 wrong usage. Nothing shows whether a card has taken a
command, except its frames.";

/// Parses a sequence of commands.
///
/// # Errors
/// A word is no command, or its value is missing or wrong. The error is a text for the user.
pub fn parse(words: &[String]) -> Result<Vec<Control>> {
    let mut words = words.iter().map(String::as_str);
    let mut controls = Vec::new();
    while let Some(word) = words.next() {
        controls.push(match word {
            "reset" => Control::Reset,
            "start" => Control::Start,
            "stop" => Control::Stop,
            _ => with_value(word, &mut words)?,
        });
    }
    Ok(controls)
}

/// Parses a command that has a value. `words`: the words after the command; the first of them is
/// the value, and is removed.
fn with_value<'a>(word: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<Control> {
    let parse: fn(&str) -> Result<Control> = match word {
        "mode" => |value| Ok(Control::Mode(mode(value)?)),
        "granularity" => |value| Ok(Control::Granularity(granularity(value)?)),
        "slices" => |value| Ok(Control::Slices(switch(value)?)),
        "slice" => |value| Ok(Control::Slice(slice(value)?)),
        "threshold" => |value| Ok(Control::Threshold(threshold(value)?)),
        "tag-base" => |value| Ok(Control::TagBase(base(value)?)),
        "tag-window" => |value| Ok(Control::TagWindow(switch(value)?)),
        "analysis" => |value| Ok(Control::Analysis(switch(value)?)),
        "mark" => mark,
        _ => bail!("{word} is no command to a card"),
    };
    let value = words.next().with_context(|| format!("{word} requires a value"))?;
    parse(value).with_context(|| format!("{word} {value}"))
}

fn mode(value: &str) -> Result<Mode> {
    let mode = (0..=u8::MAX).map_while(Mode::from_code).find(|mode| mode.name() == value);
    mode.context("a mode is line, page, frequency or analysis")
}

fn granularity(value: &str) -> Result<Granularity> {
    let units = [Granularity::Line, Granularity::Burst];
    units.into_iter().find(|unit| unit.name() == value).context("a granularity is line or burst")
}

fn switch(value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("expected on or off"),
    }
}

fn slice(value: &str) -> Result<SliceCode> {
    let micros = duration(value).map(|time| time.as_micros()).ok();
    let code = micros.and_then(|micros| SliceCode::from_micros(micros.try_into().ok()?));
    code.context("a slice is 1, 2 or 5 times a power of ten, from 1us to 1s")
}

fn threshold(value: &str) -> Result<Threshold> {
    let words = value.parse().ok().and_then(Threshold::from_words);
    words.context("a threshold is 8, 16, 32, 64, 96, 128, 160 or 187 words")
}

fn base(value: &str) -> Result<u64> {
    let base = number(value).map_err(anyhow::Error::msg)?;
    let is_address = base >> TAG_BASE_BITS == 0;
    is_address.then_some(base).with_context(|| format!("an address has {TAG_BASE_BITS} bits"))
}

fn mark(value: &str) -> Result<Control> {
    match value {
        "kernel-enter" => Ok(Control::KernelEnter),
        "kernel-exit" => Ok(Control::KernelExit),
        _ => {
            let number = number(value).ok().and_then(|number| u8::try_from(number).ok());
            let number = number.context("a mark is 0 to 255, kernel-enter or kernel-exit")?;
            Ok(Control::Mark(number))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<Control>> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_may_have_several_commands() {
        let expected = vec![
            Control::Reset,
            Control::Mode(Mode::Page),
            Control::Slice(SliceCode::from_micros(500_000).unwrap()),
            Control::TagBase(0x1234_0000),
            Control::TagWindow(true),
            Control::Mark(16),
            Control::KernelExit,
            Control::Stop,
        ];
        let line = "reset mode page slice 500ms tag-base 0x12340000 tag-window on mark 0x10 \
                    mark kernel-exit stop";
        assert_eq!(parsed(line).unwrap(), expected);
    }

    #[test]
    fn wrong_words_and_values_are_rejected() {
        for line in [
            "restart",
            "mode",
            "mode lines",
            "slice 3us",
            "slice 18446744073709551615us",
            "threshold 9",
            "tag-base 0x10000000000",
            "tag-window 1",
            "mark 256",
            "mark -1",
            "start 1",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
