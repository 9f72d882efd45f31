//! Builds the tag map of a process, which names the functions and blocks by their numbers.

use hmtt_format::tag_map::{
    Exits, RefusedFunction, TagMap, TaggedBlock, TaggedFunction, VERSION, Window,
};

use super::Tagged;
use super::collector::Collector;
use crate::address::FileAddr;
use crate::stubs::tags::CARD_STRIDE;

impl Tagged {
    /// The tag map. `sink`: name of the output. `window_base`: physical address of the card's window, if known.
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
            size_bytes: patched.function.size,
            tagged_exits: match (&self.tags.collector, patched.hidden) {
                (Collector::Counts(_), _) => Exits::None,
                (_, 0) => Exits::All,
                _ => Exits::Some,
            },
            removed: self.tags.removed.iter().find(|one| one.id == patched.id).map(|one| {
                format!("called {:.0} times a second of processor time", one.calls_per_second)
            }),
        });
        let refused = self.refused().iter().map(|one| RefusedFunction {
            name: one.function.name.clone(),
            reason: one.reason.to_string(),
        });
        let refused_blocks = self.refused_blocks().map(|(function, block)| RefusedFunction {
            name: block.name(function),
            reason: block.refusal.map_or_else(String::new, |refusal| refusal.to_string()),
        });
        let blocks = self.numbered_blocks().map(|(id, patched, block)| TaggedBlock {
            number: id,
            function_number: patched.id,
            code_address: patched.in_memory(FileAddr(block.start)).0,
            size_bytes: block.size,
        });
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
            blocks: blocks.collect(),
            refused: refused.chain(refused_blocks).collect(),
        }
    }
}
