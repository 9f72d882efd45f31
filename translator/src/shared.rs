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

/// Areas that this process shares with itself.
#[cfg(test)]
pub fn test_areas() -> Areas {
    use hmtt_probe::address::RunAddr;
    use hmtt_probe::control::Memory;

    let file = rustix::fs::memfd_create("areas", rustix::fs::MemfdFlags::CLOEXEC);
    let file = std::fs::File::from(file.expect("a file in memory is made"));
    file.set_len(BYTES).expect("it has a size");
    let memory = Memory::map(&file, BYTES).expect("it is mapped");
    Areas::new(memory, RunAddr(1 << 40), crate::layout::area::WAIT)
}
