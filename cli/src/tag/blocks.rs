//! Prints lists of basic blocks, as text and JSON.

use anyhow::Result;
use hmtt_format::escape;
use hmtt_probe::control::{block_json, finer_verdicts};
use hmtt_probe::disassembly::Block;
use hmtt_probe::elf::{Function, Image};
use hmtt_probe::selection::Selection;
use serde_json::json;

use super::super::standard_io::print;

/// Lists the chosen blocks, and the reasons why some cannot be tagged.
pub fn list(image: &Image, selection: &Selection, is_json: bool) -> Result<()> {
    let verdicts = finer_verdicts(image, selection);
    let blocks = verdicts.iter().filter_map(|(_, rewrite)| Some(&rewrite.as_ref().ok()?.blocks));
    let heads: Vec<u64> = blocks.flatten().map(|block| block.start).collect();
    let mut lines = image.find_lines(&heads)?.into_iter();
    let mut values = Vec::new();
    print(|output| {
        for (function, rewrite) in &verdicts {
            let Function { name, start, size, .. } = function;
            match rewrite {
                Ok(rewrite) => rewrite.blocks.iter().try_for_each(|block| {
                    let line = lines.next().flatten();
                    if is_json {
                        let mut value = block_json(function, block);
                        value["source_line"] = line.into();
                        value["refused"] = block.refusal.as_ref().map(ToString::to_string).into();
                        values.push(value);
                        return Ok(());
                    }
                    let text = shown(function, block, line.as_deref());
                    writeln!(output, "{}", escape::name(&text))
                })?,
                Err(refusal) if is_json => {
                    values.push(json!({ "function": name, "refused": refusal.to_string() }));
                }
                Err(refusal) => {
                    let name = escape::name(name);
                    writeln!(output, "{start:x} {size} {name}: not tagged: {refusal}")?;
                }
            }
        }
        if is_json {
            hmtt_format::json::to_writer_pretty(&mut *output, &json!({ "blocks": values }))?;
            writeln!(output)?;
        }
        Ok(())
    })
}

/// One line of text on a block. `line`: its source line, if that is known.
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
