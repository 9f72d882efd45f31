//! Frames of a capture that still runs to what people and programs watch of it.
//!
//! [`Statistics`] sees the frames themselves and may lag: what it left out is counted. [`Second`]
//! joins its [`Activity`] with the exact counts of two [`crate::receive::Snapshot`]s; [`status`],
//! [`metrics`] and [`tui`] only show that. Nothing here touches a socket of the capture or its file,
//! and nothing can make the capture wait.

mod activity;
pub mod metrics;
pub mod quantity;
mod second;
mod statistics;
pub mod status;
pub mod tui;

pub use activity::{Activity, BankUse, HotPage, RowUse, Seen};
pub use second::{Failed, Losses, Memory, QueueFill, Rates, Second, Totals};
pub use statistics::{MAX_TRACKED_PAGES, Options, Statistics};
