//! Divides the accesses of a data set into pieces that are analysed apart, by one machine or by
//! many, with the same result.
//!
//! ```text
//! parts of `runs`            -> sessions   when each began, whether it continues the one before, what is known of it
//! parts of these tables      -> plan       a memory for each board of each run, a piece for each of its hours
//! a piece                    -> reader     accesses, page runs and slices, with gaps and restarts in their places
//!                            -> state      what all analyses find in it, as bytes
//! ```
//!
//! Invariants: a piece has all that reading it needs beside its parts, so that another machine can
//! read it. Pieces of a memory follow each other in time, and accesses in a piece, too.

mod described;
mod plan;
mod reader;
mod sessions;
mod state;

use std::path::{Path, PathBuf};

use hmtt::analysis::source::{Ending, Part, SourceError, losses_and_notes};
use hmtt::analysis::{CoarseAccesses, Gap, Known};
use hmtt::decode::Counts;
use serde::{Deserialize, Serialize};

use crate::card_counts::CardCounts;
use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::schema::Table;
pub use described::address_map;
pub use state::{PieceState, StateError};

/// Tables whose parts a plan reads.
pub const PLANNED_TABLES: [Table; 2] = [Table::Runs, Table::Gaps];
/// Tables whose parts have the accesses that are analysed. A plan reads only their footers.
pub const ANALYSED_TABLES: [Table; 3] = [Table::Accesses, Table::Pages, Table::Slices];

/// All accesses of a data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is known of the board of each run, in the order of their names. Each is a memory,
    /// numbered from 0.
    pub memories: Vec<Memory>,
    /// The pieces of all memories, one memory after the other.
    pub pieces: Vec<Piece>,
}

/// A board of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Name of the run.
    pub run: String,
    /// Name of the board.
    pub board: String,
    /// What is known of its last session.
    pub known: Known,
    /// What its card counted in all captures.
    counts: CardCounts,
    /// Whether its card was in analysis mode, in which it records no accesses.
    has_analysis_mode: bool,
    /// Whether the trace of the card is known to its end.
    complete_tail: bool,
    /// What is missing beside what was counted, for people.
    missing: Vec<String>,
}

/// The accesses of a board in an hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of the memory.
    pub memory: usize,
    /// The parts, in the order of time. Paths are relative to the data set.
    pub parts: Vec<PathBuf>,
    /// The sessions in this hour, in the order of time.
    sessions: Vec<Session>,
    /// Whether the clock begins again before the next piece.
    restarts_after: bool,
}

/// A session of a card in a capture, as far as it is in a piece.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Session {
    capture: String,
    number: i64,
    /// Whether the clock begins again with it.
    restarts: bool,
    known: Known,
    /// Bytes of a burst, of which page runs and slices count.
    burst_bytes: Option<u32>,
    /// Losses, in the order of time.
    gaps: Vec<PlacedGap>,
}

/// A gap, and what follows it: an access at the clock of its end was before it if its frame had
/// arrived before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct PlacedGap {
    gap: Gap,
    /// Clock and arrival with which the trace continues; `None` if it does not.
    end: Option<(u64, i64)>,
}

impl PlacedGap {
    fn new(gap: Gap, arrival: i64) -> Self {
        PlacedGap { gap, end: gap.before_clock.map(|clock| (clock, arrival)) }
    }
}

/// What was read of pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRows {
    /// Accesses that were passed on, those of page runs and slices included.
    pub accesses: u64,
    /// Accesses whose addresses are not known.
    pub coarse: CoarseAccesses,
    /// Accesses of captures that are not whole: `runs` does not have them yet.
    pub unpublished: u64,
}

impl ReadRows {
    /// Adds what was read of other pieces.
    pub fn add(&mut self, other: ReadRows) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.coarse.add(other.coarse);
        self.unpublished = self.unpublished.saturating_add(other.unpublished);
    }
}

impl Plan {
    /// Reads all accesses, and passes them on with the numbers of their memories and the ends of
    /// pieces.
    pub fn read(&self, root: &Path, pass_on: &mut dyn FnMut(usize, Part<'_>)) -> Ending {
        let mut rows = ReadRows::default();
        // Boards without accesses are memories, too.
        for (memory, number) in self.memories.iter().zip(0..) {
            pass_on(number, Part::Known(&memory.known));
            pass_on(number, Part::PieceEnd);
        }
        for piece in &self.pieces {
            let read = piece.read(root, &mut rows, &|| true, &mut |part| {
                pass_on(piece.memory, part);
            });
            if let Err(error) = read {
                let failure = Some(SourceError::Other(Box::new(error)));
                return Ending { failure, ..self.ending(rows) };
            }
            pass_on(piece.memory, Part::PieceEnd);
        }
        self.ending(rows)
    }

    /// What is known when all pieces were read.
    pub fn ending(&self, rows: ReadRows) -> Ending {
        let mut counts = Counts::default();
        for memory in &self.memories {
            counts.add(&memory.counts.decoded(memory.complete_tail));
        }
        let all = rows.accesses.saturating_add(rows.unpublished);
        let (mut missing, mut notes) = losses_and_notes(&counts, all);
        for memory in &self.memories {
            let Memory { run, board, .. } = memory;
            missing.extend(
                memory.missing.iter().map(|text| format!("run {run}, board {board}: {text}")),
            );
        }
        if rows.unpublished > 0 {
            notes.push(format!(
                "{} accesses of captures that are not in the table of runs yet are left out",
                rows.unpublished
            ));
        }
        let memories = self.memories.iter().map(|memory| memory.known).collect();
        let has_analysis_mode = self.memories.iter().any(|memory| memory.has_analysis_mode);
        let ReadRows { accesses, coarse, .. } = rows;
        Ending {
            accesses,
            coarse,
            has_analysis_mode,
            memories,
            missing,
            notes,
            ..Ending::default()
        }
    }
}

impl Dataset {
    /// The pieces of all accesses.
    ///
    /// # Errors
    /// A folder, a footer of a part of `accesses`, `pages` or `slices`, or a part of `runs` or
    /// `gaps` cannot be read, or there are too many boards.
    pub fn plan_pieces(&self) -> Result<Plan, DatasetError> {
        plan::plan(self)
    }
}
