//! What a trace and its capture amount to, as text and JSON: counts, the card and its memory, losses.
//!
//! The rows of a trace as such are [`crate::table`]'s.

pub mod analysis;
pub mod calls;
pub mod capture;
pub(crate) mod gap;
pub mod info;
pub mod memory;
pub mod summary;
