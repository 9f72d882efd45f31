//! Makes the plan of a data set: divides its accesses into pieces, using the tables of runs and
//! gaps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hmtt::analysis::Gap;
use hmtt::analysis::source::MOST_MEMORIES;

use super::sessions::{self, SessionRow};
use super::{ANALYSED_TABLES, Memory, PLANNED_TABLES, Piece, PlacedGap, Plan, Session};
use crate::card_counts::CardCounts;
use crate::data_folder::DataFolder;
use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::hour::Hour;
use crate::listing::list;
use crate::reader::PartReader;
use crate::schema::Table;

/// The rows and parts of a board in one run.
#[derive(Default)]
struct Board {
    sessions: Vec<SessionRow>,
    /// Parts of accesses, pages and slices by hour, each with its first arrival in milliseconds.
    parts: BTreeMap<Hour, Vec<(i64, PathBuf)>>,
    /// Losses by hour, each with its capture and session.
    gaps: BTreeMap<Hour, Vec<(String, i64, PlacedGap)>>,
}

/// Makes the plan of a data set.
pub fn plan(dataset: &Dataset) -> Result<Plan, DatasetError> {
    let mut boards: BTreeMap<(String, String), Board> = BTreeMap::new();
    let set = dataset.folder()?;
    let parts = list(&set)?.parts.into_iter();
    let is_read =
        |table: Table| PLANNED_TABLES.contains(&table) || ANALYSED_TABLES.contains(&table);
    for (partition, path) in parts.filter(|(of, _)| is_read(of.table)) {
        let table = partition.table;
        let board = boards.entry((partition.run, partition.board)).or_default();
        match table {
            Table::Runs => board.sessions.extend(sessions::read(&set, &path)?),
            Table::Gaps => board.gaps.entry(partition.hour).or_default().extend(gaps(&set, &path)?),
            _ => {
                let part = PartReader::open(&set, &path, table)?;
                let begin = part.least(table.time()).unwrap_or(0);
                board.parts.entry(partition.hour).or_default().push((begin, path));
            }
        }
    }
    let mut plan = Plan::default();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    for ((run, board), mut content) in boards {
        let next = numbers.len() as u32;
        let number = *numbers.entry(board.clone()).or_insert(next);
        content.sessions.iter_mut().for_each(|session| session.known.board = Some(number));
        if !content.sessions.is_empty() || !content.parts.is_empty() {
            content.pieces(run, board, &mut plan);
        }
    }
    if plan.memories.len() > MOST_MEMORIES {
        return Err(DatasetError::Boards(plan.memories.len()));
    }
    Ok(plan)
}

/// Reads the losses in a part of the table of gaps.
fn gaps(set: &DataFolder, path: &Path) -> Result<Vec<(String, i64, PlacedGap)>, DatasetError> {
    let reader = PartReader::open(set, path, Table::Gaps)?;
    let mut placed_gaps = Vec::new();
    for number in 0..reader.group_count() {
        let mut group = reader.group(number)?;
        let captures = group.texts("capture")?;
        let sessions = group.numbers("session")?;
        let losses = group.flags("is_loss")?;
        let arrivals = group.numbers("arrival")?;
        let mut column = |name: &str| -> Result<Vec<Option<u64>>, DatasetError> {
            let values = group.numbers(name)?.into_iter();
            Ok(values.map(|value| value.map(|number| number.max(0) as u64)).collect())
        };
        let lost_accesses = column("lost_accesses")?;
        let after = column("after_clock")?;
        let before = column("before_clock")?;
        for (at, capture) in captures.into_iter().enumerate() {
            if losses[at] == Some(true) {
                let gap = Gap {
                    lost_accesses: lost_accesses[at],
                    after_clock: after[at],
                    before_clock: before[at],
                };
                let gap = PlacedGap::new(gap, arrivals[at].unwrap_or(0));
                placed_gaps.push((capture.unwrap_or_default(), sessions[at].unwrap_or(-1), gap));
            }
        }
    }
    Ok(placed_gaps)
}

impl Board {
    /// Adds the board as a memory with its pieces to `plan`.
    fn pieces(mut self, run: String, board: String, plan: &mut Plan) {
        sessions::sort(&mut self.sessions);
        let restarts = self.restarts();
        let mut memory = self.memory(run, board, &restarts);
        let lost = self.lost_between(&restarts, &mut memory);
        let hours: BTreeSet<Hour> = self.parts.keys().chain(self.gaps.keys()).copied().collect();
        let first = plan.pieces.len();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for hour in hours {
            let mut parts = self.parts.remove(&hour).unwrap_or_default();
            parts.sort();
            // An hour without sessions lies between the sessions of the pieces before and after it.
            let end = ranges.last().map_or(0, |range| range.end);
            let range = self.in_hour(hour).unwrap_or(end..end);
            let mut in_piece: Vec<Session> = range
                .clone()
                .map(|at| {
                    self.session(at, restarts[at], lost.get(&at).filter(|(of, _)| *of == hour))
                })
                .collect();
            let key = |session: &Session| (session.capture.clone(), session.number);
            let numbers: HashMap<_, usize> = in_piece.iter().map(key).zip(0..).collect();
            for (capture, number, gap) in self.gaps.remove(&hour).unwrap_or_default() {
                if let Some(at) = numbers.get(&(capture, number)) {
                    in_piece[*at].gaps.push(gap);
                }
            }
            for session in &mut in_piece {
                // Losses without a clock are placed at the end of the session.
                session.gaps.sort_by_key(|gap| gap.end.unwrap_or((u64::MAX, i64::MAX)));
            }
            ranges.push(range);
            plan.pieces.push(Piece {
                memory: plan.memories.len(),
                parts: parts.into_iter().map(|(_, path)| path).collect(),
                sessions: in_piece,
                restarts_after: false,
            });
        }
        for (piece, pair) in plan.pieces[first..].iter_mut().zip(ranges.windows(2)) {
            // Look at the sessions after the piece's last session. The last one to look at is the
            // first session of the next piece, if the next piece has any.
            let next = pair[1].clone().next().map_or(pair[0].end, |next| next + 1);
            let between = restarts.get(pair[0].end..next).unwrap_or_default();
            piece.restarts_after = between.contains(&true);
        }
        plan.memories.push(memory);
    }

