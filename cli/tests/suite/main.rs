//! Tests the commands as programs: captures, tables, logs and programs as input, and the output and
//! files that they produce.

#[cfg(feature = "analysis")]
mod accesses;
#[cfg(feature = "analysis")]
mod accesses_split;
mod built;
mod callgrind;
#[cfg(feature = "analysis")]
mod coarse;
mod command_line;
mod completions;
mod convert;
mod ctl;
#[cfg(feature = "dataset")]
mod dataset;
mod dissector;
mod endurance;
mod escapes;
mod exit_status;
mod goes_on;
#[cfg(all(feature = "analysis", feature = "tag"))]
mod imported;
mod interrupted;
mod leaks;
mod linear;
#[cfg(all(feature = "analysis", feature = "dataset"))]
mod link_types;
mod merge;
mod monitor;
mod names;
#[cfg(all(feature = "analysis", feature = "tag"))]
mod pagemap;
mod python;
#[cfg(feature = "analysis")]
mod report;
mod sequences;
mod sql;
mod standard;
mod tag;
mod tag_auto;
mod tag_blocks;
mod tag_code;
mod tag_contexts;
mod tag_ends;
mod tag_follow;
mod tag_go;
mod tag_hostile;
mod tag_kill;
mod tag_life;
mod tag_limits;
mod tag_list;
mod tag_log;
mod tag_memory;
mod tag_namespaces;
mod tag_real;
mod tag_report;
mod tag_signals;
mod tag_stopped;
mod tag_symbols;
mod tag_unwind;
mod tag_words;
mod trace;
mod trace_cache;
mod trace_evaluated;
mod trace_exports;
mod trace_faults;
mod trace_loops;
mod trace_losses;
mod trace_native;
mod trace_operands;
mod trace_progress;
mod trace_recounted;
mod trace_regions;
mod trace_sampled;
mod trace_selected;
mod trace_stepped;
mod untraceable;
mod usage;

use std::process::{Command, Output};

pub use hmtt_test_support::captures::{capture, capture_file};
pub use hmtt_test_support::card;
pub use hmtt_test_support::files::{LargeFile, scratch, skipped};
pub use hmtt_test_support::waiting::{wait_for, wait_until};

/// Runs `hmtt`.
pub fn hmtt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt")).args(arguments).env_remove("COLUMNS").output().unwrap()
}

/// Returns a number that a variable of the environment sets.
pub fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
