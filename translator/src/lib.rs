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
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | block | instructions up to the first transfer, at an original address |
//! | path | blocks that were executed one after the other, often a loop |
//! | superblock | generated code of a path, which is entered instead of the code of its first block |
//! | number | what a block or path writes to the ring; each block, and each beginning of a path, has one |
//! | arena | a range of memory of the process with generated code |
//! | exit | a jump out of the code of a block, which asks the controller until it is linked to its target |
//! | stub | code of an arena that asks the controller, waits, or takes the next chunk of the ring |
//! | main form, landing | code of a block for direct transfers, and for indirect ones through the lookup table |
//! | lookup table | addresses of landings by the low 16 bits of original addresses |
//! | island | a jump that leads farther than a displacement of 32 bits |
//! | thread area | memory of a thread at `gs`: saved registers, requests, and its ring |
//! | ring, chunk, slack | where a thread writes numbers: eight chunks, each with space behind it for unchecked blocks |
//! | point | the original state of a thread before an instruction of generated code |
//! | note | a word or unit in the ring that is no number, such as a system call |
//! | slot | 8 bytes behind a number from which addresses of accesses follow |
//! | representative | the first of the accesses of a block that have equal addresses, traced for all of them |
//! | chunk of memory | in `selection`: a range of addresses that count as one, such as a cache line |

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
