//! Reads the accesses of a piece, with gaps and restarts in their places.
//!
//! ```text
//! parts of accesses, pages, slices -> rows      rows of each table, with their sessions
//!                                  -> turn      whose rows are next, by session and clock
//!                                  -> position  parts for analyses, gaps and restarts between them
//! ```
//!
//! Invariant: at any time, memory holds at most one row group of each table.

mod position;
mod rows;

use std::ops::Range;
use std::path::Path;

use hmtt::analysis::source::Part;

use self::position::Position;
use self::rows::TableRows;
use super::{ANALYSED_TABLES, Piece, ReadRows};
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::partition::Partition;

impl Piece {
    /// Reads the piece, and passes its accesses on. `root`: folder of the data set. `rows`: counts
    /// of the rows that were read, which are increased. `is_wanted`: called before each row group;
    /// if it returns false, reading ends.
    ///
    /// # Errors
    /// A part cannot be read. Everything before the error was passed on.
    pub fn read(
        &self,
        root: &Path,
        rows: &mut ReadRows,
        is_wanted: &dyn Fn() -> bool,
        pass_on: &mut dyn FnMut(Part<'_>),
    ) -> Result<(), DatasetError> {
        let set = DataFolder::open(root)?;
        let mut tables = self.tables();
        let mut position = Position::new(&self.sessions);
        if let Some(first) = self.sessions.first() {
            pass_on(Part::Known(&first.known));
        }
        loop {
            for table in &mut tables {
                if !table.load(&set, is_wanted)? {
                    return Ok(());
                }
            }
            let Some(Turn { table, rows: range, session }) = turn(&tables, &position) else {
                break;
            };
            let table = &mut tables[table];
            match session {
                Some(number) => {
                    position.go_to(number, pass_on);
                    position.pass_on(table.columns(), range.clone(), rows, pass_on);
                }
                None => rows.leave_out(table.columns().accesses(range.clone())),
            }
            table.go_to(range.end);
        }
        position.end(pass_on);
        if self.restarts_after {
            pass_on(Part::Restart);
        }
        Ok(())
    }

    /// The three tables of the piece, before any row is loaded.
    fn tables(&self) -> Vec<TableRows<'_>> {
        let has_gaps = self.sessions.iter().any(|session| !session.gaps.is_empty());
        let table_of = |path: &Path| Some(Partition::parse(path.parent()?)?.table);
        let rows = ANALYSED_TABLES.map(|table| {
            let parts = self.parts.iter().filter(|path| table_of(path) == Some(table));
            TableRows::new(table, parts.map(|path| &**path).collect(), has_gaps)
        });
        rows.into()
    }
}

impl ReadRows {
    fn leave_out(&mut self, accesses: u64) {
        self.unpublished = self.unpublished.saturating_add(accesses);
    }
}

/// Rows of one table that are passed on next, before rows of other tables.
struct Turn {
    /// Index of the table.
    table: usize,
    /// Range of rows in the loaded row group of the table.
    rows: Range<usize>,
    /// Number of the rows' session in the piece; `None` if the piece does not have the session.
    session: Option<usize>,
}

/// Selects the rows that are passed on next. The earliest session is first. Of its rows, the rows
/// up to the clock of another table's next row are selected. Example: accesses at the clocks 1, 5
/// and 9 and a page run at clock 6. The first turn has the accesses at 1 and 5, the second turn has
/// the page run. Returns `None` if no table has further rows.
fn turn(tables: &[TableRows<'_>], position: &Position<'_>) -> Option<Turn> {
    let heads = tables.iter().enumerate().filter_map(|(table, rows)| {
        let (capture, session) = rows.session()?;
        Some((position.number(capture, session), rows.clock(), table))
    });
    let heads: Vec<_> = heads.collect();
    // Rows without a session come first, because `None` is the smallest value. They are only
    // counted.
    let (session, _, table) = *heads.iter().min()?;
    let others = heads.iter().filter(|head| head.2 != table && head.0 == session);
    let bound = others.map(|head| head.1).min().filter(|_| session.is_some());
    Some(Turn { table, rows: tables[table].rows_up_to(bound), session })
}