    /// For each session, whether the clock restarts at its begin. False for the first session.
    fn restarts(&self) -> Vec<bool> {
        let pairs = self.sessions.windows(2).map(|pair| !pair[1].continues(&pair[0]));
        std::iter::once(false).chain(pairs).collect()
    }

    /// Summarises all captures of the board.
    fn memory(&self, run: String, board: String, restarts: &[bool]) -> Memory {
        let mut counts = CardCounts::default();
        let mut complete_tail = true;
        let mut missing = Vec::new();
        let mut captures = HashSet::new();
        for (at, session) in self.sessions.iter().enumerate() {
            // Each session states the counts of its whole capture, so each capture is counted once.
            if !captures.insert(&session.capture) {
                continue;
            }
            // In a series of files, only the first file has accesses before its start, and only the
            // last one has the end of the trace.
            let continues = at > 0 && !restarts[at];
            let is_continued = self.continuation(at, restarts).is_some();
            let own = &session.counts;
            let accesses_before_start = if continues { 0 } else { own.accesses_before_start };
            counts.add(&CardCounts { accesses_before_start, ..*own });
            complete_tail &= is_continued || session.complete_tail;
            if session.is_cut {
                missing.push(session.cut());
            }
        }
        let known = self.sessions.last().map(|session| session.known).unwrap_or_default();
        let has_analysis_mode = self.sessions.iter().any(|session| session.has_analysis_mode);
        Memory { run, board, known, counts, has_analysis_mode, complete_tail, missing }
    }

    /// The next session of another capture, if it continues the session at index `at`; otherwise
    /// `None`.
    fn continuation(&self, at: usize, restarts: &[bool]) -> Option<usize> {
        let capture = &self.sessions[at].capture;
        let next = (at..self.sessions.len()).find(|at| self.sessions[*at].capture != *capture)?;
        (!restarts[next]).then_some(next)
    }

    /// The losses between two captures that continue each other. The key of a loss is the index of
    /// the later session. The value is the gap, with the hour in which it lies.
    fn lost_between(
        &self,
        restarts: &[bool],
        memory: &mut Memory,
    ) -> BTreeMap<usize, (Hour, PlacedGap)> {
        let mut sessions: HashMap<&str, u32> = HashMap::new();
        for session in &self.sessions {
            *sessions.entry(&session.capture).or_default() += 1;
        }
        let mut lost = BTreeMap::new();
        for (at, pair) in (1..).zip(self.sessions.windows(2)) {
            let [before, session] = pair else { continue };
            let is_known = !restarts[at] && sessions.get(&*before.capture) == Some(&1);
            if is_known && session.lost_since(before) > 0 {
                memory.missing.push(session.missing_since(before));
                memory.counts.gap_count = memory.counts.gap_count.saturating_add(1);
                let gap = PlacedGap::new(session.gap_since(before), session.first_arrival);
                lost.insert(at, (hour(session.first_arrival), gap));
            }
        }
        lost
    }

    /// The range from the first to the last session that has frames in an hour; `None` if there is
    /// no such session.
    fn in_hour(&self, hour: Hour) -> Option<Range<usize>> {
        let hour_of = self::hour;
        let is_in = |session: &SessionRow| {
            hour_of(session.first_arrival) <= hour && hour_of(session.last_arrival) >= hour
        };
        let first = self.sessions.iter().position(is_in);
        let last = self.sessions.iter().rposition(is_in);
        first.zip(last).map(|(first, last)| first..last + 1)
    }

    fn session(&self, at: usize, restarts: bool, lost: Option<&(Hour, PlacedGap)>) -> Session {
        let row = &self.sessions[at];
        Session {
            capture: row.capture.clone(),
            number: row.number,
            restarts,
            known: row.known,
            burst_bytes: row.burst_bytes,
            gaps: lost.iter().map(|(_, gap)| *gap).collect(),
        }
    }
}

/// The hour of a time in milliseconds since the Unix epoch.
fn hour(milliseconds: i64) -> Hour {
    Hour::of(Duration::from_millis(milliseconds.max(0) as u64))
}
