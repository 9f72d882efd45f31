//! Measures how queries scale with the executors of a cluster: `make bench-cluster`.
//!
//! ```text
//! main    data sets, groups of limited processor time, comparison of results, tables
//!  -> inside (the same program in namespaces of its own, once for each number of executors)
//!      network   a namespace for each executor, joined by a bridge
//!      cluster   scheduler and executors in it, or the embedded engine; times, processor times, bytes
//! ```
//!
//! Invariants: everything that is started is in the process namespace of `inside`, whose end ends
//! all of it, and the network namespaces with it. `inside` ends when this program does. What is
//! left then, groups and a folder, is removed at the end, also after Ctrl-C.

mod cluster;
mod data;
mod inside;
mod limits;
mod network;
mod outside;
mod processes;
mod report;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use hmtt_test_support::files::skipped;

use data::Data;
use outside::Outside;
use report::Report;

/// Numbers of executors; 0: the embedded engine.
const EXECUTORS: [usize; 4] = [0, 1, 2, 4];
/// Accesses, unless the first argument states their number.
const ACCESSES: u64 = 50_000_000;

fn main() -> ExitCode {
    let ended = match std::env::var_os(outside::JOB) {
        Some(job) => inside::run(&job).map(|()| ExitCode::SUCCESS),
        None => measure(),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("bench-cluster: {error:#}");
        ExitCode::FAILURE
    })
}

fn measure() -> Result<ExitCode> {
    if let Some(reason) = limits::obstacle() {
        skipped(reason);
        return Ok(ExitCode::SUCCESS);
    }
    let accesses = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench/cluster");
    let data = Data::new(&folder, accesses.unwrap_or(ACCESSES))?;
    let outside = Outside::new(&folder)?;
    let mut report = Report::new(&data)?;
    for executors in EXECUTORS {
        let Some(measured) = outside.measure(executors, &data)? else {
            return Ok(ExitCode::from(outside::INTERRUPTED));
        };
        report.add(executors, measured)?;
    }
    report.print();
    Ok(ExitCode::SUCCESS)
}
