//! Compares the values that the controller reads from shared memory with a model of the same bytes.
//! The traced process may write anything to this memory.
//!
//! An input is a script. It selects the data that is read (counts, a log, or the patch records of a
//! killed controller), and lists the actions of process and controller in turn. The process writes
//! to a file that both have mapped.

mod counts;
mod log;
mod notes;
mod plain;
mod tracee;

use crate::script::Bytes;

/// Runs a script.
pub fn check(bytes: &[u8]) {
    let mut script = Bytes::new(bytes);
    match script.byte().map(|kind| kind % 3) {
        Some(0) => counts::check(script),
        Some(1) => log::check(script),
        Some(_) => notes::check(script),
        None => {}
    }
}
