//! Checks one part: the order, partition and bounds of its rows, and adds up its counts.

use std::collections::BTreeMap;
use std::path::Path;

use super::{SessionKey, is_in_hour};
use crate::accesses::PAGE_LOG2;
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::log::EXITS;
use crate::partition::Partition;
use crate::reader::{GroupReader, PartReader};
use crate::schema::Table;

/// Counts of a session, added up over all parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Number of rows in each table, by [`Table`].
    pub rows: [u64; Table::ALL.len()],
    /// Accesses that rows other than slices represent.
    pub accesses: u64,
    /// Accesses that slices represent.
    pub slice_accesses: u64,
    /// Accesses lost in gaps.
    pub lost_accesses: u64,
    /// Accesses in the gap before the first frame of a capture.
    pub accesses_before_start: u64,
    /// Records that the card lost.
    pub card_lost_records: u64,
    /// Number of calls by kind of end.
    pub exits: [u64; EXITS.len()],
}

impl Found {
    /// Adds the counts of another session.
    pub fn add(&mut self, other: &Found) {
        self.rows.iter_mut().zip(other.rows).for_each(|(sum, rows)| *sum += rows);
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.slice_accesses = self.slice_accesses.saturating_add(other.slice_accesses);
        self.lost_accesses = self.lost_accesses.saturating_add(other.lost_accesses);
        self.accesses_before_start =
            self.accesses_before_start.saturating_add(other.accesses_before_start);
        self.card_lost_records = self.card_lost_records.saturating_add(other.card_lost_records);
    }
}

/// Checks a part, and adds the counts of its rows to `sums`. Returns the size of the part in
/// bytes, and its problems.
///
/// # Errors
/// The part cannot be read.
pub fn check(
    set: &DataFolder,
    path: &Path,
    partition: &Partition,
    sums: &mut BTreeMap<SessionKey, Found>,
) -> Result<(u64, Vec<String>), DatasetError> {
    let table = partition.table;
    let reader = PartReader::open(set, path, table)?;
    let mut problems = Vec::new();
    for number in 0..reader.group_count() {
        let mut group = reader.group(number)?;
        let captures = group.texts("capture")?;
        let sessions = group.numbers("session")?;
        let keys: Vec<_> = captures.into_iter().zip(sessions).collect();
        let mut problem = |text: &str| problems.push(format!("row group {number}: {text}"));
        let time = table.time();
        let arrivals = group.numbers(time)?;
        if !arrivals.iter().flatten().all(|time| is_in_hour(partition, *time)) {
            problem("a time is not in the hour of the partition");
        }
        if !group.has_bounds(time, &arrivals) {
            problem(&format!("wrong bounds of {time}"));
        }
        let represented = represented(&mut group, &keys, table, &mut problem)?;
        let exits = match table {
            Table::Calls => calls(&mut group, &mut problem)?,
            _ => Vec::new(),
        };
        let gaps = if table == Table::Gaps { gap_columns(&mut group)? } else { Vec::new() };
        for (at, key) in keys.into_iter().enumerate() {
            let (Some(capture), Some(session)) = key else {
                problem("a row has no capture or no session");
                break;
            };
            let session_sum = sums.entry((capture, session)).or_default();
            session_sum.rows[table as usize] += 1;
            let count = represented.get(at).copied().unwrap_or(0);
            let sum = match table {
                Table::Slices => &mut session_sum.slice_accesses,
                _ => &mut session_sum.accesses,
            };
            *sum = sum.saturating_add(count);
            if let Some(exit) = exits.get(at) {
                session_sum.exits[*exit] += 1;
            }
            if let Some(gap) = gaps.get(at) {
                session_sum.card_lost_records = session_sum
                    .card_lost_records
                    .saturating_add(if gap.is_at_start { 0 } else { gap.records });
                let lost = if gap.is_at_start {
                    &mut session_sum.accesses_before_start
                } else {
                    &mut session_sum.lost_accesses
                };
                *lost = lost.saturating_add(gap.accesses);
            }
        }
    }
    Ok((reader.bytes(), problems))
}

