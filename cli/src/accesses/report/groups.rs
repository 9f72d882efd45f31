//! Shows groups of accesses, by kernel, mark, function or thread: as a chart and a table, and as
//! JSON and CSV.

use hmtt::analysis::split::GroupResult;
use hmtt::analysis::summary::Sums;
use serde_json::Value;

use super::chart::{Axis, Chart, Content, Part, Table, Unit};
use super::numbers::{counted, exact, share, text};
use crate::accesses::split::Groups;
use crate::accesses::split::forms::{View, name};
use crate::accesses::stats::write_row;

/// Maximum number of groups in the chart.
const DRAWN: usize = 20;
/// Maximum number of groups in the table.
const LISTED: usize = 200;

/// The groups of a report. Each group has only its sums.
pub type OwnGroups = Groups<Option<Sums>>;
type Group = GroupResult<Option<Sums>>;

/// Accesses of all groups together; 0 if an access may be in several groups.
fn all_accesses(split: &OwnGroups) -> f64 {
    let sum: u64 = split.groups.iter().map(|group| group.sums.accesses).sum();
    if split.inclusive { 0.0 } else { sum as f64 }
}

/// A bar's accesses, reads and writes in words.
fn words(group: &str, [reads, writes]: [u64; 2], total: f64) -> String {
    let accesses = reads as f64 + writes as f64;
    let part = if total > 0.0 { format!(" ({})", share(accesses, total)) } else { String::new() };
    let [reads, writes] =
        [(reads, "read"), (writes, "write")].map(|(n, noun)| counted(n as f64, noun));
    format!("{group}: {}{part}, {reads}, {writes}", counted(accesses, "access"))
}

fn chart(split: &OwnGroups) -> Part {
    let total = all_accesses(split);
    let (drawn, rest) = split.groups.split_at(split.groups.len().min(DRAWN));
    let sums = |group: &Group| [group.sums.reads, group.sums.writes];
    let mut rows: Vec<(String, [u64; 2])> =
        drawn.iter().map(|group| (name(group), sums(group))).collect();
    // Inclusive accesses cannot be added, because one access may be in several groups.
    if !rest.is_empty() && !split.inclusive {
        let sum =
            rest.iter().map(sums).fold([0; 2], |[reads, writes], [more_reads, more_writes]| {
                [reads + more_reads, writes + more_writes]
            });
        rows.push((format!("{} further groups", exact(rest.len() as f64)), sum));
    }
    let most = rows.iter().map(|(_, [reads, writes])| reads + writes).max().unwrap_or(0);
    let texts = rows.iter().map(|(name, sums)| words(name, *sums, total)).collect();
    let value = |at: usize| -> Vec<f64> { rows.iter().map(|(_, sums)| sums[at] as f64).collect() };
    let values = vec![value(0), value(1)];
    let names = vec!["reads".to_owned(), "writes".to_owned()];
    let labels = rows.iter().map(|(name, _)| name.clone()).collect();
    let shown = match rest.len() {
        0 => String::new(),
        _ if split.inclusive => format!(" The {DRAWN} with most accesses."),
        _ => format!(" The {DRAWN} with most accesses, and the sum of all others."),
    };
    let title = title(split);
    let about = format!("Reads and writes of each group.{shown}");
    let content = Content::Rows { labels, texts, names, values };
    let extent = (0.0, (most as f64 * 1.02).max(1.0));
    let [x, y] = [Axis::new("accesses", Unit::Count), Axis::new("group", Unit::Count)];
    Part::Chart(Chart::new([&title, &about], extent, x, y, content))
}

fn title(split: &OwnGroups) -> String {
    format!("Accesses by {}", split.by)
}

fn table(split: &OwnGroups) -> Part {
    let total = all_accesses(split);
    let row = |group: &Group| {
        let Sums { accesses, reads, writes, pages, lines, .. } = group.sums;
        let part = share(accesses as f64, total);
        let [accesses, reads, writes, lines] =
            [accesses, reads, writes, lines].map(|count| exact(count as f64));
        let bytes = text(Unit::Bytes, pages as f64 * 4096.0);
        let pages = format!("{} ({bytes})", exact(pages as f64));
        vec![name(group), accesses, part, reads, writes, pages, lines]
    };
    let mut about = Vec::new();
    if split.inclusive {
        about.push("accesses of a function are also those of its callers".to_owned());
    }
    if split.groups.len() > LISTED {
        about.push(format!("the first {LISTED} of {} groups", exact(split.groups.len() as f64)));
    }
    about.extend(split.notes.iter().cloned());
    let heads =
        ["group", "accesses", "of all", "reads", "writes", "pages of 4 KiB", "lines of 64 bytes"];
    let rows = split.groups.iter().take(LISTED).map(row).collect();
    let title = format!("Groups by {}", split.by);
    Part::Table(Table { wide: true, ..Table::new(&title, &about.join("; "), &heads, rows) })
}

/// The chart and the table of the groups.
pub fn parts(split: &OwnGroups) -> Vec<Part> {
    if split.groups.is_empty() {
        vec![Part::absent(&title(split), "There are no accesses.", false)]
    } else {
        vec![chart(split), table(split)]
    }
}

/// The printed form of groups, which have only their sums.
pub fn view<'v>() -> View<'v, Option<Sums>> {
    View {
        columns: &[],
        cells: &|_| Vec::new(),
        json: &|_| Value::Null,
        rows: &|group, output| write_row(&group.sums, output),
    }
}
