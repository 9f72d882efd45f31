//! A tag map to names for numbers, each another.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use hmtt_probe::tag_map::{TagMap, TaggedBlock, TaggedFunction};

/// What numbers are called.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: BTreeMap<u32, String>,
    functions: BTreeMap<u32, TaggedFunction>,
    /// Blocks, in the order of their numbers.
    pub blocks: BTreeMap<u32, TaggedBlock>,
}

impl Names {
    /// Those of a map.
    pub fn new(map: TagMap) -> Self {
        let TagMap { functions, blocks, .. } = map;
        let mut named = HashMap::<&str, u32>::new();
        functions.iter().for_each(|function| *named.entry(&function.name).or_default() += 1);
        let name = |function: &TaggedFunction| match named[&*function.name] {
            1 => function.name.clone(),
            // Static functions of different files may have one name.
            _ => format!("{} ({:x})", function.name, function.start),
        };
        let names = functions.iter().map(|function| (function.number, name(function))).collect();
        let functions = functions.into_iter().map(|function| (function.number, function)).collect();
        let blocks = blocks.into_iter().map(|block| (block.number, block)).collect();
        Names { names, functions, blocks }
    }

    /// What a function is called.
    pub fn get(&self, number: u32) -> Cow<'_, str> {
        match self.names.get(&number) {
            Some(name) => name.into(),
            None => format!("event {number}").into(),
        }
    }

    /// What the map says of a function.
    pub fn function(&self, number: u32) -> Option<&TaggedFunction> {
        self.functions.get(&number)
    }
}
