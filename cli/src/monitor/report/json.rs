//! Prints a report as one JSON object.

use hmtt_files::profile::{Block, Profile};
use hmtt_translator::report::lines::SourceLines;
use hmtt_translator::report::{Analysis, sum};
use serde_json::{Value, json};

use super::accesses::Accesses;

/// A profile with its hottest blocks and the tables of the report. `top`: rows of each table.
/// `accesses`: accesses of another run, joined with the profile.
pub fn object(analysis: &Analysis<'_>, top: usize, accesses: Option<&Accesses>) -> String {
    let profile = analysis.profile;
    let functions = analysis.functions().into_iter().take(top).map(|function| {
        json!({
            "function": function.name,
            "object": function.object,
            "instructions": function.instructions,
            "entries": function.entries,
            "calls": function.calls,
            "returns": function.returns,
            "block_count": function.blocks,
        })
    });
    let hottest: Vec<&Block> = analysis.hottest_blocks().into_iter().take(top).collect();
    let conditional: Vec<&Block> = analysis.conditional_blocks().into_iter().take(top).collect();
    let sites: Vec<_> = analysis.indirect_sites().into_iter().take(top).collect();
    let blocks = hottest.iter().chain(&conditional).copied();
    let sources = SourceLines::find(blocks.chain(sites.iter().map(|site| site.block)));
    let block = |block: &Block| {
        let mut value = serde_json::to_value(block).unwrap_or_default();
        if let Some(line) = sources.of(block) {
            value["source_line"] = json!(line);
        }
        value
    };
    let site = |site: &hmtt_translator::report::sites::IndirectSite<'_>| {
        let mut value = block(site.block);
        let target = |(to, times): &(&Block, u64)| {
            json!({
                "number": to.number,
                "function": to.function,
                "offset": to.offset,
                "code_address": format!("{:#x}", to.code_address),
                "times": times,
            })
        };
        value["omitted"] = json!(site.omitted);
        value["targets"] = site.targets.iter().take(top).map(target).collect();
        value
    };
    // Long lists are cut to their first `top` entries.
    let superblocks = analysis.superblocks().into_iter().take(top).cloned().collect();
    let rest = Profile { blocks: Vec::new(), edges: Vec::new(), superblocks, ..profile.clone() };
    let mut document: Value = serde_json::to_value(&rest).unwrap_or_default();
    if let Value::Object(object) = &mut document {
        object.remove("edges");
    }
    document["instructions"] = json!(sum(profile.blocks.iter().map(Block::executed)));
    document["entries"] = json!(sum(profile.blocks.iter().map(|block| block.entries)));
    document["functions"] = functions.collect();
    document["blocks"] = hottest.iter().map(|one| block(one)).collect();
    document["conditional_jumps"] = conditional.iter().map(|one| block(one)).collect();
    document["indirect_sites"] = sites.iter().map(site).collect();
    if let Some(accesses) = accesses {
        document["accesses"] = accesses.json(top);
    }
    hmtt_format::json::to_string(&document).unwrap_or_default() + "\n"
}
