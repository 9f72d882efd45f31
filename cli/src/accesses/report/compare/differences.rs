//! Compares the numbers of two files, and prints the differences as text, as CSV, and as a table.

use std::io::{self, Write};

use hmtt::analysis::rows::Outcomes;
use hmtt::analysis::{Detail, LINE_LOG2};
use serde::Serialize;

use super::{SIDES, Side};
use crate::accesses::figures::power_of_two;
use crate::accesses::output::optional;
use crate::accesses::report::chart::{Part, Table, Unit};
use crate::accesses::report::found::Found;
use crate::accesses::report::modes::Modes;
use crate::accesses::report::numbers::{exact, text};

/// Numbers are marked if the larger one is at least this many times the smaller one.
const MARKED: f64 = 1.05;

/// The notation of a number.
#[derive(Clone, Copy)]
pub enum Shown {
    Exact,
    In(Unit),
}

impl Shown {
    fn text(self, value: f64) -> String {
        match self {
            Shown::Exact => exact(value),
            Shown::In(unit) => text(unit, value),
        }
    }
}

/// A number of both files, and its difference.
#[derive(Serialize)]
pub struct Difference {
    /// Name of the number: a result's name in the JSON of one file, or a cache size.
    name: String,
    /// Value in the first file, if it is known.
    value_a: Option<f64>,
    /// Value in the second file, if it is known.
    value_b: Option<f64>,
    /// `value_b` - `value_a`.
    difference: Option<f64>,
    /// `value_b` / `value_a`; unknown if `value_a` is 0.
    ratio: Option<f64>,
    /// Whether the number is marked: the values differ by the factor `MARKED`, or only one of them
    /// is known.
    pub differs: bool,
    #[serde(skip)]
    words: String,
    #[serde(skip)]
    shown: Shown,
}

impl Difference {
    pub fn new(
        name: impl Into<String>,
        words: impl Into<String>,
        shown: Shown,
        values: [Option<f64>; 2],
    ) -> Self {
        let [value_a, value_b] = values;
        let both = value_a.zip(value_b);
        let ratio = both.filter(|(one, _)| *one != 0.0).map(|(one, other)| other / one);
        let differs = match both {
            // The ratio to the smaller value does not depend on the order of the files.
            Some((first, second)) => {
                first != second && first.max(second) / first.min(second) >= MARKED
            }
            None => value_a.is_some() != value_b.is_some(),
        };
        let difference = both.map(|(one, other)| other - one);
        let (name, words) = (name.into(), words.into());
        Difference { name, value_a, value_b, difference, ratio, differs, words, shown }
    }

    /// The cells of a table: name, both values, difference and ratio.
    pub fn cells(&self) -> [String; 5] {
        let known = |value: Option<f64>| {
            value.map_or("not known".to_owned(), |value| self.shown.text(value))
        };
        let signed = |value: f64| {
            let sign = if value < 0.0 { "-" } else { "+" };
            format!("{sign}{}", self.shown.text(value.abs()))
        };
        [
            self.words.clone(),
            known(self.value_a),
            known(self.value_b),
            self.difference.map_or("-".to_owned(), signed),
            self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
        ]
    }
}

/// CSV columns of differences.
pub const HEADING: &str = "name,value_a,value_b,difference,ratio,differs";

/// Writes the numbers as CSV.
pub fn write_rows(numbers: &[Difference], output: &mut dyn Write) -> io::Result<()> {
    numbers.iter().try_for_each(|number| {
        let Difference { name, value_a, value_b, difference, ratio, differs, .. } = number;
        let [value_a, value_b, difference, ratio] =
            [value_a, value_b, difference, ratio].map(|value| optional(*value));
        writeln!(output, "{name},{value_a},{value_b},{difference},{ratio},{differs}")
    })
}

/// Takes a number out of the results of a file. Returns `None` if the number is not known.
type Number = fn(&Found) -> Option<f64>;

/// The share of one outcome among the accesses with known banks and rows; `None` without such
/// accesses. `count`: returns the number of accesses with the outcome.
fn row_share(results: &Found, count: impl Fn(&Outcomes) -> u64) -> Option<f64> {
    let total: u64 = results.rows.iter().map(|memory| memory.outcomes.accesses()).sum();
    let part: u64 = results.rows.iter().map(|memory| count(&memory.outcomes)).sum();
    (total > 0).then(|| part as f64 / total as f64)
}

/// Returns `value`; `None` if all accesses of the file have less detail than `needed`.
fn known(results: &Found, needed: Detail, value: f64) -> Option<f64> {
    Modes::of_sums(&results.stats).absent(needed).is_none().then_some(value)
}

/// Bytes of all accesses, if all sizes are known.
fn access_bytes(results: &Found) -> Option<f64> {
    (results.stats.unsized_accesses == 0).then_some(results.stats.access_bytes as f64)
}

