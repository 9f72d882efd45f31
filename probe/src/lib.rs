//! Running x86-64 programs to programs that say which function they are in.
//!
//! Four rooms, as in HMTT_FBI: `control` drives, `elf` knows the functions, `disassembly` knows their
//! instructions, `ptrace` reads and writes a live process.

pub mod elf;
pub mod selection;
