//! Prints the counts of simulated caches as text, and as JSON with the names of docs/glossary.md.

use std::path::PathBuf;

use hmtt::cache::places::Place;
use hmtt::cache::{CacheConfiguration, Counters, Replacement};
use hmtt_format::escape;
use serde_json::{Value, json};

use super::code::{Code, Function, Instruction};
use super::model::Model;
use crate::tag::warnings::shown;

/// Maximum number of functions that are printed as text.
const ROWS: usize = 10;

/// `part` in percent of `whole`; 0 if `whole` is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The counts as a table, and the functions with most misses.
pub fn text(model: &Model, code: &Code) -> String {
    let Model { reads, writes, unknown, line_reads, line_writes, .. } = model;
    let mut lines = vec![format!("caches: {reads} reads, {writes} writes of the program")];
    if *unknown > 0 {
        lines.push(format!("{unknown} accesses are left out: their addresses are not known"));
    }
    if model.refused() > 0 {
        let refused = model.refused();
        lines.push(format!(
            "of these, {refused} are elements of string instructions, which are too many"
        ));
    }
    lines.push(format!(
        "{:<6}{:>10}{:>6}{:>6}{:>16}{:>16}{:>9}{:>16}",
        "", "KiB", "ways", "line", "lines accessed", "misses", "%", "write-backs"
    ));
    for ((configuration, counters), level) in model.levels().zip(1..) {
        let CacheConfiguration { size_bytes, ways, line_bytes, .. } = configuration;
        let Counters { hits, misses, write_backs } = counters;
        let size = size_bytes as f64 / 1024.0;
        lines.push(format!(
            "{:<6}{size:>10}{ways:>6}{line_bytes:>6}{:>16}{misses:>16}{:>9.3}{write_backs:>16}",
            Place::Level(level).to_string(),
            hits + misses,
            percent(misses, hits + misses),
        ));
    }
    lines.push(format!(
        "memory: {line_reads} lines read, {line_writes} written; {} changed lines are left in caches",
        model.dirty_lines()
    ));
    let levels = model.levels().count();
    let functions = code.functions();
    if !functions.is_empty() {
        let names = (1..=levels).map(|level| format!("{:>16}", format!("l{level} misses")));
        lines.push(format!("{}  function", names.collect::<String>()));
    }
    for Function { name, object, misses } in functions.iter().take(ROWS) {
        let misses = misses[..levels].iter().map(|count| format!("{count:>16}"));
        let name = name.as_deref().unwrap_or("?");
        let object = object.as_deref().map(|path| format!(" ({})", shown(path)));
        lines.push(format!(
            "{}  {}{}",
            misses.collect::<String>(),
            escape::name(name),
            object.unwrap_or_default()
        ));
    }
    lines.join("\n")
}

/// The counts as JSON.
pub fn json(model: &Model, code: &Code) -> String {
    let caches: Vec<Value> =
        model.levels().zip(1..).map(|(one, level)| cache(one, level)).collect();
    let levels = caches.len();
    let path = |object: &Option<PathBuf>| object.as_ref().map(|path| path.display().to_string());
    let function = |Function { name, object, misses }: &Function| json!({ "function": name, "object": path(object), "cache_misses": misses[..levels] });
    let instruction = |entry: &Instruction| {
        let Instruction { address, object, function, misses } = entry;
        let (name, offset) = function.as_ref().map(|(name, offset)| (name, offset)).unzip();
        json!({
            "code_address": format!("{address:#x}"),
            "object": path(object),
            "function": name,
            "offset": offset,
            "cache_misses": misses[..levels],
        })
    };
    let value = json!({
        "reads": model.reads,
        "writes": model.writes,
        "unknown_accesses": model.unknown,
        "caches": caches,
        "line_reads": model.line_reads,
        "line_writes": model.line_writes,
        "dirty_lines": model.dirty_lines(),
        "functions": code.functions().iter().map(function).collect::<Vec<_>>(),
        "instructions": code.instructions().iter().map(instruction).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn cache((configuration, counters): (CacheConfiguration, Counters), level: u8) -> Value {
    let CacheConfiguration { size_bytes, ways, line_bytes, replacement, inclusive } = configuration;
    let Counters { hits, misses, write_backs } = counters;
    let replacement = match replacement {
        Replacement::Lru => "lru".to_owned(),
        Replacement::TreePlru => "tree-plru".to_owned(),
        Replacement::Random { seed } => format!("random:{seed}"),
    };
    json!({
        "name": Place::Level(level).to_string(),
        "size_bytes": size_bytes,
        "ways": ways,
        "line_bytes": line_bytes,
        "replacement": replacement,
        "inclusive": inclusive,
        "cache_hits": hits,
        "cache_misses": misses,
        "write_backs": write_backs,
    })
}
