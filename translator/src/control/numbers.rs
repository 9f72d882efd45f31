//! Tells the monitor which block or path each number belongs to, and builds superblocks for it.

use std::sync::Arc;

use hmtt_probe::address::RunAddr;

use super::Shared;
use crate::cache;
use crate::monitor::code::{BlockCode, Blocks, Numbered};

/// A block or path with a number, copied from the cache so that the lock can be released.
enum Copied {
    Block(RunAddr, Box<[u8]>),
    Path(Arc<[u32]>, usize),
}

impl Blocks for Shared {
    /// The numbers are read while the translation is locked. So if a block of the result leads to
    /// another translated block, that block is known too.
    fn after(&self, known: u32) -> Vec<Numbered> {
        let translation = self.translation();
        let numbers = known + 1..=translation.last_number();
        let copied: Vec<Copied> = numbers
            .filter_map(|number| translation.number(number))
            .map(|numbered| match numbered {
                cache::Numbered::Block(info) => Copied::Block(info.start, info.bytes.clone()),
                cache::Numbered::Path { blocks, length } => Copied::Path(blocks.clone(), length),
            })
            .collect();
        drop(translation);
        let described = copied.into_iter().map(|copy| match copy {
            Copied::Block(start, bytes) => Numbered::Block(BlockCode::new(start, &bytes)),
            Copied::Path(blocks, length) => Numbered::Path { blocks, length },
        });
        described.collect()
    }

    fn build(&self, path: &[u32]) -> bool {
        self.translation().build(path)
    }

    fn silence(&self, block: u32) {
        self.translation().silence(block);
    }

    fn undo(&self, number: u32) {
        self.translation().undo(number);
    }

    fn is_in_use(&self, number: u32) -> bool {
        self.translation().is_in_use(number)
    }
}
