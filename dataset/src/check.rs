//! Checks that the parts of a data set have as many rows as the captures counted, that the rows are
//! in order, and that queries skip only parts without matching rows.
//!
//! ```text
//! parts    -> part_check  rows, sums, order and bounds of each part
//! runs     -> counted     counts of each session and card that the captures state
//! threads  -> log_counts  counts of each thread that the logs of tags state
//!          -> Check       problems: differences between parts and these counts
//! captures -> recount     counts by summing the records of frames, without decoding them
//! logs     -> recount     counts of events, without reconstructing calls
//! ```

mod counted;
mod log_counts;
mod part_check;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hmtt::CardId;
use hmtt::capture_reader::CaptureReader;
use hmtt::decode::{Counted, Item};

use crate::card_counts::CardCounts;
use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::identity::CaptureHash;
use crate::listing::list;
use crate::log::{self, EXITS};
use crate::partition::Partition;
use crate::schema::Table;
use counted::SessionCounts;
use log_counts::ThreadCounts;
use part_check::Found;

/// Maximum number of problems that are listed. Further problems are only counted.
const MAX_PROBLEMS: usize = 1000;

/// Identity of a session: the hash of its capture, as text, and its number.
type SessionKey = (String, i64);

/// Results of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Number of parts.
    pub parts: u64,
    /// Bytes of the parts.
    pub part_bytes: u64,
    /// Number of captures and logs of tags in the data set.
    pub captures: u64,
    /// Number of sessions: of cards in the captures, and of threads in the logs.
    pub sessions: u64,
    /// Number of rows in the table of accesses.
    pub access_rows: u64,
    /// Number of gaps.
    pub gap_count: u64,
    /// Number of accesses that are known to be lost.
    pub lost_accesses: u64,
    /// Number of rows in the table of calls.
    pub call_rows: u64,
    /// Number of events in logs that are known to be lost.
    pub lost_events: u64,
    /// Number of captures and logs that were counted once more.
    pub recounted: u64,
    /// Number of problems.
    pub problem_count: u64,
    /// The first problems, as sentences for people.
    pub problems: Vec<String>,
}

impl Check {
    fn problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Compares the threads of a log with the threads that the data set has of the log. `stored`:
    /// counts in the data set.
    fn compare_log(&mut self, path: &Path, stored: Vec<ThreadCounts>) -> Result<(), DatasetError> {
        let expected = log_counts::recounted(path)?;
        self.recounted += 1;
        let what = |name: &str| format!("{}: {name}", path.display());
        if stored.is_empty() && !expected.is_empty() {
            self.problem(what("not in the data set"));
            return Ok(());
        }
        self.equal(|| what("threads"), stored.len() as u64, expected.len() as u64);
        for ((counts, expected), number) in stored.iter().zip(&expected).zip(0..) {
            counts.compare(expected, |name, count, expected| {
                self.equal(|| what(&format!("session {number}: {name}")), count, expected);
            });
        }
        Ok(())
    }

    /// Adds a problem if two numbers differ.
    fn equal(&mut self, what: impl FnOnce() -> String, actual: u64, expected: u64) {
        if actual != expected {
            self.problem(format!("{}: {actual}, not {expected}", what()));
        }
    }
}

impl Dataset {
    /// Checks all parts. Each part must be readable, its rows must be in order and belong to its
    /// partition, and the bounds by which queries skip it must be right. Each session must have as
    /// many rows as were decoded, and each card as many accesses and losses as it counted.
    ///
    /// # Errors
    /// A folder cannot be read. A part that cannot be read is a problem of the check.
    pub fn check(&self) -> Result<Check, DatasetError> {
        let mut check = Check::default();
        let mut sums = BTreeMap::new();
        let mut counted = BTreeMap::new();
        let set = self.folder()?;
        for (partition, path) in list(&set)?.parts {
            check.parts += 1;
            let checked = part_check::check(&set, &path, &partition, &mut sums);
            let read = match (checked, partition.table) {
                (Ok((bytes, problems)), table) => {
                    check.part_bytes += bytes;
                    problems.into_iter().for_each(|problem| {
                        check.problem(format!("{}: {problem}", path.display()));
                    });
                    if table.is_of_sessions() {
                        counted::read(&set, &path, table, &mut counted)
                    } else {
                        Ok(())
                    }
                }
                (Err(error), _) => Err(error),
            };
            if let Err(error) = read {
                check.problem(error.in_full());
            }
        }
        compare_sessions(&mut check, &sums, &counted);
        compare_cards(&mut check, &sums, &counted);
        Ok(check)
    }

