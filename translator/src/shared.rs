//! Memory that the threads of a process and the controller share, and which parts of it are in use.

mod area;
mod futex;
mod pauses;

use std::sync::atomic::{AtomicBool, AtomicI32};

pub use area::{Area, Areas, BYTES, CHUNKS, THREADS};
pub use futex::{wait, wake};

/// The rings of a process.
pub struct Rings {
    /// Areas of its threads.
    pub areas: Areas,
    /// Which areas belong to a thread.
    pub used: [AtomicBool; THREADS],
    /// Numbers of these threads in the system.
    pub threads: [AtomicI32; THREADS],
}

impl Rings {
    /// Rings of areas of which none is in use.
    pub fn new(areas: Areas) -> Self {
        let used = [const { AtomicBool::new(false) }; THREADS];
        let threads = [const { AtomicI32::new(0) }; THREADS];
        Rings { areas, used, threads }
    }
}
