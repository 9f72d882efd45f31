//! Divides the accesses of a data set into pieces that are analysed separately. One machine or many
//! machines get the same result.
//!
//! ```text
//! parts of `runs`            -> sessions   begin of each session, whether it continues the previous one, facts about it
//! parts of all these tables  -> plan       a memory for each board of each run, a piece for each hour of the board
//! a piece                    -> reader     accesses, page runs and slices, with gaps and restarts in their places
//!                            -> state      results of all analyses of the piece, as bytes
//! ```
//!
//! Invariants: a piece contains everything that is needed to read it except its parts, so another
//! machine can read it. The pieces of a memory follow each other in time, and so do the accesses in
//! a piece.

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

/// Tables whose rows are read to make a plan.
pub const PLANNED_TABLES: [Table; 2] = [Table::Runs, Table::Gaps];
/// Tables with the accesses to be analysed. To make a plan, only their footers are read.
pub const ANALYSED_TABLES: [Table; 3] = [Table::Accesses, Table::Pages, Table::Slices];

/// All accesses of a data set, divided into pieces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// One memory for each board of each run, ordered by their names. Memories are numbered from 0.
    pub memories: Vec<Memory>,
    /// The pieces of all memories, one memory after another.
    pub pieces: Vec<Piece>,
}

/// The memory behind a board in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Name of the run.
    pub run: String,
    /// Name of the board.
    pub board: String,
    /// Facts about the accesses of the board's last session.
    pub known: Known,
    /// Counts of the card, added up over all captures.
    counts: CardCounts,
    /// Whether the card was in analysis mode, in which it records no accesses.
    has_analysis_mode: bool,
    /// Whether the end of the card's trace is known.
    complete_tail: bool,
    /// Sentences on what is missing in addition to the counted losses.
    missing: Vec<String>,
}

/// The accesses of a board in one hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of the piece's memory.
    pub memory: usize,
    /// Paths of the piece's parts, ordered by time. They are relative to the data set.
    pub parts: Vec<PathBuf>,
    /// The sessions in this hour, ordered by time.
    sessions: Vec<Session>,
    /// Whether the clock restarts between this piece and the next.
    restarts_after: bool,
}

/// The part of a card's session that is in a piece.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Session {
    capture: String,
    number: i64,
    /// Whether the clock restarts at the begin of this session.
    restarts: bool,
    known: Known,
    /// Bytes of a burst. Page runs and slices count bursts.
    burst_bytes: Option<u32>,
    /// Losses of the session in this piece, ordered by time.
    gaps: Vec<PlacedGap>,
}

/// A gap with its place in the trace. If an access has the clock at which the gap ends, the
/// arrivals decide. The access is before the gap if its frame arrived before the arrival in `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct PlacedGap {
    gap: Gap,
    /// Clock and arrival at which the trace continues after the gap; `None` if it does not
    /// continue.
    end: Option<(u64, i64)>,
}

impl PlacedGap {
    fn new(gap: Gap, arrival: i64) -> Self {
        PlacedGap { gap, end: gap.before_clock.map(|clock| (clock, arrival)) }
    }
}

/// Counts of the rows that were read from pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRows {
    /// Accesses that were passed on, including the accesses in page runs and slices.
    pub accesses: u64,
    /// Counts of the passed-on accesses whose addresses are not known.
    pub coarse: CoarseAccesses,
    /// Accesses that were left out because `runs` does not have their capture yet. Such a capture
    /// is still being published.
    pub unpublished: u64,
}

impl ReadRows {
    /// Adds the counts of other pieces.
    pub fn add(&mut self, other: ReadRows) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.coarse.add(other.coarse);
        self.unpublished = self.unpublished.saturating_add(other.unpublished);
    }
}

impl Plan {
    /// Reads the accesses of all pieces, and passes them on. Each part has the number of its
    /// memory. A part marks the end of each piece.
    pub fn read(&self, root: &Path, pass_on: &mut dyn FnMut(usize, Part<'_>)) -> Ending {
        let mut rows = ReadRows::default();
        // A board without accesses is a memory, too.
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

    /// Summarises a data set whose pieces were all read. `rows`: counts of the rows that were read.
    pub fn ending(&self, rows: ReadRows) -> Ending {
        let mut counts = Counts::default();
        for memory in &self.memories {
            counts.add(&memory.counts.decoded(memory.complete_tail));
        }
        let read_accesses = rows.accesses.saturating_add(rows.unpublished);
        let (mut missing, mut notes) = losses_and_notes(&counts, read_accesses);
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
    /// Divides all accesses of the data set into pieces.
    ///
    /// # Errors
    /// A folder cannot be read, the footer of a part of `accesses`, `pages` or `slices` cannot be
    /// read, or a part of `runs` or `gaps` cannot be read. Or there are too many boards.
    pub fn plan_pieces(&self) -> Result<Plan, DatasetError> {
        plan::plan(self)
    }
}
