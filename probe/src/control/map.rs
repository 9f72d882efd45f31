//! Builds the tag map of a process, which names the functions, blocks and loops by their numbers.

use std::collections::BTreeSet;

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{
    Exits, RefusedFunction, TagMap, TaggedBlock, TaggedFunction, TaggedLoop, VERSION, Window,
};

use super::Tagged;
use super::collector::Collector;
use super::patch::PatchedFunction;
use crate::address::FileAddr;
use crate::disassembly::{Block, NaturalLoop};
use crate::stubs::tags::CARD_STRIDE;

impl Tagged {
    /// Builds the tag map. `id`: identifier of the map. `sink`: name of the output. `window_base`:
    /// physical address of the card's window, if known.
    pub fn map(&self, id: [u8; 8], sink: &str, timed: bool, window_base: Option<u64>) -> TagMap {
        let (tsc_hz, window) = match &self.tags.collector {
            Collector::Log(log) => (log.tsc_hz, None),
            Collector::Card(window, _) => (0, Some(window.bytes)),
            _ => (0, None),
        };
        let window = window.map(|bytes| Window {
            address: window_base.unwrap_or(0),
            stride_bytes: CARD_STRIDE as u32,
            bytes,
        });
        let functions = self.tags.code.functions.iter().map(|patched| TaggedFunction {
            number: patched.id,
            name: patched.function.name.clone(),
            symbols: patched.function.symbols.clone(),
            object: patched.object.clone(),
            code_address: patched.address().0,
            file_address: Some(patched.function.start),
            size_bytes: patched.function.size,
            tagged_exits: match (&self.tags.collector, patched.hidden) {
                (Collector::Counts(_), _) => Exits::None,
                (_, 0) => Exits::All,
                _ => Exits::Some,
            },
            removed: self.tags.removed.iter().find(|one| one.id == patched.id).map(|removed| {
                format!("called {:.0} times a second of processor time", removed.calls_per_second)
            }),
        });
        let refused = self.refused().iter().map(|refused| RefusedFunction {
            name: refused.function.name.clone(),
            reason: refused.reason.to_string(),
        });
        let refused_blocks = self.refused_blocks().map(|(function, block)| RefusedFunction {
            name: block.name(function),
            reason: block.refusal.map_or_else(String::new, |refusal| refusal.to_string()),
        });
        let mut loops = Vec::new();
        let blocks = self.tags.code.functions.iter().flat_map(|patched| {
            let numbers = add_loops(patched, &mut loops);
            let block = move |(number, block): (FunctionId, &Block)| TaggedBlock {
                number,
                function_number: patched.id,
                code_address: patched.in_memory(FileAddr(block.start)).0,
                size_bytes: block.size,
                loop_number: block.innermost_loop.and_then(|innermost| numbers[innermost]),
            };
            patched.numbered_blocks().map(block)
        });
        let blocks = blocks.collect();
        TagMap {
            version: VERSION,
            id,
            program: self.program().to_owned(),
            pid: self.process.pid.as_raw() as u32,
            sink: sink.to_owned(),
            timed,
            tsc_hz,
            window,
            functions: functions.collect(),
            blocks,
            loops,
            refused: refused.chain(refused_blocks).collect(),
        }
    }
}

/// Appends the loops of a function whose heads are tagged to the list.
///
/// Returns a number for each loop of the function: its own if its head is tagged, otherwise the
/// number of the innermost tagged loop around it. For example, of three nested loops only the
/// outermost and the innermost have tagged heads: with an empty list, the result is 0, 0, 1.
fn add_loops(patched: &PatchedFunction, list: &mut Vec<TaggedLoop>) -> Vec<Option<u32>> {
    let tagged: BTreeSet<u64> = patched.blocks.iter().map(|block| block.start).collect();
    let mut numbers: Vec<Option<u32>> = Vec::with_capacity(patched.loops.len());
    for NaturalLoop { head, outer, exits } in &patched.loops {
        let outer_number = outer.and_then(|outer| numbers[outer]);
        if !tagged.contains(head) {
            numbers.push(outer_number);
            continue;
        }
        let number = list.len() as u32;
        let seen = exits.iter().filter(|exit| tagged.contains(exit)).count();
        let tagged_exits = match exits.len() - seen {
            0 => Exits::All,
            _ if seen == 0 => Exits::None,
            _ => Exits::Some,
        };
        list.push(TaggedLoop {
            number,
            function_number: patched.id,
            code_address: patched.in_memory(FileAddr(*head)).0,
            outer_number,
            tagged_exits,
        });
        numbers.push(Some(number));
    }
    numbers
}
