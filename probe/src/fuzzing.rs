//! What fuzz targets need beside the public interface: what reads memory that a process shares with us, and files
//! that are made up instead of read. Only with the feature `fuzzing`; it may change at any time.

use iced_x86::Instruction;
use nix::unistd::Pid;

pub use crate::control::abandoned::records::Records;
pub use crate::control::shared::counts::Counts;
pub use crate::control::shared::drain::Drain;
pub use crate::control::shared::writer::Writer;
pub use crate::control::shared::{InheritedMemory, SLOTS, Shared, SlotLayout};
use crate::disassembly;
pub use crate::elf::go::GoFunction;
use crate::elf::{Go, Image, Text};
use crate::ptrace::{Process, PtraceError};

/// A file with this code and these data, which begins at `entry` and has no functions yet.
pub fn image(entry: u64, text: Vec<Text>, data: Vec<Text>) -> Image {
    Image {
        path: "made up".into(),
        functions: Vec::new(),
        fragments: Vec::new(),
        text,
        data,
        indirect_targets: Vec::new(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry,
        relocatable: false,
        dynamic: false,
        relocated: Vec::new(),
        differing: Vec::new(),
        backing_file: Default::default(),
        go: None,
    }
}

/// What a file of Go says of its functions.
pub fn go(functions: Vec<GoFunction>) -> Go {
    Go { functions, recovery_points: Vec::new() }
}

/// A process as one that is traced, of which only the memory is there.
///
/// # Errors
/// [`PtraceError::System`] if its memory cannot be opened.
pub fn process(pid: Pid) -> Result<Process, PtraceError> {
    Process::from_traced(pid)
}

/// Whether an instruction is a call.
pub fn is_call(instruction: &Instruction) -> bool {
    disassembly::is_call(instruction)
}
