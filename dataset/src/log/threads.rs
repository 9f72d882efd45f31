//! Builds the rows of the table `threads`. Each thread of a log has one row.

use std::path::Path;
use std::time::Duration;

use hmtt::tags::stack::Exit;
use hmtt::tags::threads::Thread;
use hmtt_files::tag_log::{self, Header, LossReason};
use parquet::data_type::ByteArray;

use crate::accesses::milliseconds;
use crate::rows::{Value, signed};

/// Kinds of a call's end, in the order of the columns.
pub const EXITS: [&str; 4] = ["returned", "abandoned", "ended", "open"];

/// The value of the column `exit` for a kind of end.
pub fn exit_name(exit: Exit) -> &'static str {
    EXITS[place(exit)]
}

fn place(exit: Exit) -> usize {
    match exit {
        Exit::Returned => 0,
        Exit::Abandoned => 1,
        Exit::Ended => 2,
        Exit::Open => 3,
    }
}

/// Number of calls for each kind of end, by [`EXITS`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Exits([u64; EXITS.len()]);

impl Exits {
    /// Counts a call.
    pub fn add(&mut self, exit: Exit) {
        self.0[place(exit)] += 1;
    }

    /// Number of all calls.
    pub fn calls(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Facts about a log that are known at its end.
pub struct Ending<'a> {
    /// Path of the log.
    pub path: &'a Path,
    /// Hash of the log, as text.
    pub capture: ByteArray,
    /// Path of the program's file.
    pub program: &'a str,
    /// The log's header.
    pub header: &'a Header,
    /// Reason for the end of tagging; `None` if the log has no end.
    pub ending: Option<tag_log::Ending>,
    /// Whether the log ends within a chunk.
    pub is_cut: bool,
}

/// Builds the row of a thread. `number`: index of the thread in the log.
pub fn row(number: usize, thread: &Thread, exits: &Exits, ending: &Ending<'_>) -> Vec<Value> {
    let Ending { path, capture, program, header, ending, is_cut } = ending;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let frequency = (header.is_timed && header.tsc_hz != 0).then(|| signed(header.tsc_hz));
    let mut row: Vec<Value> = vec![
        capture.clone().into(),
        signed(number as u64).into(),
        milliseconds(Duration::from_nanos(header.start_ns)).into(),
        (&*file).into(),
        (*program).into(),
        signed(header.pid).into(),
        signed(thread.number).into(),
        thread.name.as_deref().into(),
        header.is_timed.into(),
        frequency.into(),
        signed(thread.events).into(),
        signed(exits.calls()).into(),
    ];
    row.extend(exits.0.map(|calls| signed(calls).into()));
    let lost = lost(thread);
    row.extend(lost.map(|events| signed(events).into()));
    row.extend([signed(thread.unmatched), signed(thread.shared)].map(Value::from));
    row.extend([ending.map(ending_name).into(), (*is_cut).into()]);
    row
}

/// Numbers of lost events by reason: the buffer was full, a signal interrupted a tag, the program
/// overwrote the events, or another reason.
fn lost(thread: &Thread) -> [u64; 4] {
    let mut lost = [0_u64; 4];
    for (reason, count) in &thread.lost {
        let sum = match reason {
            LossReason::BufferFull => &mut lost[0],
            LossReason::Interrupted => &mut lost[1],
            LossReason::Damaged => &mut lost[2],
            LossReason::Unknown(_) => &mut lost[3],
        };
        *sum = sum.saturating_add(*count);
    }
    lost
}

fn ending_name(ending: tag_log::Ending) -> &'static str {
    match ending {
        tag_log::Ending::Detached => "detached",
        tag_log::Ending::Exited(_) => "exited",
        tag_log::Ending::Signaled(_) => "signaled",
        tag_log::Ending::Replaced => "replaced",
    }
}