    /// Counts captures and logs once more. Differences from the data set are added to `check` as
    /// problems.
    ///
    /// # Errors
    /// A capture, a log or a table that describes sessions cannot be read.
    pub fn recount(
        &self,
        captures: &[impl AsRef<Path>],
        check: &mut Check,
    ) -> Result<(), DatasetError> {
        let mut counted = BTreeMap::new();
        let set = self.folder()?;
        let parts = list(&set)?.parts.into_iter();
        for (partition, path) in parts.filter(|(partition, _)| partition.table.is_of_sessions()) {
            counted::read(&set, &path, partition.table, &mut counted)?;
        }
        for path in captures.iter().map(AsRef::as_ref) {
            let hash = CaptureHash::of_file(path)?.to_string();
            let sessions = counted.iter().filter(|((capture, _), _)| *capture == hash);
            if log::is_log(path)? {
                let threads = sessions.filter_map(|(_, session)| Some(session.thread?.0)).collect();
                check.compare_log(path, threads)?;
                continue;
            }
            let cards: BTreeMap<u64, CardCounts> =
                sessions.map(|(_, session)| (session.card, session.counts)).collect();
            if cards.is_empty() {
                check.problem(format!("{}: not in the data set", path.display()));
                continue;
            }
            let of_capture = recounted(path)?;
            check.recounted += 1;
            for (number, expected) in of_capture {
                let what = |name: &str| format!("{}: card {number}: {name}", path.display());
                match cards.get(&number) {
                    Some(counts) => counts.compare(&expected, |name, count, expected| {
                        check.equal(|| what(name), count, expected);
                    }),
                    None if expected == CardCounts::default() => {}
                    None => check.problem(what("not in the data set")),
                }
            }
        }
        Ok(())
    }
}

/// The counts of a capture's cards by card number, added up from the sums in their frames.
fn recounted(path: &Path) -> Result<BTreeMap<u64, CardCounts>, DatasetError> {
    let failed = |source| DatasetError::Capture { path: path.to_owned(), source };
    let mut reader = CaptureReader::open(path).map_err(failed)?;
    let mut sink = Counted(|_: CardId, _: Item| {});
    while let Some(mut next) = reader.next_packet().map_err(failed)? {
        next.decode(&mut sink);
    }
    let counts = reader.finish(&mut sink);
    Ok((1..).zip(counts.cards.iter().map(|card| CardCounts::from(&card.counts))).collect())
}

/// Compares the number of rows that each session has with the number of rows that were decoded.
fn compare_sessions(
    check: &mut Check,
    sums: &BTreeMap<SessionKey, Found>,
    counted: &BTreeMap<SessionKey, SessionCounts>,
) {
    let none = (Found::default(), SessionCounts::default());
    let keys: BTreeSet<&SessionKey> = sums.keys().chain(counted.keys()).collect();
    let captures: BTreeSet<&String> = counted.keys().map(|(capture, _)| capture).collect();
    check.captures = captures.len() as u64;
    check.sessions = counted.len() as u64;
    for key in keys {
        let (capture, session) = key;
        let session_sum = sums.get(key).unwrap_or(&none.0);
        let Some(expected) = counted.get(key) else {
            let table = match session_sum.rows[Table::Calls as usize] {
                0 => Table::Runs,
                _ => Table::Threads,
            };
            let name = table.name();
            check.problem(format!("capture {capture}, session {session}: no row in {name}"));
            continue;
        };
        for table in Table::ALL {
            let what = || format!("capture {capture}, session {session}: rows of {}", table.name());
            check.equal(what, session_sum.rows[table as usize], expected.rows[table as usize]);
        }
        check.access_rows += session_sum.rows[Table::Accesses as usize];
        check.gap_count += session_sum.rows[Table::Gaps as usize];
        check.lost_accesses += session_sum.lost_accesses;
        if let Some((thread, exits)) = expected.thread {
            check.call_rows += session_sum.rows[Table::Calls as usize];
            check.lost_events = check.lost_events.saturating_add(thread.lost_events());
            for (name, (count, expected)) in EXITS.iter().zip(session_sum.exits.iter().zip(exits)) {
                let what = || format!("capture {capture}, session {session}: {name}");
                check.equal(what, *count, expected);
            }
        }
    }
}

/// Compares the accesses and losses in the rows of each card with the counts that the card has
/// sent.
fn compare_cards(
    check: &mut Check,
    sums: &BTreeMap<SessionKey, Found>,
    counted: &BTreeMap<SessionKey, SessionCounts>,
) {
    let mut cards: BTreeMap<(&str, u64), (Found, CardCounts)> = BTreeMap::new();
    for (key, session) in counted.iter().filter(|(_, session)| session.thread.is_none()) {
        let card = cards.entry((&key.0, session.card));
        let (sum, _) = card.or_insert_with(|| (Found::default(), session.counts));
        if let Some(session_sum) = sums.get(key) {
            sum.add(session_sum);
        }
    }
    for ((capture, number), (sum, counts)) in cards {
        let what = |name: &str| format!("capture {capture}, card {number}: {name}");
        // The card counts the accesses of a slice only if no other rows represent them. So the
        // card's count may include any number of the slices' accesses.
        let least = sum.accesses;
        if !(least..=least.saturating_add(sum.slice_accesses)).contains(&counts.accesses) {
            check.problem(format!("{}: {least}, not {}", what("accesses"), counts.accesses));
        }
        check.equal(|| what("lost_accesses"), sum.lost_accesses, counts.lost_accesses);
        check.equal(
            || what("accesses_before_start"),
            sum.accesses_before_start,
            counts.accesses_before_start,
        );
        check.equal(|| what("card_lost_records"), sum.card_lost_records, counts.card_lost_records);
        check.equal(|| what("gap_count"), sum.rows[Table::Gaps as usize], counts.gap_count);
    }
}

/// Whether a time is in the hour of a partition.
fn is_in_hour(partition: &Partition, milliseconds: i64) -> bool {
    let time = u64::try_from(milliseconds).map(std::time::Duration::from_millis);
    time.is_ok_and(|time| crate::hour::Hour::of(time) == partition.hour)
}
