//! Selects memory accesses of a block, or of blocks that are executed one after the other. The
//! selected accesses represent the other accesses.
//!
//! [`path_accesses`] finds the accesses of [blocks](crate::block::Block) with the expressions of
//! their addresses. A [`Selector`] chooses which of them are traced.
//! [`Accuracy`](hmtt_files::access_trace::Accuracy) states how many of all accesses the traced
//! ones account for. Nothing is emitted or executed here.
//!
//! The method is published in S. Economo, D. Cingolani, A. Pellegrini and F. Quaglia, "Configurable
//! and Efficient Memory Access Tracing via Selective Expression-based x86 Binary Instrumentation",
//! MASCOTS 2016 (DOI 10.1109/MASCOTS.2016.69). Two accesses are *equal* if their expressions are,
//! so one recorded address is enough for both. Two expressions at distance zero are expected in the
//! same chunk of memory, so one address is enough for both if only the chunk matters.
//!
//! ```text
//! instruction             expression           in chunks of 16 bytes
//! mov rax, [rbp - 8]      <rbp.0, -, -0x8>     represents the third access, too
//! mov edx, [rbp - 0x10]   <rbp.0, -, -0x10>    at distance 0 from the first
//! mov rcx, [rbp - 8]      <rbp.0, -, -0x8>     equal to the first
//! ```
//!
//! There are two representatives. If half of them are traced, this is the first access. Then the
//! addresses of two of three accesses are known, and probably the chunk of the other one.
//!
//! The authors' program, `smtracer` of Hijacker, counts an instruction that reads and writes memory
//! as one access, and finds static memory by relocations. Linked programs have no relocations, so
//! here the operand alone decides the template.
//!
//! Invariant: accesses in one execution of a block, or of such blocks, have the same address if
//! their expressions are equal. Expressions must not be compared if they were not found together,
//! or if they belong to different executions.
//!
//! Time and memory are at most quadratic in the number of accesses. A block has at most
//! [`MAX_INSTRUCTIONS`](crate::block::MAX_INSTRUCTIONS) instructions, and a superblock
//! [`MOST_PARTS`](hmtt_files::access_trace::MOST_PARTS) blocks.

mod accesses;
mod distance;
mod expression;
mod registers;
mod selector;
#[cfg(test)]
mod tests;

pub use accesses::{Access, accesses, path_accesses};
pub use distance::{Average, Distance};
pub use expression::{Address, Expression, Index, Template, Versioned};
pub use registers::{Equality, Moved, general, stack_effect};
pub use selector::{Coverage, Representative, Score, Selection};

pub use crate::extent::{Chunk, Omega, OutOfRange, Selector};
pub use crate::memory_accesses::Operand;
