//! Assigns a name for display to each event number of a tag map.
//!
//! Functions with the same name get their code addresses as suffixes: `init (401000)`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hmtt_files::tag_log::FunctionId;
use hmtt_files::tag_map::{TagMap, TaggedBlock, TaggedFunction, TaggedLoop};

/// Longest name, in characters. Longer names are cut, because a name is printed with each call of
/// its function.
const MAX_NAME: usize = 4096;

/// The names of event numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: BTreeMap<FunctionId, Arc<str>>,
    functions: BTreeMap<FunctionId, TaggedFunction>,
    /// Tagged blocks, by their event numbers.
    pub blocks: BTreeMap<FunctionId, TaggedBlock>,
    /// Loops with tagged heads, by their numbers.
    pub loops: BTreeMap<u32, TaggedLoop>,
}

impl Names {
    /// Makes the names for the functions of a map.
    pub fn new(map: TagMap) -> Self {
        let TagMap { functions, blocks, loops, .. } = map;
        let mut named = HashMap::<&str, u32>::new();
        functions.iter().for_each(|function| *named.entry(&function.name).or_default() += 1);
        let name = |function: &TaggedFunction| match named[&*function.name] {
            1 => shortened(&function.name).into(),
            // Static functions of different files may have the same name.
            _ => format!("{} ({:x})", shortened(&function.name), function.code_address),
        };
        let names = functions.iter().map(|function| (function.number, name(function).into()));
        let names = names.collect();
        let functions = functions.into_iter().map(|function| (function.number, function)).collect();
        let blocks = blocks.into_iter().map(|block| (block.number, block)).collect();
        let loops =
            loops.into_iter().map(|tagged_loop| (tagged_loop.number, tagged_loop)).collect();
        Names { names, functions, blocks, loops }
    }

    /// Name of a function; `event N` if the map does not have number N.
    pub fn get(&self, number: FunctionId) -> Cow<'_, str> {
        match self.names.get(&number) {
            Some(name) => (&**name).into(),
            None => format!("event {number}").into(),
        }
    }

    /// The same name as [`get`](Self::get), as a shared string for callers that store it many
    /// times.
    pub fn shared(&self, number: FunctionId) -> Arc<str> {
        self.names.get(&number).cloned().unwrap_or_else(|| self.get(number).into())
    }

    /// Numbers of the blocks, each with the number of its function.
    pub fn functions_of_blocks(&self) -> impl Iterator<Item = (FunctionId, FunctionId)> {
        self.blocks.values().map(|block| (block.number, block.function_number))
    }

    /// The map's entry for a function.
    pub fn function(&self, number: FunctionId) -> Option<&TaggedFunction> {
        self.functions.get(&number)
    }
}

/// The first [`MAX_NAME`] characters of a name.
fn shortened(name: &str) -> &str {
    name.char_indices().nth(MAX_NAME).map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_shared() {
        let function = |number: u32, name: String| {
            serde_json::json!({
                "number": number, "name": name, "symbols": [], "object": "o", "code_address": number,
                "size_bytes": 1, "tagged_exits": "all", "removed": null,
            })
        };
        let map = serde_json::json!({
            "version": 2, "id": "0000000000000000", "program": "p", "pid": 1, "sink": "log",
            "timed": true, "tsc_hz": 1, "window": null, "blocks": [], "refused": [],
            "functions": [function(1, "\u{e9}".repeat(1 << 20)), function(2, "f".into())],
        });
        let names = Names::new(serde_json::from_value(map).unwrap());
        assert_eq!(names.get(FunctionId(1)).chars().count(), MAX_NAME);
        assert!(Arc::ptr_eq(&names.shared(FunctionId(1)), &names.shared(FunctionId(1))));
        assert_eq!((&*names.get(FunctionId(2)), &*names.shared(FunctionId(3))), ("f", "event 3"));
    }
}
