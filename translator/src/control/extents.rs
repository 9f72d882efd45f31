//! Stores how many of the accesses of each function are recorded. An extent applies to blocks that
//! are translated after it was set.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::extent::Extent;

/// A function: the path of its file when the file was mapped, and the address of the function's
/// first instruction in the process. The address is 0 for code outside of all known functions.
pub type FunctionKey = (String, u64);

/// Extents of functions. A function without one has [`Extent::Chosen`].
#[derive(Debug, Default)]
pub struct Extents(Mutex<HashMap<FunctionKey, Extent>>);

impl Extents {
    fn lock(&self) -> MutexGuard<'_, HashMap<FunctionKey, Extent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all extents. Blocks that are already translated do not change.
    pub fn replace(&self, extents: HashMap<FunctionKey, Extent>) {
        *self.lock() = extents;
    }

    /// The extent of the function that begins at `start` in the file `path`.
    pub fn of(&self, path: &Path, start: u64) -> Extent {
        let extents = self.lock();
        if extents.is_empty() {
            return Extent::Chosen;
        }
        extents.get(&(path.to_string_lossy().into_owned(), start)).copied().unwrap_or_default()
    }
}
