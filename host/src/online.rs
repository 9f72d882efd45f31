//! Computes and displays the statistics of a running capture.
//!
//! [`Statistics`] analyses the frames and may lag: the frames that it skips are counted. [`Second`]
//! combines the [`Activity`] of the statistics with the exact counts of two
//! [`crate::receive::Snapshot`]s; [`status`], [`metrics`] and [`tui`] display the result. This
//! module does not access the capture's sockets or files, and cannot make the capture wait.

mod activity;
pub mod metrics;
pub mod quantity;
mod second;
mod statistics;
pub mod status;
pub mod tui;

pub use activity::{AccessCounts, Activity, BankUse, HotPage, RowUse};
pub use second::{Failed, Losses, Memory, QueueFill, Rates, Second, Totals};
pub use statistics::{MAX_TRACKED_PAGES, Options, Statistics};
