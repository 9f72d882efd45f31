//! Tests the public interface of the library: reads frames, captures, tables and logs, and checks
//! traces and reports.

mod blocks;
mod campaign;
mod codecs;
mod damage;
mod flips;
mod forged;
mod gaps;
mod hostile;
mod merge;
mod modes;
mod old_tables;
mod open_trace;
mod options;
mod order;
mod random_frames;
mod reading;
mod reading_ahead;
mod restarts;
mod rows;
mod tag_report;
mod wire;
mod wireshark;

pub use hmtt_test_support::captures::{capture, capture_file};
pub use hmtt_test_support::card;
pub use hmtt_test_support::files::{scratch, skipped};
