//! Counts of the threads in a log of tags. The counts come from the table of threads, or from the
//! events of the log, which are added up without reconstructing calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hmtt::tags::log_reader::TagLogError;
use hmtt_files::tag_log::{Content, LogError, LossReason};

use crate::error::DatasetError;
use crate::log::{self, EXITS};
use crate::reader::GroupReader;

/// Columns with lost events, one for each reason.
const LOSSES: [&str; 4] = ["buffer_full", "interrupted", "damaged", "other"];

/// Counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of the thread in the kernel.
    pub thread: u64,
    /// Events of the thread that were read.
    pub events: u64,
    /// Calls of the thread: entries of functions.
    pub calls: u64,
    /// Lost events of the thread, by [`LOSSES`].
    pub lost: [u64; LOSSES.len()],
}

impl ThreadCounts {
    /// Lost events of the thread for all reasons together.
    pub fn lost_events(&self) -> u64 {
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Calls `compare` with the name of each count, its value for this thread, and its value in
    /// `other`.
    pub fn compare(&self, other: &ThreadCounts, mut compare: impl FnMut(&'static str, u64, u64)) {
        compare("thread", self.thread, other.thread);
        compare("events", self.events, other.events);
        compare("call_rows", self.calls, other.calls);
        for ((name, lost), other) in LOSSES.iter().zip(self.lost).zip(other.lost) {
            compare(name, lost, other);
        }
    }
}

/// Reads the counts of a row group in the table of threads: the counts of each thread, and its
/// calls by kind of end.
pub fn stated(
    group: &mut GroupReader<'_>,
) -> Result<Vec<(ThreadCounts, [u64; EXITS.len()])>, DatasetError> {
    let mut column = |name: &str| -> Result<Vec<u64>, DatasetError> {
        let values = group.numbers(name)?;
        Ok(values.into_iter().map(|value| value.unwrap_or(0).max(0) as u64).collect())
    };
    let (threads, events, calls) = (column("thread")?, column("events")?, column("call_rows")?);
    let exits: Result<Vec<_>, _> = EXITS.iter().map(|name| column(name)).collect();
    let lost: Result<Vec<_>, _> = LOSSES.iter().map(|name| column(name)).collect();
    let (exits, lost) = (exits?, lost?);
    let row = |at: usize| {
        let cell = |columns: &[Vec<u64>], name: usize| columns[name][at];
        let counts = ThreadCounts {
            thread: threads[at],
            events: events[at],
            calls: calls[at],
            lost: std::array::from_fn(|name| cell(&lost, name)),
        };
        (counts, std::array::from_fn(|name| cell(&exits, name)))
    };
    Ok((0..threads.len()).map(row).collect())
}

/// Counts the events of a log once more. Returns the threads in the order in which they appear.
pub fn recounted(path: &Path) -> Result<Vec<ThreadCounts>, DatasetError> {
    let (mut reader, map) = log::open(path)?;
    let is_timed = reader.header().is_timed;
    let blocks: BTreeSet<_> = map.blocks.iter().map(|block| block.number).collect();
    let mut threads = Vec::<ThreadCounts>::new();
    // The kernel uses a thread's number again after the thread has ended.
    let mut live = BTreeMap::<u32, usize>::new();
    let mut offset = reader.offset();
    while let Some(chunk) = reader.next_chunk().map_err(DatasetError::log(path))? {
        let number = chunk.thread;
        let mut place = |live: &mut BTreeMap<u32, usize>| {
            *live.entry(number).or_insert_with(|| {
                threads.push(ThreadCounts { thread: number.into(), ..ThreadCounts::default() });
                threads.len() - 1
            })
        };
        match chunk.content {
            Content::Events(events) => {
                let place = place(&mut live);
                for event in events.decode(is_timed) {
                    let event = event.map_err(|source: LogError| {
                        DatasetError::log(path)(TagLogError::Log { offset, source })
                    })?;
                    threads[place].events += 1;
                    let is_call = !event.is_exit && !blocks.contains(&event.number);
                    threads[place].calls += u64::from(is_call);
                }
            }
            Content::Lost { count, reason } => {
                let place = place(&mut live);
                let lost = &mut threads[place].lost[match reason {
                    LossReason::BufferFull => 0,
                    LossReason::Interrupted => 1,
                    LossReason::Damaged => 2,
                    LossReason::Unknown(_) => 3,
                }];
                *lost = lost.saturating_add(count);
            }
            Content::ThreadStart { .. } => {
                live.remove(&number);
                place(&mut live);
            }
            Content::ThreadEnd => drop(live.remove(&number)),
            _ => {}
        }
        offset = reader.offset();
    }
    Ok(threads)
}
