//! Reads the accesses of a piece, with gaps and restarts in their places.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use hmtt::analysis::Batch;
use hmtt::analysis::source::Part;
use parquet::data_type::ByteArray;

use super::{Piece, PlacedGap, ReadRows, Session};
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::reader::{GroupReader, PartReader};
use crate::schema::Table;

impl Piece {
    /// Reads the piece. `root`: the folder of the data set. `rows`: counts what was read. `is_wanted`: asked before each row
    /// group; if it is not, reading ends.
    ///
    /// # Errors
    /// A part cannot be read; what precedes it was passed on.
    pub fn read(
        &self,
        root: &Path,
        rows: &mut ReadRows,
        is_wanted: &dyn Fn() -> bool,
        pass_on: &mut dyn FnMut(Part<'_>),
    ) -> Result<(), DatasetError> {
        let set = DataFolder::open(root)?;
        let has_gaps = self.sessions.iter().any(|session| !session.gaps.is_empty());
        let mut position = Position::new(&self.sessions);
        if let Some(first) = self.sessions.first() {
            pass_on(Part::Known(&first.known));
        }
        for part in &self.parts {
            let part = PartReader::open(&set, part, Table::Accesses)?;
            for number in 0..part.group_count() {
                if !is_wanted() {
                    return Ok(());
                }
                let mut columns = Columns::read(&mut part.group(number)?, has_gaps)?;
                for (capture, session, range) in std::mem::take(&mut columns.sessions) {
                    let is_known = position.go_to(capture.data(), session, pass_on);
                    let count = range.len() as u64;
                    match is_known {
                        true => {
                            position.pass_on(&columns, range, pass_on);
                            rows.accesses = rows.accesses.saturating_add(count);
                        }
                        false => rows.unpublished = rows.unpublished.saturating_add(count),
                    }
                }
            }
        }
        position.end(pass_on);
        if self.restarts_after {
            pass_on(Part::Restart);
        }
        Ok(())
    }
}

/// Columns of a row group.
struct Columns {
    addresses: Vec<u64>,
    writes: Vec<bool>,
    clocks: Vec<u64>,
    /// Arrivals; empty if there are no gaps.
    arrivals: Vec<i64>,
    /// Rows of one session that follow each other.
    sessions: Vec<(ByteArray, i64, Range<usize>)>,
}

impl Columns {
    fn read(group: &mut GroupReader<'_>, has_gaps: bool) -> Result<Self, DatasetError> {
        let sessions = group.sessions()?;
        let number = |value: Option<i64>| value.unwrap_or(0);
        let addresses = group.numbers("address")?.into_iter();
        let clocks = group.numbers("clock")?.into_iter();
        let writes = group.flags("is_write")?.into_iter();
        let arrivals = if has_gaps { group.numbers("arrival")? } else { Vec::new() };
        Ok(Columns {
            addresses: addresses.map(|value| number(value) as u64).collect(),
            writes: writes.map(|value| value.unwrap_or(false)).collect(),
            clocks: clocks.map(|value| number(value).max(0) as u64).collect(),
            arrivals: arrivals.into_iter().map(number).collect(),
            sessions,
        })
    }

    /// Clock and arrival of a row.
    fn time(&self, row: usize) -> (u64, i64) {
        (self.clocks[row], self.arrivals.get(row).copied().unwrap_or(0))
    }
}

/// A place in a piece.
struct Position<'a> {
    sessions: &'a [Session],
    /// Numbers of the sessions.
    numbers: HashMap<(&'a [u8], i64), usize>,
    /// Number of the session.
    at: usize,
    /// Gaps of the session that were passed on.
    gap: usize,
}

impl<'a> Position<'a> {
    fn new(sessions: &'a [Session]) -> Self {
        let key = |session: &'a Session| (session.capture.as_bytes(), session.number);
        let numbers = sessions.iter().map(key).zip(0..).collect();
        Position { sessions, numbers, at: 0, gap: 0 }
    }

    /// Goes to a session, and passes on what is between. Returns whether the piece has the session.
    fn go_to(&mut self, capture: &[u8], number: i64, pass_on: &mut dyn FnMut(Part<'_>)) -> bool {
        match self.numbers.get(&(capture, number)).copied() {
            Some(to) if to == self.at => {}
            Some(to) if to > self.at => self.advance(to, pass_on),
            // Captures that arrived at the same time.
            Some(to) => {
                pass_on(Part::Restart);
                pass_on(Part::Known(&self.sessions[to].known));
                (self.at, self.gap) = (to, self.sessions[to].gaps.len());
            }
            None => return false,
        }
        true
    }

    fn advance(&mut self, to: usize, pass_on: &mut dyn FnMut(Part<'_>)) {
        while self.at < to {
            self.gaps_before(None, pass_on);
            let known = self.sessions[self.at].known;
            (self.at, self.gap) = (self.at + 1, 0);
            let session = &self.sessions[self.at];
            if session.restarts {
                pass_on(Part::Restart);
            }
            if session.known != known {
                pass_on(Part::Known(&session.known));
            }
        }
    }

    /// Passes on gaps that end at or before a clock and arrival; without it all.
    fn gaps_before(&mut self, time: Option<(u64, i64)>, pass_on: &mut dyn FnMut(Part<'_>)) {
        let Some(session) = self.sessions.get(self.at) else { return };
        let is_before =
            |gap: &PlacedGap| time.is_none_or(|time| gap.end.is_some_and(|end| end <= time));
        while let Some(gap) = session.gaps.get(self.gap).filter(|gap| is_before(gap)) {
            pass_on(Part::Gap(gap.gap));
            self.gap += 1;
        }
    }

    /// Passes on rows of the session, with gaps between.
    fn pass_on(
        &mut self,
        columns: &Columns,
        rows: Range<usize>,
        pass_on: &mut dyn FnMut(Part<'_>),
    ) {
        let session = &self.sessions[self.at];
        let mut from = rows.start;
        while from < rows.end {
            self.gaps_before(Some(columns.time(from)), pass_on);
            let next = session.gaps.get(self.gap).and_then(|gap| gap.end);
            let is_behind = |row: &usize| next.is_some_and(|next| columns.time(*row) >= next);
            let end = match next {
                Some(_) => (from + 1..rows.end).find(is_behind).unwrap_or(rows.end),
                None => rows.end,
            };
            let range = from..end;
            let batch =
                Batch::new(&columns.addresses[range.clone()], &columns.writes[range.clone()])
                    .with_clocks(&columns.clocks[range])
                    .with_unit(session.known.unit_bytes);
            pass_on(Part::Batch(batch));
            from = end;
        }
    }

    /// Passes on what follows the last row.
    fn end(mut self, pass_on: &mut dyn FnMut(Part<'_>)) {
        if let Some(last) = self.sessions.len().checked_sub(1) {
            self.advance(last, pass_on);
            self.gaps_before(None, pass_on);
        }
    }
}
