//! Reads the sessions of boards from the table `runs`, and decides which sessions continue the
//! previous one.

use std::path::Path;

use hmtt::analysis::{Gap, Known};

use super::described::Described;
use crate::card_counts::CardCounts;
use crate::data_folder::DataFolder;
use crate::error::DatasetError;
use crate::reader::PartReader;
use crate::schema::Table;

/// Maximum difference, in milliseconds, between two measurements of the time from one capture to
/// the next: by the card's clock, and by arrivals. A larger difference means that the captures are
/// of different sessions.
const MOST_DIFFERENCE_MS: f64 = 1000.0;

/// A row of the table `runs`.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub capture: String,
    pub number: i64,
    file: String,
    clocks: Option<(u64, u64)>,
    pub first_arrival: i64,
    pub last_arrival: i64,
    pub known: Known,
    /// Bytes of a burst, if they are known.
    pub burst_bytes: Option<u32>,
    /// Whether the card was in analysis mode.
    pub has_analysis_mode: bool,
    /// Counts of the card in the whole capture.
    pub counts: CardCounts,
    /// Whether the card's trace ends with an end frame.
    pub complete_tail: bool,
    /// Whether the capture ends within a block.
    pub is_cut: bool,
}

/// Reads the rows of a part of `runs`.
pub fn read(set: &DataFolder, path: &Path) -> Result<Vec<SessionRow>, DatasetError> {
    let reader = PartReader::open(set, path, Table::Runs)?;
    let mut rows = Vec::new();
    for group in 0..reader.group_count() {
        let mut group = reader.group(group)?;
        let captures = group.texts("capture")?;
        let files = group.long_texts("file")?;
        let memories = group.long_texts("memory")?;
        let settings = group.long_texts("settings")?;
        let tails = group.flags("complete_tail")?;
        let cuts = group.flags("is_cut")?;
        let names = [
            "session",
            "first_clock",
            "last_clock",
            "first_arrival",
            "last_arrival",
            "accesses",
            "lost_accesses",
            "accesses_before_start",
            "card_lost_records",
            "missing_frames",
            "malformed_frames",
            "gap_count",
        ];
        let mut columns = Vec::new();
        for name in names {
            columns.push(group.numbers(name)?);
        }
        for (at, capture) in captures.into_iter().enumerate() {
            let optional = |index: usize| columns[index][at];
            let signed = |index: usize| optional(index).unwrap_or(0);
            let count = |index: usize| signed(index).max(0) as u64;
            let clock = |index: usize| optional(index).map(|clock| clock.max(0) as u64);
            let counts = CardCounts {
                accesses: count(5),
                lost_accesses: count(6),
                accesses_before_start: count(7),
                card_lost_records: count(8),
                missing_frames: count(9),
                malformed_frames: count(10),
                gap_count: count(11),
            };
            let described = Described::new(memories[at].as_deref(), settings[at].as_deref());
            let Described { known, burst_bytes, has_analysis_mode } = described;
            rows.push(SessionRow {
                known,
                burst_bytes,
                has_analysis_mode,
                capture: capture.unwrap_or_default(),
                number: signed(0),
                file: files[at].clone().unwrap_or_default(),
                clocks: clock(1).zip(clock(2)),
                first_arrival: signed(3),
                last_arrival: signed(4),
                counts,
                complete_tail: tails[at].unwrap_or(false),
                is_cut: cuts[at].unwrap_or(false),
            });
        }
    }
    Ok(rows)
}

/// Sorts the sessions of a board by their first arrival.
pub fn sort(sessions: &mut [SessionRow]) {
    sessions.sort_by(|first, second| {
        let key =
            |session: &SessionRow| (session.first_arrival, session.capture.clone(), session.number);
        key(first).cmp(&key(second))
    });
}

impl SessionRow {
    /// Whether this session continues the session `before`, with the same clock. Receivers divide
    /// the frames of a card into several files, so one session may be in several captures. Example:
    /// the first capture ends at clock 1,000,000,000, and the second begins 2 s later at clock
    /// 1,200,000,000. With a period of 10 ns, the second continues the first.
    pub fn continues(&self, before: &SessionRow) -> bool {
        let (Some((_, end)), Some((begin, _))) = (before.clocks, self.clocks) else { return false };
        let (Some(tck_ps), Some(clocks)) = (self.known.tck_ps, begin.checked_sub(end)) else {
            return false;
        };
        let by_clock = clocks as f64 * f64::from(tck_ps) * 1e-9;
        let by_arrival = self.first_arrival.saturating_sub(before.last_arrival) as f64;
        before.capture != self.capture && (by_clock - by_arrival).abs() <= MOST_DIFFERENCE_MS
    }

    /// The accesses that are missing between the capture `before` and this capture, which continues
    /// it. Their number follows from the card's counts. It is right only if `before` has one
    /// session, because the counts are counts of the whole capture.
    pub fn lost_since(&self, before: &SessionRow) -> u64 {
        let counts = &before.counts;
        let seen = counts
            .accesses_before_start
            .saturating_add(counts.accesses)
            .saturating_add(counts.lost_accesses);
        self.counts.accesses_before_start.saturating_sub(seen)
    }

    /// The gap before this session's first record, if its capture continues the capture `before`.
    pub fn gap_since(&self, before: &SessionRow) -> Gap {
        Gap {
            lost_accesses: Some(self.lost_since(before)),
            after_clock: before.clocks.map(|(_, last)| last),
            before_clock: self.clocks.map(|(first, _)| first),
        }
    }

    /// A sentence on the accesses that are missing since the capture `before`.
    pub fn missing_since(&self, before: &SessionRow) -> String {
        format!(
            "{} accesses are missing between {} and {}",
            self.lost_since(before),
            before.file,
            self.file
        )
    }

    /// A sentence that states that the capture is cut.
    pub fn cut(&self) -> String {
        format!("{} ends within a block", self.file)
    }
}
