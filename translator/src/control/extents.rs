//! How much is recorded of the accesses of each function, as it was set before a block of the
//! function is translated.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::extent::Extent;

/// A function: the path of its file when that was mapped, and the address of its first instruction
/// in the process, which is 0 for code outside of all functions that are known.
pub type FunctionKey = (String, u64);

/// How much is recorded of functions; by default what is chosen of all blocks.
#[derive(Debug, Default)]
pub struct Extents(Mutex<HashMap<FunctionKey, Extent>>);

impl Extents {
    fn lock(&self) -> MutexGuard<'_, HashMap<FunctionKey, Extent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what was set. Blocks that are translated already stay as they are.
    pub fn replace(&self, extents: HashMap<FunctionKey, Extent>) {
        *self.lock() = extents;
    }

    /// How much is recorded of a function.
    pub fn of(&self, path: &Path, start: u64) -> Extent {
        let extents = self.lock();
        if extents.is_empty() {
            return Extent::Chosen;
        }
        extents.get(&(path.to_string_lossy().into_owned(), start)).copied().unwrap_or_default()
    }
}
