//! Anything in the memory that a traced process shares with its controller, to what the controller says of it: as much
//! as a plain reading of the same bytes does, and nothing of what was never handed out.
//!
//! An input is a script: what is read (counts, a log, what a killed controller noted), and what the process writes
//! and the controller does in turn. The process writes to the file that both have mapped.

mod counts;
mod log;
mod notes;
mod plain;
mod tracee;

use crate::script::Bytes;

/// Plays a script.
pub fn check(bytes: &[u8]) {
    let mut script = Bytes::new(bytes);
    match script.byte().map(|kind| kind % 3) {
        Some(0) => counts::check(script),
        Some(1) => log::check(script),
        Some(_) => notes::check(script),
        None => {}
    }
}
