//! Running x86-64 programs to programs that say which function they are in.
//!
//! Four rooms, as in HMTT_FBI: [`control`] drives, [`elf`] knows the functions, [`disassembly`] knows
//! their instructions, [`ptrace`] stops, reads and writes a live process. [`stubs`] is the code that is
//! put into it.

pub mod control;
pub mod disassembly;
pub mod elf;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod ptrace;
mod regular;
pub mod selection;
pub mod stubs;
pub mod unwind;
