//! Records which frames of physical memory the pages of processes have (`hmtt pagemap record`).
//!
//! ```text
//! /proc/PID/maps, pagemap -> scan -> runs -> recorder -> changes -> hmtt_files::page_map::Writer
//! ```
//!
//! Each snapshot reads the entries of all present pages anew. No mark of the kernel makes this
//! unnecessary: soft-dirty bits and written bits show writes of the process, but pages also move
//! without any write (compaction, migration, swapping). `PAGEMAP_SCAN`, where the kernel has it
//! (Linux 6.7), skips memory without pages and leaves out pages of zeros, which all processes
//! share.
//!
//! Processes are not stopped, so a scan is not one moment. The map has the begin and the end of
//! each scan.

mod machine;
mod process;
mod recorder;
mod scan;

use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

pub use machine::machine;
pub use process::all_processes;
pub use recorder::{Figures, Recorder};
pub use scan::shows_frames;

/// Reason why processes cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// The kernel does not show the numbers of frames.
    #[error(
        "the numbers of frames need the capability CAP_SYS_ADMIN (as root: sudo hmtt pagemap record); without it, the \
         kernel shows 0 instead of them in /proc/PID/pagemap"
    )]
    NoFrames,
    /// There is no process with this number.
    #[error("there is no process {0} with pages of its own")]
    NoProcess(Pid),
    /// A process cannot be read.
    #[error(
        "the pages of process {0} cannot be read; those of other users need the capability CAP_SYS_PTRACE, too"
    )]
    Denied(Pid, #[source] std::io::Error),
    /// A file of this machine cannot be read.
    #[error("cannot read {0}")]
    System(&'static str, #[source] std::io::Error),
    /// The map cannot be written.
    #[error("the map cannot be written")]
    Write(#[source] std::io::Error),
}

/// Time of `CLOCK_MONOTONIC` in nanoseconds.
fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
