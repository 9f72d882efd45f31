//! Translates running x86-64 programs block by block into a code cache.
//!
//! [`code`] is the original code. [`block`] decodes it into intermediate blocks. [`cache`]
//! generates their code, links it and answers threads that need more. [`state`] describes how the
//! original state of a thread is found that was interrupted in generated code, and [`layout`] the
//! memory that generated code shares with the controller.
//!
//! [`control`] starts a process, shares memory with it and follows its threads. [`monitor`] reads
//! what they write to [`shared`] rings, and [`profile`] is the result. [`report`] analyses it.
//! [`block_lists`] are what the next run translates ahead.
//!
//! [`selection`] chooses the memory accesses of a block that represent the others; how many,
//! [`extent`] says.
//!
//! Invariant: original code is never changed, and the program's own memory and stack have the
//! contents that they would have without the translator.

#![deny(clippy::missing_errors_doc)]

pub mod block;
pub mod block_lists;
pub mod cache;
pub mod code;
pub mod control;
mod emit;
pub mod emulation;
pub mod extent;
pub mod instructions;
pub mod layout;
pub mod memory_accesses;
pub mod monitor;
pub mod profile;
pub mod recorded;
pub mod report;
pub mod selection;
pub mod shared;
pub mod state;
mod stubs;
