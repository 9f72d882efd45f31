//! Compares two files: prints their numbers with the differences, and draws their charts in the
//! same axes.

mod by_number;
pub mod differences;
mod pair;
mod together;

use hmtt::analysis::Known;

use self::differences::{Difference, Shown, table};
use self::pair::Pair;
use self::together::together;
use super::chart::{Chart, Part, Parts, Table, Unit};
use super::found::Found;
use super::over_time::Memory;
use super::time::Time;

/// Short names of the two files in charts and tables.
const SIDES: [&str; 2] = ["A", "B"];

/// One of the two files, with its results.
pub struct Side {
    pub name: String,
    pub found: Found,
    pub known: Option<Known>,
}

/// The table of the banks of both files.
fn bank_table(memories: &[Memory<'_>; 2]) -> Option<Part> {
    let [first, other] = [memories[0].rows?, memories[1].rows?];
    let mut places: Vec<(u16, u16)> =
        first.banks.iter().chain(&other.banks).map(|of| (of.rank, of.bank)).collect();
    places.sort_unstable();
    places.dedup();
    let mut marked = Vec::new();
    let row = |(at, (rank, bank)): (usize, (u16, u16))| {
        let banks =
            [first, other].map(|of| of.banks.iter().find(|of| (of.rank, of.bank) == (rank, bank)));
        let words = format!("{rank}/{bank}");
        let accesses = banks.map(|bank| Some(bank.map_or(0.0, |of| of.accesses as f64)));
        let same = banks.map(|bank| {
            Some(bank?.outcomes.same_row_accesses as f64 / bank?.accesses.max(1) as f64)
        });
        let counts = Difference::new("", words, Shown::Exact, accesses);
        let shares = Difference::new("", "", Shown::In(Unit::Share), same);
        if counts.differs || shares.differs {
            marked.push(at);
        }
        counts.cells().into_iter().chain(shares.cells().into_iter().skip(1).take(3)).collect()
    };
    let rows: Vec<Vec<String>> = places.into_iter().enumerate().map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let heads =
        ["rank/bank", "accesses A", "B", "B - A", "B / A", "same row A", "same row B", "B - A"];
    let about = "Accesses of each bank, and the part of them to the row of the bank's last access.";
    Some(Part::Table(Table { marked, wide: true, ..Table::new("Banks", about, &heads, rows) }))
}

/// All parts of a comparison.
pub fn parts(sides: &[Side; 2], numbers: &[Difference]) -> Parts {
    let [memory_a, memory_b] = [0, 1].map(|at| sides[at].found.memory(0, sides[at].known.as_ref()));
    let mut first = vec![table(sides, numbers)];
    let used = |of: &Memory<'_>| !of.time.slices.is_empty();
    let mut over_time = Vec::new();
    match memory_a.filter(used).zip(memory_b.filter(used)) {
        Some((memory_a, memory_b))
            if Time::new(memory_a.time).is_like(&Time::new(memory_b.time)) =>
        {
            let pair = Pair::new([memory_a, memory_b]);
            over_time.extend(pair.over_time());
            over_time.extend(pair.heat_maps());
            over_time.extend(bank_table(&pair.memories));
        }
        Some((memory_a, memory_b)) => {
            let reason = "The files have different units of time, so charts over time have axes of their own.";
            first.push(Part::absent("Time", reason, true));
            for (side, memory) in SIDES.into_iter().zip([memory_a, memory_b]) {
                over_time.extend(memory.parts().into_iter().filter_map(|part| apart(part, side)));
            }
        }
        None => first.push(Part::absent("Time", "One of the files has no accesses.", true)),
    }
    if sides.iter().any(|side| side.found.timeline.len() > 1) {
        let reason = "Charts over time are those of the first memory of each file.";
        first.push(Part::absent("Memories", reason, true));
    }
    first.extend(over_time);
    Parts { first, memories: Vec::new(), last: together(sides) }
}

/// The chart of one file, which stands beside the chart of the other file. The two charts are not
/// zoomed together.
fn apart(part: Part, side: &str) -> Option<Part> {
    match part {
        Part::Chart(chart) => {
            let title = format!("{}, {side}", chart.title);
            Some(Part::Chart(Chart { title, wide: false, is_time: false, ..chart }))
        }
        Part::Absent { title, reason, .. } => {
            Some(Part::Absent { title: format!("{title}, {side}"), reason, wide: false })
        }
        Part::Table(_) => None,
    }
}
