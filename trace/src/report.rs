//! Summarises traces, captures and tag logs as text and JSON: counts, the card and its memory, calls, losses.
//!
//! [`summary`] is always compiled; the other modules need the feature `reports`. The module `table` writes the
//! single rows of a trace.

#[cfg(feature = "reports")]
pub mod analysis;
#[cfg(feature = "reports")]
pub mod callgrind;
#[cfg(feature = "reports")]
pub mod calls;
#[cfg(feature = "reports")]
pub mod info;
#[cfg(feature = "reports")]
pub mod memory;
pub mod summary;
