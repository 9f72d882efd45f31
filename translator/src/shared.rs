//! Manages the memory that the threads of a process share with the controller: which thread has
//! which area, and how waiting threads are woken.

mod area;
mod futex;
pub mod parts;
mod pauses;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::layout::header;

pub use area::{Area, Areas};
pub use futex::{wait, wake};
pub use parts::{BYTES, CHUNKS, Part, THREADS};

/// The rings of a process, one in each area.
pub struct Rings {
    /// The areas of the process.
    pub areas: Areas,
    /// By area: whether it belongs to a thread.
    pub used: [AtomicBool; THREADS],
    /// By area: number of its thread in the system, if the area is in use.
    pub threads: [AtomicI32; THREADS],
    /// Whether a new thread waits for a free area.
    is_awaited: AtomicBool,
}

impl Rings {
    /// Rings for areas that are all free.
    pub fn new(areas: Areas) -> Self {
        let used = [const { AtomicBool::new(false) }; THREADS];
        let threads = [const { AtomicI32::new(0) }; THREADS];
        Rings { areas, used, threads, is_awaited: AtomicBool::new(false) }
    }

    /// The number of a free area; `None` if [`THREADS`] threads have one.
    pub fn free_area(&self) -> Option<usize> {
        (0..THREADS).find(|number| !self.used[*number].load(Ordering::SeqCst))
    }

    /// Notes that a new thread waits for an area. The tracer waits for signals of children, so it
    /// gets such a signal when an area is freed.
    pub fn await_area(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
        self.wake_monitor();
    }

    /// Frees an area whose ring was read to its end.
    pub fn free(&self, number: usize) {
        self.used[number].store(false, Ordering::SeqCst);
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            let _ = kill(Pid::this(), Signal::SIGCHLD);
        }
    }

    /// Wakes the monitor, so that it looks for messages.
    pub fn wake_monitor(&self) {
        self.areas.header(header::FILLED).fetch_add(1, Ordering::SeqCst);
        if self.areas.header(header::MONITOR_SLEEPS).load(Ordering::SeqCst) != 0 {
            wake(self.areas.header(header::FILLED));
        }
    }
}

/// Areas that this process shares with itself, for tests.
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
