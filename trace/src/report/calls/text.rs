//! Prints the report of calls as tables of text.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use hmtt_format::escape;

use super::{Calls, Edge, Exits, Function, Sum, TaggingEnd, Thread, Times};

/// Selects tables besides the table of all functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Print a table for each thread.
    pub threads: bool,
    /// Print the callers and callees of each function.
    pub graph: bool,
}

impl Calls {
    /// Writes the tables.
    ///
    /// # Errors
    /// The errors of writing to `output`.
    pub fn write(&self, tables: Tables, output: &mut dyn Write) -> io::Result<()> {
        self.write_head(output)?;
        let rows = self.functions.iter().map(|function| (&function.sum, function.name.as_str()));
        write_table(&rows.collect::<Vec<_>>(), output)?;
        self.write_accesses(output)?;
        if !self.blocks.is_empty() {
            writeln!(output, "\n{:>14}  block", "entries")?;
        }
        for block in &self.blocks {
            let name = block.name();
            writeln!(output, "{:>14}  {}", block.entries, escape::name(&name))?;
        }
        if tables.threads {
            let rows = self.rows_of_threads();
            let mut threads = self.threads.iter().zip(rows);
            threads.try_for_each(|(thread, rows)| write_thread(thread, rows, output))?;
        }
        if tables.graph { self.write_graph(output) } else { Ok(()) }
    }

    fn write_head(&self, output: &mut dyn Write) -> io::Result<()> {
        let program = escape::name(self.program.as_deref().unwrap_or("unknown"));
        write!(output, "program  {program}, process {}", self.pid)?;
        match self.ending {
            Some(TaggingEnd::Detached) => writeln!(output, ", tags taken out while it ran")?,
            Some(TaggingEnd::Exited(status)) => writeln!(output, ", exited with {status}")?,
            Some(TaggingEnd::Signaled(signal)) => writeln!(output, ", ended by signal {signal}")?,
            Some(TaggingEnd::Replaced) => writeln!(output, ", became another program")?,
            None => writeln!(output)?,
        }
        write!(output, "events   {} of {} threads", self.events, self.threads.len())?;
        match self.duration_seconds {
            Some(seconds) => writeln!(output, " in {seconds:.6} s")?,
            None if self.timed => writeln!(output, ", times in ticks")?,
            None => writeln!(output, ", without times")?,
        }
        if self.marks != 0 {
            writeln!(output, "marks    {} on the memory bus", self.marks)?;
        }
        writeln!(output)
    }

    /// For each thread, the functions that it called, with the sums of these calls.
    fn rows_of_threads(&self) -> Vec<Vec<(Sum, &Function)>> {
        let mut rows = vec![Vec::new(); self.threads.len()];
        for function in &self.functions {
            for in_thread in &function.threads {
                rows[in_thread.place].push((in_thread.sum, function));
            }
        }
        rows
    }

    fn write_graph(&self, output: &mut dyn Write) -> io::Result<()> {
        let is_timed = self.timed;
        writeln!(output, "\ncall graph: <- who called it, -> whom it called")?;
        let (mut callers, mut callees) = (BTreeMap::new(), BTreeMap::new());
        let mut edges: Vec<&Edge> = self.edges.iter().collect();
        edges.sort_by_key(|edge| super::build::rank(&edge.sum));
        for edge in edges {
            let (caller, callee) = edge.numbers;
            callers.entry(callee).or_insert_with(Vec::new).push(edge);
            if let Some(caller) = caller {
                callees.entry(caller).or_insert_with(Vec::new).push(edge);
            }
        }
        for function in &self.functions {
            writeln!(output)?;
            let mut row = |sum: &Sum, what: fmt::Arguments<'_>| {
                if is_timed {
                    writeln!(output, "{:>14} {:>13}  {what}", sum.calls, inclusive(&sum.times))
                } else {
                    writeln!(output, "{:>14}  {what}", sum.calls)
                }
            };
            for edge in callers.get(&function.number).into_iter().flatten() {
                let caller = escape::name(edge.caller.as_deref().unwrap_or("what is not tagged"));
                row(&edge.sum, format_args!("  <- {caller}"))?;
            }
            row(&function.sum, format_args!("{}", escape::name(&function.name)))?;
            for edge in callees.get(&function.number).into_iter().flatten() {
                row(&edge.sum, format_args!("  -> {}", escape::name(&edge.callee)))?;
            }
        }
        Ok(())
    }

    /// Lists losses and unexpected contents of the log, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |text: &str, count: u64| {
            if count != 0 {
                warnings.push(format!("{text}: {count}"));
            }
        };
        warn("events lost because a thread's buffer was full", self.lost.buffer_full);
        warn("events lost because a signal came while they were written", self.lost.interrupted);
        warn("events lost because the program wrote over them", self.lost.damaged);
        warn("events lost for a reason that this version does not know", self.lost.other);
        warn("exits of calls whose entries were not seen", self.unmatched_exits);
        if let Some(trace) = &self.trace {
            trace.warn(&mut warn);
        }
        if self.lost.events != 0 {
            warnings.push("all counts and times are lower bounds".into());
        }
        let has_tags = self.trace.as_ref().is_some_and(|trace| trace.sync.is_none());
        if self.ending.is_none() && !has_tags {
            warnings.push("the log has no end: the tail may be missing".into());
        }
        warnings
    }
}

