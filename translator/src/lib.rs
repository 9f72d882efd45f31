//! Translates running x86-64 programs block by block into a code cache.
//!
//! [`code`] provides original code. [`block`] decodes it into intermediate blocks. [`cache`]
//! generates their code, links it and answers threads that ask for more. [`state`] describes the
//! original state of a thread that was interrupted in generated code. [`layout`] describes the
//! memory that generated code shares with the controller.
//!
//! [`control`] starts a process, shares memory with it and follows its threads. [`monitor`] reads
//! what the threads write to their [`shared`] rings. The result is a [`profile`], which [`report`]
//! analyses. [`block_lists`] keep the blocks that the next run translates ahead.
//!
//! [`memory_accesses`] states which memory an instruction accesses. [`selection`] chooses the
//! accesses of a block that represent the others, as many as [`extent`] says, and [`recorded`]
//! decides which values a block stores for them.
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
