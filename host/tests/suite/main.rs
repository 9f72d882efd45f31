//! The receiver from outside: frames in, traces, captures and summaries out.

mod built;
mod callgrind;
mod card;
mod command_line;
mod completions;
mod convert;
mod damage;
mod dissector;
mod escapes;
mod exit_status;
mod failing;
mod flips;
mod forged;
mod gaps;
mod goes_on;
mod hostile;
mod linear;
mod live;
mod long_runs;
mod merge;
mod modes;
mod online;
mod online_metrics;
mod online_statistics;
mod online_tui;
mod order;
mod reading;
mod reading_ahead;
mod recv_endings;
mod recv_files;
mod recv_privileges;
mod series;
mod standard;
mod tag;
mod tag_auto;
mod tag_blocks;
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
mod terminal;
mod usage;
mod wire;
mod wireshark;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hmtt_host::pcapng::{Description, InterfaceStatistics, PcapngWriter};

/// A fresh path for the file `name`, which is of this test alone: others run beside it.
pub fn scratch(name: &str) -> PathBuf {
    static OWNERS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let owner = owners.entry(name.to_owned()).or_insert(test.clone()).clone();
    drop(owners);
    assert_eq!(owner, test, "two tests have the file {name}");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_file(&path).expect("an old scratch file can be removed");
    }
    path
}

/// The bytes of a capture of `frames`, a microsecond apart.
pub fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), &[Description::of("veth1")]).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        let time = Duration::new(1_700_000_000, 1000 * index as u32);
        writer.write_frame(0, time, frame.len() as u32, frame).unwrap();
    }
    let statistics = InterfaceStatistics {
        received: Some(frames.len() as u64),
        interface_drops: Some(0),
        interface_missed: None,
        kernel_drops: Some(0),
    };
    let times = Duration::from_secs(1_700_000_000)..Duration::from_secs(1_700_000_001);
    writer.write_statistics(0, times, &statistics, None).unwrap();
    writer.into_output()
}

/// A capture of `frames` in a file of the test `name`.
pub fn capture_file(name: &str, frames: &[Vec<u8>]) -> PathBuf {
    let path = scratch(name);
    std::fs::write(&path, capture(frames)).unwrap();
    path
}

/// Says that a test cannot run here, past the test harness, which hides what passing tests print.
pub fn skipped(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "skipped: {test}: {reason}").expect("standard error is open");
}

/// Runs `hmtt`.
pub fn hmtt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt")).args(arguments).env_remove("COLUMNS").output().unwrap()
}
