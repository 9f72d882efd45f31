//! Defines the options of commands whose results can be split into groups.

use std::path::Path;
#[cfg(feature = "tag")]
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hmtt::analysis::split::{By, Functions, MOST_GROUPS, Pair, Place};
#[cfg(feature = "tag")]
use hmtt_files::tag_map::TagMap;

use crate::usage::ensure_usage;

/// How results are split.
#[derive(clap::Args)]
pub struct SplitOptions {
    /// Print the results of groups, too: by kernel and user, by two marks (mark=1,2), by function,
    /// or by thread
    #[arg(long, value_name = "kernel[=A,B]|mark=A,B|function|thread", value_parser = parse)]
    by: Option<Choice>,
    /// Names of the functions of a capture's tags, for --by function: FILE.json of `hmtt tag --sink
    /// card`
    #[cfg(feature = "tag")]
    #[arg(long, value_name = "MAP.json", requires = "by")]
    map: Option<PathBuf>,
    /// An access belongs to all open functions, and not only to the innermost one
    #[arg(long, requires = "by")]
    inclusive: bool,
    /// Have at most this many groups, and one of all others
    #[arg(long, value_name = "N", requires = "by", default_value_t = MOST_GROUPS)]
    groups: usize,
}

/// Values of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Kernel(Pair),
    Mark(Pair),
    Function,
    Thread,
}

impl SplitOptions {
    /// The rule that divides accesses into groups; `None` without `--by`.
    ///
    /// # Errors
    /// Options do not fit together, or the map cannot be read.
    pub fn by(&self) -> Result<Option<By>> {
        let Some(by) = self.by else { return Ok(None) };
        let is_function = by == Choice::Function;
        let for_functions = |option: &str| format!("{option} is for --by function");
        ensure_usage(is_function || !self.inclusive, || for_functions("--inclusive"))?;
        ensure_usage(is_function || self.map().is_none(), || for_functions("--map"))?;
        Ok(Some(match by {
            Choice::Kernel(pair) => By::Kernel(pair),
            Choice::Mark(pair) => By::Mark(pair),
            Choice::Function => By::Function(self.functions()?),
            Choice::Thread => By::Thread,
        }))
    }

    fn functions(&self) -> Result<Functions> {
        #[cfg(feature = "tag")]
        let map = self.map.as_ref().map(|map| TagMap::load(map)).transpose()?;
        Ok(Functions {
            #[cfg(feature = "tag")]
            map,
            inclusive: self.inclusive,
        })
    }

    /// The path of the map of tags.
    pub fn map(&self) -> Option<&Path> {
        #[cfg(feature = "tag")]
        return self.map.as_deref();
        #[cfg(not(feature = "tag"))]
        None
    }

    /// Whether an access counts for all functions on the call stack.
    pub fn is_inclusive(&self) -> bool {
        self.inclusive
    }

    /// Maximum number of groups that are kept.
    pub fn most(&self) -> usize {
        self.groups
    }

    /// Whether accesses are split by function.
    pub fn is_by_function(&self) -> bool {
        self.by == Some(Choice::Function)
    }
}

/// Parses a place: the number of a free mark, or `tag:` with the offset of a tag in the card's
/// window. Examples: `7`, `tag:0x40`.
fn place(text: &str) -> Result<Place> {
    let text = text.trim();
    if let Some(offset) = text.strip_prefix("tag:") {
        let digits = offset.strip_prefix("0x");
        let number =
            digits.map_or_else(|| offset.parse(), |digits| u32::from_str_radix(digits, 16));
        return number.map(Place::Tag).context("expected the offset of a tag, as in tag:0x40");
    }
    let number = text.parse().context("expected the number of a mark, 0 to 255, or tag:OFFSET")?;
    Ok(Place::free_mark(number))
}

fn pair(text: &str) -> Result<Pair> {
    let (begin, end) = text.split_once(',').context("expected a begin and an end, as in 1,2")?;
    let pair = Pair { begin: place(begin)?, end: place(end)? };
    ensure!(pair.begin != pair.end, "the begin and the end are the same");
    Ok(pair)
}

fn parse(text: &str) -> Result<Choice> {
    let (what, value) = text.split_once('=').map_or((text, None), |(what, of)| (what, Some(of)));
    Ok(match (what, value) {
        ("kernel", value) => Choice::Kernel(value.map_or(Ok(Pair::KERNEL), pair)?),
        ("mark", Some(value)) => Choice::Mark(pair(value)?),
        ("mark", None) => bail!("expected two marks, as in mark=1,2"),
        ("function", None) => Choice::Function,
        ("thread", None) => Choice::Thread,
        _ => bail!("expected kernel, kernel=A,B, mark=A,B, function or thread"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_in_one_word() {
        let mark = |begin, end| Pair { begin: Place::free_mark(begin), end: Place::free_mark(end) };
        assert_eq!(parse("kernel").unwrap(), Choice::Kernel(Pair::KERNEL));
        assert_eq!(parse("kernel=7,8").unwrap(), Choice::Kernel(mark(7, 8)));
        assert_eq!(parse("mark=1, 255").unwrap(), Choice::Mark(mark(1, 255)));
        let tags = Pair { begin: Place::Tag(64), end: Place::Tag(128) };
        assert_eq!(parse("mark=tag:0x40,tag:128").unwrap(), Choice::Mark(tags));
        for wrong in ["", "mark", "mark=1", "mark=1,1", "mark=1,256", "thread=1", "kernel=", "x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
