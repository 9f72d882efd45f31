//! Compares the results of all numbers of executors, and prints tables.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::data::{self, Data, Size};
use crate::inside::{PART_QUERIES, QUERIES};
use crate::limits::PERCENT;

/// Rows of a row group, but of the last one of a part.
const GROUP_ROWS: u64 = 1 << 20;

/// What was measured.
pub struct Report {
    accesses: u64,
    large: Size,
    parts: Size,
    measured: Vec<(usize, Value)>,
}

impl Report {
    /// Begins with the sizes of the data sets.
    pub fn new(data: &Data) -> Result<Report> {
        let (large, parts) = (data::size(&data.large)?, data::size(&data.parts)?);
        Ok(Report { accesses: data.accesses, large, parts, measured: Vec::new() })
    }

    /// Adds what was measured with some executors. The rows must be those of the embedded engine,
    /// which comes first.
    pub fn add(&mut self, executors: usize, measured: Value) -> Result<()> {
        for (set, queries) in [("large", &QUERIES[..]), ("parts", &PART_QUERIES[..])] {
            for (index, (name, _)) in queries.iter().enumerate() {
                let rows = |of: &Value| of[set][index]["rows"].as_str().map(str::to_owned);
                let ours = rows(&measured).filter(|rows| !rows.is_empty());
                let ours = ours.with_context(|| format!("{name}: no rows"))?;
                let is_equal =
                    |(_, embedded): &(usize, Value)| rows(embedded).as_ref() == Some(&ours);
                ensure!(
                    self.measured.first().is_none_or(is_equal),
                    "{name}: {executors} executors have other rows than the embedded engine"
                );
            }
        }
        self.measured.push((executors, measured));
        Ok(())
    }

    /// Prints the tables.
    pub fn print(&self) {
        let Size { parts, bytes, footer_bytes } = self.large;
        let groups = parts * (self.accesses / parts).div_ceil(GROUP_ROWS);
        println!(
            "{} accesses in {parts} parts, {bytes} bytes: {:.2} an access; footers have {} bytes for each of {groups} row groups",
            self.accesses,
            bytes as f64 / self.accesses as f64,
            footer_bytes / groups
        );
        println!(
            "each executor, and the embedded engine: one thread, {PERCENT} % of a processor\n"
        );
        println!(
            "| query | executors | s | speed-up | M accesses/s of a core | between executors, MB | client and scheduler, CPU s |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|");
        for (index, (name, _)) in QUERIES.iter().enumerate() {
            self.print_query(name, index);
        }
        println!();
        self.print_parts();
    }

    fn print_query(&self, name: &str, index: usize) {
        let number =
            |of: &Value, column: &str| of["large"][index][column].as_f64().unwrap_or(f64::NAN);
        let single_entry = self.measured.iter().find(|(executors, _)| *executors == 1);
        let single_wall = single_entry.map_or(f64::NAN, |(_, measured)| number(measured, "wall"));
        for (executors, measured) in &self.measured {
            let (wall, cpu) = (number(measured, "wall"), number(measured, "executors_cpu"));
            let speed = self.accesses as f64 / 1e6 / cpu;
            if *executors == 0 {
                println!("| {name} | embedded | {wall:.2} | | {speed:.1} | | |");
                continue;
            }
            println!(
                "| {name} | {executors} | {wall:.2} | {:.2} | {speed:.1} | {:.2} | {:.2} |",
                single_wall / wall,
                number(measured, "exchanged") / 1e6,
                number(measured, "client_cpu")
            );
        }
    }

    fn print_parts(&self) {
        let Size { parts, bytes, footer_bytes } = self.parts;
        println!("{parts} small parts, {bytes} bytes, of these {footer_bytes} of footers\n");
        println!(
            "| query | executors | s | executors, CPU s | client and scheduler, CPU s | between client and scheduler, kB | between these and executors, kB |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|");
        for (index, (name, _)) in PART_QUERIES.iter().enumerate() {
            for (executors, measured) in &self.measured {
                let number = |column| measured["parts"][index][column].as_f64().unwrap_or(f64::NAN);
                let (wall, cpu) = (number("wall"), number("executors_cpu"));
                if *executors == 0 {
                    println!("| {name} | embedded | {wall:.2} | {cpu:.2} | | | |");
                    continue;
                }
                println!(
                    "| {name} | {executors} | {wall:.2} | {cpu:.2} | {:.2} | {:.0} | {:.0} |",
                    number("client_cpu"),
                    number("planned") / 1e3,
                    number("assigned") / 1e3
                );
            }
        }
    }
}