/// The number of accesses that each row represents. For the table of accesses, also checks the
/// order and the bounds of the columns.
fn represented(
    group: &mut GroupReader<'_>,
    keys: &[(Option<String>, Option<i64>)],
    table: Table,
    problem: &mut impl FnMut(&str),
) -> Result<Vec<u64>, DatasetError> {
    match table {
        Table::Accesses => {
            let clocks = group.numbers("clock")?;
            let ascend = |at: usize| keys[at] != keys[at - 1] || clocks[at] >= clocks[at - 1];
            if !(1..clocks.len().min(keys.len())).all(ascend) {
                problem("clocks do not ascend");
            }
            let (addresses, pages) = (group.numbers("address")?, group.numbers("page")?);
            let is_page = |(address, page): (&Option<i64>, &Option<i64>)| {
                address.map(|address| address >> PAGE_LOG2) == *page
            };
            if !addresses.iter().zip(&pages).all(is_page) {
                problem("a page is not that of its address");
            }
            for (name, values) in [("clock", &clocks), ("address", &addresses), ("page", &pages)] {
                if !group.has_bounds(name, values) {
                    problem(&format!("wrong bounds of {name}"));
                }
            }
            if !group.filter_has("page", &pages)? {
                problem("the Bloom filter does not have a page");
            }
            Ok(vec![1; clocks.len()])
        }
        Table::Pages | Table::Slices => {
            let (reads, writes) = (group.numbers("reads")?, group.numbers("writes")?);
            let count = |value: Option<i64>| value.unwrap_or(0).max(0) as u64;
            Ok(reads
                .into_iter()
                .zip(writes)
                .map(|(reads, writes)| count(reads) + count(writes))
                .collect())
        }
        // A mark is no access in the tag window, so it represents no access.
        Table::Tags => Ok(group
            .numbers("offset")?
            .into_iter()
            .map(|offset| u64::from(offset.is_some()))
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// The kind of end of each call, as an index into [`EXITS`]. Also checks the times of the calls.
fn calls(
    group: &mut GroupReader<'_>,
    problem: &mut impl FnMut(&str),
) -> Result<Vec<usize>, DatasetError> {
    let (end_times, ends) = (group.numbers("end_time")?, group.numbers("end_time_ns")?);
    let is_same = |(time, ns): (&Option<i64>, &Option<i64>)| {
        ns.is_none_or(|ns| *time == Some(ns.div_euclid(1_000_000)))
    };
    if !end_times.iter().zip(&ends).all(is_same) {
        problem("an end_time is not that of end_time_ns");
    }
    let (inclusive, own) = (group.numbers("inclusive_ns")?, group.numbers("self_ns")?);
    if !inclusive.iter().zip(&own).all(|(inclusive, own)| own <= inclusive) {
        problem("a self_ns is above inclusive_ns");
    }
    let exits = group.texts("exit")?.into_iter();
    let place = |exit: Option<String>| EXITS.iter().position(|name| Some(*name) == exit.as_deref());
    let exits: Option<Vec<usize>> = exits.map(place).collect();
    if exits.is_none() {
        problem("an exit has no known value");
    }
    Ok(exits.unwrap_or_default())
}

/// The losses that a row of the table of gaps states.
struct GapCounts {
    is_at_start: bool,
    accesses: u64,
    records: u64,
}

fn gap_columns(group: &mut GroupReader<'_>) -> Result<Vec<GapCounts>, DatasetError> {
    let after = group.numbers("after_clock")?;
    let accesses = group.numbers("lost_accesses")?;
    let records = group.numbers("card_lost_records")?;
    let count = |value: Option<i64>| value.unwrap_or(0).max(0) as u64;
    let rows = after.into_iter().zip(accesses).zip(records);
    Ok(rows
        .map(|((after, accesses), records)| GapCounts {
            is_at_start: after.is_none(),
            accesses: count(accesses),
            records: count(records),
        })
        .collect())
}
