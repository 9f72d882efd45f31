//! Tells the monitor what numbers stand for, and builds superblocks for it.

use std::sync::Arc;

use hmtt_format::access_trace::{BlockAccesses, Part};
use hmtt_probe::address::RunAddr;

use super::Shared;
use crate::cache;
use crate::monitor::accesses::AccessBlocks;
use crate::monitor::code::{BlockCode, Blocks, Numbered};
use crate::recorded::Recorded;

/// What a number stands for, as copied from the cache.
enum Copied {
    Block(RunAddr, Box<[u8]>),
    Path(Arc<[u32]>, usize),
}

impl AccessBlocks for Shared {
    fn accesses_after(&self, known: u32) -> Vec<BlockAccesses> {
        let translation = self.translation();
        let (mut next, last) = (known + 1, translation.last_number());
        let mut copied = Vec::new();
        while next <= last {
            // All blocks of a path have numbers, of which the last one is that of the whole path.
            let length = match translation.number(next) {
                Some(cache::Numbered::Path { blocks, .. }) => blocks.len() as u32,
                _ => 1,
            };
            let code = translation.block(next).map(|(info, _)| info.bytes.to_vec());
            copied.push((translation.recorded(next + length - 1), code, length as usize));
            next += length;
        }
        drop(translation);
        let described = copied.into_iter().map(|(recorded, code, length)| match recorded {
            Some(Recorded { accesses, .. }) => {
                BlockAccesses { code: code.unwrap_or_default(), ..accesses }
            }
            // Numbers behind it stay what they are.
            None => {
                let none = Part { block: 0, instructions: 0, slots: 0 };
                BlockAccesses { parts: vec![none; length], ..BlockAccesses::default() }
            }
        });
        described.collect()
    }
}

impl Blocks for Shared {
    /// All blocks to which something leads are known while the translation is not in use.
    fn after(&self, known: u32) -> Vec<Numbered> {
        let translation = self.translation();
        let numbers = known + 1..=translation.last_number();
        let copied: Vec<Copied> = numbers
            .filter_map(|number| translation.number(number))
            .map(|one| match one {
                cache::Numbered::Block(info) => Copied::Block(info.start, info.bytes.clone()),
                cache::Numbered::Path { blocks, length } => Copied::Path(blocks.clone(), length),
            })
            .collect();
        drop(translation);
        let described = copied.into_iter().map(|one| match one {
            Copied::Block(start, bytes) => Numbered::Block(BlockCode::new(start, &bytes)),
            Copied::Path(blocks, length) => Numbered::Path { blocks, length },
        });
        described.collect()
    }

    fn build(&self, path: &[u32]) -> bool {
        self.translation().build(path)
    }

    fn undo(&self, number: u32) {
        self.translation().undo(number);
    }

    fn is_in_use(&self, number: u32) -> bool {
        self.translation().is_in_use(number)
    }
}
