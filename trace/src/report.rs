//! Summarises traces, captures and tag logs as text and JSON: counts, the card and its memory,
//! calls, losses.
//!
//! [`summary`] is always compiled. The other modules need the feature `reports`, and the modules
//! for tag logs ([`calls`], [`callgrind`]) also the feature `tags`. The single rows of a trace are
//! written by the module `table`.

#[cfg(feature = "reports")]
pub mod analysis;
#[cfg(all(feature = "reports", feature = "tags"))]
pub mod callgrind;
#[cfg(all(feature = "reports", feature = "tags"))]
pub mod calls;
#[cfg(feature = "reports")]
pub mod info;
#[cfg(feature = "reports")]
pub mod memory;
pub mod summary;
