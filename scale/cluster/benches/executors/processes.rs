//! Reads the processor times of processes.

use anyhow::{Context, Result};

/// Ticks of /proc in a second, on all machines of Linux that we build for.
const TICKS: f64 = 100.0;

/// Which processor times of `/proc/PID/stat` are read: fields after the name of the program, of
/// which the first has number 0.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// Those of the process.
    Own,
    /// Those of its children that have ended.
    Children,
}

/// Processor seconds of a process, user and system.
pub fn seconds(pid: &str, times: Times) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("no name in /proc")?;
    let fields = fields.split_whitespace();
    let first = match times {
        Times::Own => 11,
        Times::Children => 13,
    };
    let ticks = fields.skip(first).take(2).map(|field| field.parse::<f64>());
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS)
}
