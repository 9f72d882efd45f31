//! Tests the receiver as a program: frames in, captures and summaries out.

mod command_line;
mod failing;
mod flood;
mod live;
mod long_runs;
mod online;
mod online_metrics;
mod online_statistics;
mod online_tui;
mod recv_endings;
mod recv_files;
mod recv_privileges;
mod series;

pub use hmtt_test_support::captures::{capture_file, info};
pub use hmtt_test_support::card;
pub use hmtt_test_support::files::{scratch, skipped};
