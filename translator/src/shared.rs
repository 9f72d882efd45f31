//! Memory that the threads of a process and the controller share, and which parts of it are in use.

mod area;
mod futex;

use std::sync::atomic::{AtomicBool, AtomicU32};

pub use area::{Area, Areas, BYTES, CHUNKS, THREADS};
pub use futex::{wait, wake};

/// The rings of a process.
pub struct Rings {
    /// Areas of its threads.
    pub areas: Areas,
    /// Which areas belong to a thread.
    pub used: [AtomicBool; THREADS],
    /// Number of blocks that are translated.
    pub blocks: AtomicU32,
}

impl Rings {
    /// Rings of areas of which none is in use.
    pub fn new(areas: Areas) -> Self {
        let used = [const { AtomicBool::new(false) }; THREADS];
        Rings { areas, used, blocks: AtomicU32::new(0) }
    }
}
