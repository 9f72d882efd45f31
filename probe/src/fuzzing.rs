//! Exposes parts of the private interface to fuzz targets: readers of memory that a process shares
//! with the controller, and constructors for images that are not read from a file.
//!
//! The module exists only with the feature `fuzzing`, and may change at any time.

use iced_x86::Instruction;

pub use crate::control::abandoned::records::Records;
pub use crate::control::shared::counts::Counts;
pub use crate::control::shared::drain::Drain;
pub use crate::control::shared::writer::Writer;
pub use crate::control::shared::{InheritedMemory, SLOTS, Shared, SlotLayout};
use crate::disassembly;
pub use crate::elf::go::GoFunction;
use crate::elf::{Go, Image, Text};

/// Makes an image with this code and these data. It has no functions yet. `entry`: address of the
/// entry point.
pub fn image(entry: u64, text: Vec<Text>, data: Vec<Text>) -> Image {
    Image {
        path: "made up".into(),
        functions: Vec::new(),
        fragments: Vec::new(),
        text,
        data,
        pointers: Vec::new(),
        indirect_targets: Vec::new(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry,
        relocatable: false,
        dynamic: false,
        relocated: Vec::new(),
        differing: Vec::new(),
        sequences: crate::elf::RestartableSequences::default(),
        backing_file: Default::default(),
        go: None,
    }
}

/// Makes the function table of a Go program.
pub fn go(functions: Vec<GoFunction>) -> Go {
    Go { functions, recovery_points: Vec::new() }
}

/// Whether an instruction is a call.
pub fn is_call(instruction: &Instruction) -> bool {
    disassembly::is_call(instruction)
}
