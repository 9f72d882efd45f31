//! Collects the tags, marks and losses of all sessions from the tables, for the timelines of
//! functions.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use crate::functions::{SessionKey, SessionTags, Tag};

/// Kind of the rows that a query of [`QUERIES`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Writes to the window: offset and address.
    Windows,
    /// Marks: register.
    Marks,
    /// Losses.
    Gaps,
    /// Clock periods.
    Periods,
}

/// The queries. Each returns capture, session, clock and two numbers.
pub const QUERIES: [(&str, Found); 4] = [
    (
        "select capture, session, clock, \"offset\", address from tags \
         where \"offset\" is not null and is_write",
        Found::Windows,
    ),
    (
        "select capture, session, clock, register, address from tags where register is not null",
        Found::Marks,
    ),
    (
        "select capture, session, coalesce(after_clock, 0) as clock, 0 as none, 0 as no_address \
         from gaps where is_loss",
        Found::Gaps,
    ),
    (
        "select capture, session, tck_ps, 0 as none, 0 as no_address from runs \
         where tck_ps is not null",
        Found::Periods,
    ),
];

/// Tags of sessions.
#[derive(Debug, Default)]
pub struct Sessions(pub BTreeMap<SessionKey, SessionTags>);

impl Sessions {
    /// Adds rows of a query.
    pub fn add(&mut self, kind: Found, batch: &RecordBatch) {
        let captures = batch.column(0).as_string_view();
        let number = |column: usize, row: usize| {
            let numbers = batch.column(column).as_primitive::<Int64Type>();
            numbers.is_valid(row).then(|| numbers.value(row) as u64)
        };
        for row in 0..batch.num_rows() {
            let key = (captures.value(row).to_owned(), number(1, row).unwrap_or_default() as i64);
            let session = self.0.entry(key).or_default();
            let (clock, first) = (number(2, row).unwrap_or_default(), number(3, row));
            let first = first.and_then(|first| u32::try_from(first).ok()).unwrap_or_default();
            match kind {
                Found::Windows => session.tags.push((clock, Tag::Window(first, number(4, row)))),
                Found::Marks => session.tags.push((clock, Tag::Mark(first))),
                Found::Gaps => session.tags.push((clock, Tag::Gap)),
                Found::Periods => session.tck_ps = u32::try_from(clock).ok(),
            }
        }
    }
}
