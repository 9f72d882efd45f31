//! Controls a process through ptrace and puts tags into chosen functions of it, while it runs.
//!
//! A tag is code that runs when a function is entered or left. The first instruction of a function
//! is overwritten with a jump to a stub, which holds the tag and the moved instruction. Every entry
//! executes the first instruction, so the jump misses none: direct calls, calls through pointers,
//! tail calls, calls from code that was never disassembled.
//!
//! Data flow: [`crate::disassembly`] decides what can be moved, [`crate::stubs`] generates the
//! stubs, [`crate::ptrace`] stops threads and writes memory. This module connects them: [`Tagged`]
//! is one process with its tags, [`follow()`] and [`follow_tree`] run it, and `collector` reads
//! what the tags write.
//!
//! [`Tagged`] owns the process and the state of following it. `Tags` owns what tags have added to
//! the process or changed in it, each part in a type of its own: the changed code (`PatchedCode`),
//! the unwind tables (`UnwindTables`), the libraries (`Libraries`) and the memory that tags write
//! to (`Collector`).
//!
//! Invariant: instructions are changed only while all threads of the process are stopped. A thread
//! whose instruction pointer is at a moved instruction is then set to the new address of that
//! instruction.

pub(crate) mod abandoned;
mod areas;
mod boundaries;
mod breakpoint;
mod budget;
mod changed_function;
mod child;
mod code;
mod collector;
mod comparison;
mod conflicts;
mod count_report;
mod direct_calls;
mod edits;
mod ending;
mod error;
mod event_loop;
mod goroutines;
mod gs;
mod insertion;
mod libraries;
mod linkage;
mod linker;
mod loaded;
mod map;
mod notice;
mod own_signals;
mod patch;
mod patched_code;
mod perf_map;
mod process_tree;
mod refused;
mod removal;
mod restorers;
mod sample;
mod sampler;
pub(crate) mod shared;
mod signal_frames;
mod stub_names;
mod stub_rows;
mod symbols;
mod tagged;
mod tags;
mod thread_return;
mod unfinished;
mod unwind;
mod verdicts;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::Pid;

use crate::address::RunAddr;
use crate::ptrace::Process;
use crate::selection::Selection;
use crate::stubs::Sink;

pub use abandoned::caches::SAVED_R15;
pub use abandoned::{AbandonedTags, controller};
use breakpoint::Breakpoint;
use budget::Budget;
pub use budget::RemovedFunction;
use collector::Collector;
pub use collector::Output;
use conflicts::ConflictWatch;
pub use count_report::{CountReport, CountRow, ProgramCounts, TreeCounts, block_json};
pub use ending::Ending;
pub use error::{TagError, WindowError};
pub use event_loop::{follow, follow_tree};
use libraries::Library;
use loaded::LoadedFile;
pub use loaded::bias;
pub use notice::Notice;
use patch::PatchedFunction;
pub use perf_map::{PerfMap, PerfMapError, PerfMapPlace, WrittenMap};
pub use process_tree::TraceObserver;
pub use refused::{RefusalReason, Refused};
pub use removal::RemainingMemory;
use restorers::Restorers;
pub use sample::{Sampled, sample};
pub use sampler::Samples;
pub use shared::backing::{Backing, MappedPart};
pub use shared::clock;
pub use shared::copies::{MappedCopy, Reservation, SharedFile};
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
pub use shared::memory::Memory;
pub use shared::registers::CardRegisters;
pub use shared::untrusted::Untrusted;
pub use shared::window::CardWindow;
pub use shared::writer::LogSummary;
pub use symbols::symbol_file;
pub use verdicts::{compare, finer_verdicts, program_image, verdicts};

/// A process whose functions are tagged.
#[derive(Debug)]
pub struct Tagged {
    process: Process,
    tags: Tags,
    budget: Option<Budget>,
    watch: ConflictWatch,
    /// Processes that share the tracee's memory (`vfork`). The value is the parent thread that
    /// waits until the process has memory of its own; `None` if no thread waits.
    memory_sharers: BTreeMap<Pid, Option<Pid>>,
}

/// Result of removing the tags from a process and detaching from it.
#[derive(Debug)]
pub struct Restored {
    /// Memory of the tags that remains in the process.
    pub remaining: RemainingMemory,
    /// Functions and addresses where the program has overwritten a jump of a tag. These addresses
    /// keep the program's bytes.
    pub overwritten: Vec<(String, RunAddr)>,
}

/// When tags are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Immediately.
    Now,
    /// When a program that was just launched reaches its `main`.
    Main,
}

/// Tags in a process.
#[derive(Debug)]
struct Tags {
    program: Arc<LoadedFile>,
    selection: Selection,
    /// Upper limit for the number of tagged functions and blocks.
    max_functions: usize,
    collector: Collector,
    code: PatchedCode,
    unwinding: UnwindTables,
    libraries: Libraries,
    /// Functions whose tags were removed because they cost too much.
    removed: Vec<RemovedFunction>,
    /// Functions that were chosen and are not tagged.
    refused: Vec<Refused>,
    /// Functions and addresses where the program has overwritten a jump.
    overwritten: Vec<(String, RunAddr)>,
    notices: Vec<Notice>,
    /// Whether functions were tagged, or tags removed, since the last call of
    /// [`TraceObserver::changed`].
    is_changed: bool,
}

/// Code that is changed, and memory of stubs.
#[derive(Clone, Debug)]
struct PatchedCode {
    /// Destination of the events of the functions' tags.
    sink: Sink,
    /// Tagged functions, in the order of their numbers.
    functions: Vec<PatchedFunction>,
    breakpoints: Vec<Breakpoint>,
    restorers: Restorers,
    /// Memory areas that hold stubs. Areas of breakpoints are not in the list.
    areas: Vec<Range<RunAddr>>,
    /// Addresses of all instructions that were changed since the process was tagged, ascending.
    /// Addresses stay in the list when their tags are removed.
    jumps: Vec<RunAddr>,
}

/// Unwind tables in a process.
#[derive(Clone, Debug, Default)]
struct UnwindTables {
    /// Address of the list of tables in the process.
    list: RunAddr,
    /// Stubs that unwinders can look up in the list, in the order of addition.
    described_code: Vec<Range<RunAddr>>,
    /// Memory that holds the tables.
    tables: Vec<Range<RunAddr>>,
}

/// Libraries of a process that were read, or could not be read.
#[derive(Debug, Default)]
struct Libraries {
    known: BTreeMap<libraries::Key, Library>,
    /// Libraries with chosen functions that could not be read, with the reason.
    unread: Vec<(PathBuf, TagError)>,
}
