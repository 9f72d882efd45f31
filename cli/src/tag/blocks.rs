//! Prints lists and counts of basic blocks, as text and JSON.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use hmtt_format::escape;
use hmtt_probe::control::{Tagged, finer_verdicts};
use hmtt_probe::disassembly::Block;
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::selection::Selection;
use serde_json::{Value, json};

/// Lists the chosen blocks, and the reasons why some cannot be tagged.
pub fn list(image: &Image, selection: &Selection, is_json: bool) -> Result<()> {
    let mut output = std::io::stdout().lock();
    let verdicts = finer_verdicts(image, selection);
    let blocks = verdicts.iter().filter_map(|(_, rewrite)| Some(&rewrite.as_ref().ok()?.blocks));
    let heads: Vec<u64> = blocks.flatten().map(|block| block.start).collect();
    let mut lines = image.find_lines(&heads)?.into_iter();
    let mut all = Vec::new();
    for (function, rewrite) in &verdicts {
        let Function { name, start, size, .. } = function;
        match rewrite {
            Ok(rewrite) => rewrite.blocks.iter().try_for_each(|block| {
                let line = lines.next().flatten();
                if is_json {
                    let mut value = described(function, block);
                    value["line"] = line.into();
                    value["refused"] = block.refusal.as_ref().map(ToString::to_string).into();
                    all.push(value);
                    return Ok(());
                }
                let text = shown(function, block, line.as_deref());
                writeln!(output, "{}", escape::name(&text))
            })?,
            Err(refusal) if is_json => {
                all.push(json!({ "function": name, "refused": refusal.to_string() }));
            }
            Err(refusal) => {
                let name = escape::name(name);
                writeln!(output, "{start:x} {size} {name}: not tagged: {refusal}")?;
            }
        }
    }
    if is_json {
        writeln!(output, "{}", serde_json::to_string_pretty(&json!({ "blocks": all }))?)?;
    }
    Ok(())
}

/// The JSON description of a block.
fn described(function: &Function, block: &Block) -> Value {
    json!({
        "function": function.name,
        "offset": block.start.wrapping_sub(function.start).cast_signed(),
        "address": format!("{:x}", block.start),
        "size": block.size,
        "loop": block.is_loop,
    })
}

/// The text description of a block. `line`: its source line, if known.
fn shown(function: &Function, block: &Block, line: Option<&str>) -> String {
    let mut text = format!("{:x} {} {}", block.start, block.size, block.name(function));
    if block.is_loop {
        text += " loop";
    }
    if let Some(line) = line {
        text = text + " (" + line + ")";
    }
    match &block.refusal {
        Some(refusal) => format!("{text}: not tagged: {refusal}"),
        None => text,
    }
}

/// Prints how many blocks are not tagged, if there are any. `whose`: prefix of the message.
pub fn tell(tagged: &Tagged, whose: &str) {
    let refused = tagged.refused_blocks().count();
    if refused != 0 {
        let all = refused + tagged.blocks().count();
        eprintln!(
            "hmtt: warning: {whose}{refused} of {all} blocks are not tagged; hmtt tag list says why"
        );
    }
}

/// A block and the number of its executions.
#[derive(Clone)]
pub struct Counted {
    /// Readable name of the block.
    pub name: String,
    /// File that contains the block.
    pub object: PathBuf,
    /// Address of its first instruction, in the file.
    pub address: u64,
    /// Number of executions.
    pub count: u64,
    /// JSON description without the count.
    described: Value,
}

impl Counted {
    /// The JSON description with the count.
    pub fn json(&self) -> Value {
        let mut value = self.described.clone();
        value["count"] = self.count.into();
        value
    }
}

/// Counts of blocks, by function and address. `total`: returns the count of an event number.
pub fn counted(tagged: &Tagged, total: impl Fn(usize) -> u64) -> Vec<Counted> {
    let blocks = tagged.blocks().map(|(number, object, function, block)| Counted {
        name: block.name(function),
        object: object.to_owned(),
        address: block.start,
        count: total(number as usize),
        described: described(function, block),
    });
    blocks.collect()
}
