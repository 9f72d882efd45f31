//! What a trace and its capture amount to, as text and JSON: counts, the card and its memory, losses.
//!
//! [`summary`] is always there; the rest needs the feature `reports`. The rows of a trace as such are those of
//! the module `table`.

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