fn write_thread(
    thread: &Thread,
    mut rows: Vec<(Sum, &Function)>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let name = escape::name(thread.name.as_deref().unwrap_or_default());
    write!(output, "\nthread {} {name}: {} events", thread.thread, thread.events)?;
    match thread.lost.events {
        0 => writeln!(output)?,
        lost => writeln!(output, ", {lost} lost")?,
    }
    rows.sort_by_key(|(sum, _)| super::build::rank(sum));
    let rows: Vec<_> = rows.iter().map(|(sum, function)| (sum, function.name.as_str())).collect();
    write_table(&rows, output)
}

/// A column of the table: a way in which calls end, and its count.
struct Column(&'static str, fn(&Exits) -> u64);

const COLUMNS: [Column; 4] = [
    Column("returned", |exits| exits.returned),
    Column("abandoned", |exits| exits.abandoned),
    Column("ended", |exits| exits.ended),
    Column("open", |exits| exits.open),
];

fn write_table(rows: &[(&Sum, &str)], output: &mut dyn Write) -> io::Result<()> {
    // Columns that contain only zeros are omitted.
    let is_wanted = |column: &&Column| {
        let Column(name, count) = column;
        *name == "returned" || rows.iter().any(|(sum, _)| count(&sum.exits) != 0)
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_wanted).collect();
    let is_timed = rows.iter().any(|(sum, _)| sum.times != Times::default());
    write!(output, "{:>14}", "calls")?;
    columns.iter().try_for_each(|Column(name, _)| write!(output, " {name:>14}"))?;
    if is_timed {
        write!(output, " {:>13} {:>13}", "inclusive", "self")?;
    }
    writeln!(output, "  function")?;
    for (sum, name) in rows {
        write!(output, "{:>14}", sum.calls)?;
        for Column(_, count) in &columns {
            write!(output, " {:>14}", count(&sum.exits))?;
        }
        if is_timed {
            write!(output, " {:>13} {:>13}", inclusive(&sum.times), own(&sum.times))?;
        }
        writeln!(output, "  {}", escape::name(name))?;
    }
    Ok(())
}

fn inclusive(times: &Times) -> String {
    duration(times.inclusive_ns, times.inclusive_ticks)
}

fn own(times: &Times) -> String {
    duration(times.self_ns, times.self_ticks)
}

/// Formats nanoseconds with four digits and a unit, and ticks as a plain number.
fn duration(ns: Option<u64>, ticks: Option<u64>) -> String {
    let Some(ns) = ns else { return ticks.unwrap_or_default().to_string() };
    let (unit, scale) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = ns as f64 / scale;
    // The result never has more digits than the clock's resolution gives.
    let places = if value < 10.0 {
        3
    } else if value < 100.0 {
        2
    } else {
        1
    };
    format!("{value:.places$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_four_digits() {
        let printed = [0, 999, 1_000, 12_345, 123_456, 999_999, 1_234_567_890, 100_000_000_000];
        let printed = printed.map(|ns| duration(Some(ns), None));
        let expected = [
            "0 ns",
            "999 ns",
            "1.000 us",
            "12.35 us",
            "123.5 us",
            "1000.0 us",
            "1.235 s",
            "100.0 s",
        ];
        assert_eq!(printed.each_ref().map(String::as_str), expected);
        assert_eq!(duration(None, Some(7)), "7");
    }
}
