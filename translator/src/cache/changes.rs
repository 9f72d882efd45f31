//! Removes blocks whose original bytes have changed without a system call.
//!
//! A block in memory that the program can write, or shares, compares its original bytes with the
//! translated bytes each time it is entered. If they differ, the thread asks the controller for the
//! block again.

use hmtt_probe::address::RunAddr;

use super::{Cache, CacheMemory};
use crate::block::{Block, Untranslatable, Why};
use crate::code::CodeBytes;

/// Maximum number of changes of a block's bytes. After that its first instruction runs natively,
/// because each translation takes new memory.
const MAX_CHANGES: u32 = 1_000;

impl<M: CacheMemory> Cache<M> {
    /// Decodes the block at an address. Fails for the reasons of [`Block::decode`], or because the
    /// bytes of the block change too often.
    pub(super) fn decode(
        &self,
        code: &dyn CodeBytes,
        at: RunAddr,
    ) -> Result<Block, Untranslatable> {
        if self.changes.get(&at.0).is_some_and(|times| *times >= MAX_CHANGES) {
            return Err(Untranslatable { at, why: Why::ChangesOften });
        }
        // Code in an arena is generated. It must not be translated again.
        if self.contains(at) {
            return Err(Untranslatable { at, why: Why::NotReadable });
        }
        Block::decode(code, at)
    }

    /// Removes the block at an address, and those that overlap it, if its bytes have changed.
    pub(super) fn remove_changed(&mut self, code: &dyn CodeBytes, at: RunAddr) {
        let Some(number) = self.by_address.get(&at.0) else { return };
        let record = &self.blocks[*number as usize - 1];
        let (known, limit) = (&record.info.bytes, record.limit());
        let mut now = vec![0; known.len()];
        if code.read(at, &mut now) == now.len() && *now == **known {
            return;
        }
        self.invalidate(at..limit);
        *self.changes.entry(at.0).or_default() += 1;
    }
}
