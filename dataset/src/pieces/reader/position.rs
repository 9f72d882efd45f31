//! Keeps the current session of a piece, and passes on rows with the gaps and restarts between
//! them.

use std::collections::HashMap;
use std::ops::Range;

use hmtt::analysis::source::Part;
use hmtt::analysis::{Batch, FrequencySlice, PageRun};

use super::super::{PlacedGap, ReadRows, Session};
use super::rows::{Columns, RowValues};

/// A position in a piece: a session, and a gap in it.
pub struct Position<'a> {
    sessions: &'a [Session],
    /// Number of each session, by capture and session number.
    numbers: HashMap<(&'a [u8], i64), usize>,
    /// Number of the current session.
    at: usize,
    /// Number of the session's gaps that were passed on.
    gap: usize,
}

impl<'a> Position<'a> {
    /// Starts before the first row of the first session.
    pub fn new(sessions: &'a [Session]) -> Self {
        let key = |session: &'a Session| (session.capture.as_bytes(), session.number);
        let numbers = sessions.iter().map(key).zip(0..).collect();
        Position { sessions, numbers, at: 0, gap: 0 }
    }

    /// The number of a session in the piece; `None` if the piece does not have the session.
    pub fn number(&self, capture: &[u8], session: i64) -> Option<usize> {
        self.numbers.get(&(capture, session)).copied()
    }

    /// Goes to the session with this number. Passes on the gaps and restarts on the way.
    pub fn go_to(&mut self, number: usize, pass_on: &mut dyn FnMut(Part<'_>)) {
        if number >= self.at {
            return self.advance(number, pass_on);
        }
        // The session is earlier than the current one: captures of several receivers overlap in
        // time. Each change between them is a restart.
        pass_on(Part::Restart);
        pass_on(Part::Known(&self.sessions[number].known));
        (self.at, self.gap) = (number, self.sessions[number].gaps.len());
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

    /// Passes on the gaps that end at or before a clock and arrival; all gaps of the session if
    /// `time` is `None`.
    fn gaps_before(&mut self, time: Option<(u64, i64)>, pass_on: &mut dyn FnMut(Part<'_>)) {
        let Some(session) = self.sessions.get(self.at) else { return };
        let is_before =
            |gap: &PlacedGap| time.is_none_or(|time| gap.end.is_some_and(|end| end <= time));
        while let Some(gap) = session.gaps.get(self.gap).filter(|gap| is_before(gap)) {
            pass_on(Part::Gap(gap.gap));
            self.gap += 1;
        }
    }

    /// Passes on rows of the current session, with the gaps between them, and counts the rows.
    pub fn pass_on(
        &mut self,
        columns: &Columns,
        rows: Range<usize>,
        read: &mut ReadRows,
        pass_on: &mut dyn FnMut(Part<'_>),
    ) {
        read.accesses = read.accesses.saturating_add(columns.accesses(rows.clone()));
        let burst_bytes = self.sessions[self.at].burst_bytes;
        match &columns.values {
            RowValues::Accesses { addresses, writes } => {
                self.accesses(columns, (addresses, writes), rows, pass_on);
            }
            RowValues::Pages(runs) => {
                for row in rows {
                    let run = PageRun { burst_bytes, ..runs[row] };
                    read.coarse.add_run(&run);
                    self.gaps_before(Some(columns.time(row)), pass_on);
                    pass_on(Part::PageRun(run));
                }
            }
            RowValues::Slices(slices) => {
                for row in rows {
                    let slice = FrequencySlice { burst_bytes, ..slices[row] };
                    read.coarse.add_slice(&slice);
                    self.gaps_before(Some(columns.time(row)), pass_on);
                    pass_on(Part::FrequencySlice(slice));
                }
            }
        }
    }

    fn accesses(
        &mut self,
        columns: &Columns,
        (addresses, writes): (&[u64], &[bool]),
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
            let batch = Batch::new(&addresses[range.clone()], &writes[range.clone()])
                .with_clocks(&columns.clocks[range])
                .with_unit(session.known.unit_bytes);
            pass_on(Part::Batch(batch));
            from = end;
        }
    }

    /// Passes on the gaps and restarts after the last row.
    pub fn end(mut self, pass_on: &mut dyn FnMut(Part<'_>)) {
        if let Some(last) = self.sessions.len().checked_sub(1) {
            self.advance(last, pass_on);
            self.gaps_before(None, pass_on);
        }
    }
}