#[rustfmt::skip]
const NUMBERS: [(&str, &str, Shown, Number); 14] = [
    ("accesses", "accesses", Shown::Exact, |of| Some(of.stats.accesses as f64)),
    ("reads", "reads", Shown::Exact, |of| Some(of.stats.reads as f64)),
    ("writes", "writes", Shown::Exact, |of| Some(of.stats.writes as f64)),
    ("access_bytes", "bytes accessed", Shown::In(Unit::Bytes), access_bytes),
    ("pages", "pages of 4 KiB", Shown::Exact, |of| known(of, Detail::Page, of.stats.pages as f64)),
    ("lines", "lines of 64 bytes", Shown::Exact, |of| known(of, Detail::Address, of.stats.lines as f64)),
    ("duration_seconds", "time", Shown::In(Unit::Seconds), |of| of.stats.duration_seconds),
    ("accesses_per_second", "accesses in a second", Shown::In(Unit::Count), |of| of.stats.accesses_per_second),
    ("bytes_per_second", "mean bandwidth", Shown::In(Unit::BytesPerSecond), |of| of.stats.bytes_per_second),
    ("first_touches", "first touches of lines", Shown::Exact, |of| known(of, Detail::Address, of.reuse.first_touches)),
    ("same_row_share", "to the same row", Shown::In(Unit::Share), |of| row_share(of, |of| of.same_row_accesses)),
    ("other_row_share", "to another row", Shown::In(Unit::Share), |of| row_share(of, |of| of.other_row_accesses)),
    ("gap_count", "gaps", Shown::Exact, |of| Some(of.stats.gap_count as f64)),
    ("lost_accesses", "accesses known to be lost", Shown::Exact, |of| Some(of.stats.lost_accesses as f64)),
];

/// Compares all numbers of two files.
pub fn differences(sides: &[Side; 2]) -> Vec<Difference> {
    let both = |of: &dyn Fn(&Found) -> Option<f64>| [of(&sides[0].found), of(&sides[1].found)];
    let numbers = NUMBERS.into_iter();
    let mut rows: Vec<Difference> = numbers
        .map(|(name, words, shown, of)| Difference::new(name, words, shown, both(&of)))
        .collect();
    for bytes in sides[0].found.cache_sizes.iter().copied() {
        let size = power_of_two(bytes);
        let values = both(&|of| of.mrc.at(bytes >> LINE_LOG2));
        let name = format!("miss_ratio of {size}");
        rows.push(Difference::new(name, format!("misses, {size}"), Shown::In(Unit::Share), values));
    }
    rows
}

/// Writes the numbers as text. Numbers that differ have a star.
pub fn write_text(
    sides: &[Side; 2],
    numbers: &[Difference],
    output: &mut dyn Write,
) -> io::Result<()> {
    for (letter, side) in SIDES.into_iter().zip(sides) {
        writeln!(output, "{letter}: {}", hmtt_format::escape::message(&side.name))?;
    }
    let row = |[name, value_a, value_b, difference, ratio]: [String; 5], mark: &str| {
        format!("{name:<26} {value_a:>16} {value_b:>16} {difference:>16} {ratio:>8} {mark}")
    };
    let heads = ["", "A", "B", "B - A", "B / A"].map(str::to_owned);
    writeln!(output, "{}", row(heads, "").trim_end())?;
    for number in numbers {
        let line = row(number.cells(), if number.differs { "*" } else { "" });
        writeln!(output, "{}", line.trim_end())?;
    }
    writeln!(output, "* differs by 5 % or more, or is known of one file only")
}

pub fn table(sides: &[Side; 2], numbers: &[Difference]) -> Part {
    let rows = numbers.iter().map(|number| number.cells().to_vec()).collect();
    let about = format!(
        "A is {}, B is {}. What differs by 5 % or more, or is known of one file only, is marked.",
        sides[0].name, sides[1].name
    );
    let marked = (0..).zip(numbers).filter(|(_, one)| one.differs).map(|(row, _)| row).collect();
    let table = Table::new("Both files", &about, &["", "A", "B", "B - A", "B / A"], rows);
    Part::Table(Table { marked, wide: true, ..table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_do_not_depend_on_the_order_of_files() {
        let expected = [
            (100.0, 105.0, true),
            (100.0, 104.9, false),
            (0.0, 1.0, true),
            (0.0, 0.0, false),
            (7.0, 7.0, false),
        ];
        for (first, second, marked) in expected {
            for values in [[Some(first), Some(second)], [Some(second), Some(first)]] {
                let differs = Difference::new("", "", Shown::Exact, values).differs;
                assert_eq!(differs, marked, "{values:?}");
            }
        }
        let differs = |values| Difference::new("", "", Shown::Exact, values).differs;
        assert!(differs([Some(1.0), None]) && differs([None, Some(0.0)]) && !differs([None, None]));
    }
}
