//! Prints the results of seeds, as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Outcome;
use super::family::Family;
use super::report::{Reached, Routed};

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Returns the line of a seed.
pub fn line(routed: &Routed) -> String {
    let clock = |clock: &Reached| format!("{} {:.1} MHz", clock.name, clock.achieved);
    let clocks: Vec<String> = routed.clocks.iter().map(clock).collect();
    format!("seed {}: {}, timing {}", routed.seed, clocks.join(", "), verdict(routed.met()))
}

/// Returns a table of all seeds, in which the packed seed is marked.
pub fn table(family: Family, outcome: &Outcome) -> String {
    let mut head = vec!["seed".to_string()];
    head.extend(family.resources().iter().map(|resource| resource.name.to_string()));
    let clocks = &outcome.routed[outcome.best].clocks;
    head.extend(clocks.iter().map(|clock| format!("{} MHz (need {})", clock.name, clock.required)));
    head.extend(["timing".to_string(), String::new()]);
    let mut rows = vec![head];
    for (index, routed) in outcome.routed.iter().enumerate() {
        let mut row = vec![routed.seed.to_string()];
        let used = routed.utilization.iter();
        row.extend(used.map(|resource| format!("{}/{}", resource.used, resource.available)));
        row.extend(routed.clocks.iter().map(|clock| format!("{:.1}", clock.achieved)));
        row.push(verdict(routed.met()).into());
        row.push(if index == outcome.best { "<- packed".into() } else { String::new() });
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// Returns the results of all seeds as JSON.
pub fn json(family: Family, outcome: &Outcome) -> Value {
    let seed = |routed: &Routed| {
        let resources: serde_json::Map<String, Value> = family
            .resources()
            .iter()
            .zip(&routed.utilization)
            .map(|(resource, usage)| {
                let name = resource.name.replace(' ', "_");
                (name, json!({"used": usage.used, "available": usage.available}))
            })
            .collect();
        let clock = |clock: &Reached| {
            json!({"name": clock.name, "required_mhz": clock.required,
                   "achieved_mhz": clock.achieved, "met": clock.met()})
        };
        let clocks: Vec<Value> = routed.clocks.iter().map(clock).collect();
        json!({"seed": routed.seed, "resources": resources, "clocks": clocks, "met": routed.met()})
    };
    let packed = outcome.packed.iter();
    json!({
        "met": outcome.met(),
        "packed_seed": outcome.routed[outcome.best].seed,
        "files": packed.map(|file| json!({"path": file.path, "bytes": file.bytes})).collect::<Vec<_>>(),
        "seeds": outcome.routed.iter().map(seed).collect::<Vec<_>>(),
    })
}
