//! Reads the counts that the tables of runs and threads state for each session.

use std::collections::BTreeMap;
use std::path::Path;

use super::SessionKey;
use super::log_counts::{self, ThreadCounts};
use crate::card_counts::CardCounts;
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::log::EXITS;
use crate::reader::PartReader;
use crate::schema::Table;

/// Counts of a session according to its row in the table of runs or threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionCounts {
    /// Number of the card in its capture, from 1.
    pub card: u64,
    /// Number of rows in each table, by [`Table`].
    pub rows: [u64; Table::ALL.len()],
    /// Counts of the card in the whole capture.
    pub counts: CardCounts,
    /// For a thread of a log, its counts, and the number of its calls by kind of end. `None` for a
    /// session of a card.
    pub thread: Option<(ThreadCounts, [u64; EXITS.len()])>,
}

/// Reads a part of the table of runs or threads, and adds its sessions to `sessions`.
pub fn read(
    set: &DataFolder,
    path: &Path,
    table: Table,
    sessions: &mut BTreeMap<SessionKey, SessionCounts>,
) -> Result<(), DatasetError> {
    if table == Table::Threads {
        read_threads(set, path, sessions)
    } else {
        read_runs(set, path, sessions)
    }
}

fn read_threads(
    set: &DataFolder,
    path: &Path,
    sessions: &mut BTreeMap<SessionKey, SessionCounts>,
) -> Result<(), DatasetError> {
    let reader = PartReader::open(set, path, Table::Threads)?;
    for number in 0..reader.group_count() {
        let mut group = reader.group(number)?;
        let captures = group.texts("capture")?;
        let numbers = group.numbers("session")?;
        let stated = log_counts::stated(&mut group)?;
        for ((capture, number), stated) in captures.into_iter().zip(numbers).zip(stated) {
            let key = (capture.unwrap_or_default(), number.unwrap_or(-1));
            let session = sessions.entry(key).or_default();
            session.rows[Table::Calls as usize] = stated.0.calls;
            session.rows[Table::Threads as usize] = 1;
            session.thread = Some(stated);
        }
    }
    Ok(())
}

fn read_runs(
    set: &DataFolder,
    path: &Path,
    sessions: &mut BTreeMap<SessionKey, SessionCounts>,
) -> Result<(), DatasetError> {
    let reader = PartReader::open(set, path, Table::Runs)?;
    for number in 0..reader.group_count() {
        let mut group = reader.group(number)?;
        let captures = group.texts("capture")?;
        let numbers = group.numbers("session")?;
        let mut column = |name: &str| -> Result<Vec<u64>, DatasetError> {
            let values = group.numbers(name)?;
            Ok(values.into_iter().map(|value| value.unwrap_or(0).max(0) as u64).collect())
        };
        let cards = column("card")?;
        let rows = [
            (Table::Accesses, column("access_rows")?),
            (Table::Pages, column("page_rows")?),
            (Table::Slices, column("slice_rows")?),
            (Table::Gaps, column("gap_rows")?),
            (Table::Tags, column("tag_rows")?),
            (Table::Events, column("event_rows")?),
        ];
        let accesses = column("accesses")?;
        let lost_accesses = column("lost_accesses")?;
        let accesses_before_start = column("accesses_before_start")?;
        let card_lost_records = column("card_lost_records")?;
        let missing_frames = column("missing_frames")?;
        let malformed_frames = column("malformed_frames")?;
        let gap_count = column("gap_count")?;
        for (at, (capture, number)) in captures.into_iter().zip(numbers).enumerate() {
            let key = (capture.unwrap_or_default(), number.unwrap_or(-1));
            let session = sessions.entry(key).or_default();
            session.card = cards[at];
            session.rows[Table::Runs as usize] = 1;
            rows.iter().for_each(|(table, rows)| session.rows[*table as usize] = rows[at]);
            session.counts = CardCounts {
                accesses: accesses[at],
                lost_accesses: lost_accesses[at],
                accesses_before_start: accesses_before_start[at],
                card_lost_records: card_lost_records[at],
                missing_frames: missing_frames[at],
                malformed_frames: malformed_frames[at],
                gap_count: gap_count[at],
            };
        }
    }
    Ok(())
}
