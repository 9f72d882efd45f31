//! Memory that the threads of a process and the controller share, and which parts of it are in use.

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

/// The rings of a process.
pub struct Rings {
    /// Areas of its threads.
    pub areas: Areas,
    /// Which areas belong to a thread.
    pub used: [AtomicBool; THREADS],
    /// Numbers of these threads in the system.
    pub threads: [AtomicI32; THREADS],
    /// Whether a new thread waits until an area is free.
    is_awaited: AtomicBool,
}

impl Rings {
    /// Rings of areas of which none is in use.
    pub fn new(areas: Areas) -> Self {
        let used = [const { AtomicBool::new(false) }; THREADS];
        let threads = [const { AtomicI32::new(0) }; THREADS];
        Rings { areas, used, threads, is_awaited: AtomicBool::new(false) }
    }

    /// The number of an area that no thread has.
    pub fn free_area(&self) -> Option<usize> {
        (0..THREADS).find(|number| !self.used[*number].load(Ordering::SeqCst))
    }

    /// A new thread waits for an area: the tracer, which waits for a signal like that of a child,
    /// gets one when an area is freed.
    pub fn await_area(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
        self.wake_monitor();
    }

    /// The ring of an area was read to its end.
    pub fn free(&self, number: usize) {
        self.used[number].store(false, Ordering::SeqCst);
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            let _ = kill(Pid::this(), Signal::SIGCHLD);
        }
    }

    /// Wakes the monitor, which is to look for messages.
    pub fn wake_monitor(&self) {
        self.areas.header(header::FILLED).fetch_add(1, Ordering::SeqCst);
        if self.areas.header(header::MONITOR_SLEEPS).load(Ordering::SeqCst) != 0 {
            wake(self.areas.header(header::FILLED));
        }
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
