//! Reads captures once, and collects the data that relate the clocks of their sessions: marks,
//! arrival times and clock periods.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmtt_format::Event;

use super::MergeError;
use super::arrivals::Arrivals;
use super::marks::{Mark, TimedMark};
use crate::capture_reader::CaptureReader;
use crate::decode::{CardCounts, Columns, Item, LinkCounts, Origin, Sink};
use crate::identity::{CardId, LinkId};
use crate::pcapng::{Interface, ReadError, Reading};

/// A card's part of a capture between two restarts, within which its clock is continuous.
#[derive(Clone, Debug)]
pub struct CardSession {
    /// Path of the capture.
    pub file: Arc<Path>,
    /// The card, numbered over all captures.
    pub source: CardId,
    /// The card, numbered within its capture.
    pub card: CardId,
    /// Number of restarts of the card before this session, in its capture.
    pub restarts_before: usize,
    /// Name of the card's interface, if the capture states one.
    pub interface: Option<Arc<str>>,
    /// Period of the DDR clock in picoseconds, from the card's reports; `None` without a report.
    pub tck_ps: Option<u32>,
    /// Lowest clock of the session's items.
    pub first: u64,
    /// Highest clock of the session's items.
    pub last: u64,
    /// Byte offset of the block within which the capture ends; `None` if it ends with a whole
    /// block.
    pub truncated_at: Option<u64>,
    /// Number of the card's captures, each from a start to a stop, whose records represent another
    /// number of bursts than the card has counted.
    pub captures_mismatched: u64,
    pub(super) marks: Vec<Mark>,
    pub(super) arrivals: Arrivals,
    /// Whether an item of the session has a clock, so that `first` and `last` are valid.
    any: bool,
}

impl Default for CardSession {
    fn default() -> Self {
        let (source, card, restarts_before, interface, tck_ps) = Default::default();
        let (first, last, truncated_at, captures_mismatched) = Default::default();
        let (marks, arrivals, any) = Default::default();
        CardSession {
            file: Path::new("").into(),
            source,
            card,
            restarts_before,
            interface,
            tck_ps,
            first,
            last,
            truncated_at,
            captures_mismatched,
            marks,
            arrivals,
            any,
        }
    }
}

impl CardSession {
    /// A session that has only marks. A mark is given by the number of its register and its clock.
    pub fn of_marks(
        card: CardId,
        tck_ps: Option<u32>,
        marks: impl IntoIterator<Item = (u32, u64)>,
    ) -> Self {
        let mut session = CardSession { card, tck_ps, ..CardSession::default() };
        for (register, clock) in marks {
            session.see(clock);
            session.marks.push(Mark { register, clock });
        }
        session
    }

    /// Period of the DDR clock, in nanoseconds: 10 ns (DDR-200) if no report states it.
    pub fn period(&self) -> f64 {
        f64::from(self.tck_ps.unwrap_or(10_000)) / 1e3
    }

    /// The marks of the session in ascending order of time, in nanoseconds of the card's clock.
    pub(crate) fn timed_marks(&self) -> Vec<TimedMark> {
        let period = self.period();
        let timed = |mark: &Mark| (mark.register, mark.clock as f64 * period);
        let mut marks: Vec<TimedMark> = self.marks.iter().map(timed).collect();
        marks.sort_by(|first, second| first.1.total_cmp(&second.1));
        marks
    }

    /// Number of marks in the session.
    pub(crate) fn marks(&self) -> usize {
        self.marks.len()
    }

    /// Sets the clock period. Arrivals that were collected with another period are removed.
    fn learn(&mut self, tck_ps: u32) {
        let before = self.period();
        self.tck_ps = Some(tck_ps);
        if self.period() != before {
            self.arrivals = Arrivals::default();
        }
    }

    /// Extends the range of the session to the clock of an item.
    fn see(&mut self, clock: u64) {
        (self.first, self.last) =
            if self.any { (self.first.min(clock), self.last.max(clock)) } else { (clock, clock) };
        self.any = true;
    }
}

/// `FILE: eth1, card 1, after 2 restarts`
impl fmt::Display for CardSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface.as_deref().unwrap_or("unnamed interface");
        write!(f, "{}: {interface}, card {}", self.file.display(), self.card)?;
        match self.restarts_before {
            0 => Ok(()),
            restarts => write!(f, ", after {restarts} restarts"),
        }
    }
}

/// Reads one capture and returns the sessions of its cards that have a clock.
///
/// # Errors
/// [`ReadError`]: the capture cannot be read.
pub fn survey_capture(path: &Path) -> Result<Vec<CardSession>, ReadError> {
    let surveyed = survey_file(path)?.sessions;
    Ok(surveyed.into_iter().flatten().filter(|session| session.any).collect())
}

/// The result of one reading of all captures.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The sessions that have a clock. The sessions of one card are adjacent, and in order.
    pub sessions: Vec<CardSession>,
    /// The counts of each card, in the order of [`CardSession::source`]; then the counts of cards
    /// without any item.
    pub counts: LinkCounts,
    /// The interfaces of all captures, to which the links of the counts refer.
    pub interfaces: Vec<Interface>,
}

/// Reads all captures, and numbers their cards and interfaces together.
pub(super) fn survey(paths: &[PathBuf]) -> Result<Survey, MergeError> {
    let mut survey = Survey::default();
    let mut without_items = Vec::new();
    for path in paths {
        let failed = |source| MergeError::Read { path: path.clone(), source };
        let surveyed = survey_file(path).map_err(failed)?;
        let (sources, links) = (survey.counts.cards.len(), survey.interfaces.len());
        let file: Arc<Path> = path.as_path().into();
        let link = |link: LinkId| LinkId((links + link.index()).try_into().unwrap_or(u16::MAX));
        let mut counts = surveyed
            .counts
            .cards
            .into_iter()
            .map(|card| CardCounts { link: link(card.link), ..card });
        for (card, sessions) in surveyed.sessions.into_iter().enumerate() {
            let source = CardId(sources + card);
            survey.counts.cards.push(counts.next().unwrap_or_default());
            survey.sessions.extend(
                sessions.into_iter().filter(|session| session.any).map(|session| CardSession {
                    file: file.clone(),
                    source,
                    ..session
                }),
            );
        }
        without_items.extend(counts);
        survey.counts.foreign_frames += surveyed.counts.foreign_frames;
        survey.counts.stray_frames += surveyed.counts.stray_frames;
        survey.interfaces.extend(surveyed.interfaces);
    }
    survey.counts.cards.extend(without_items);
    Ok(survey)
}

/// The result of one reading of one capture.
struct SurveyedFile {
    /// The sessions of each card, also those without a clock.
    sessions: Vec<Vec<CardSession>>,
    counts: LinkCounts,
    interfaces: Vec<Interface>,
}

/// Reads one capture, and collects the sessions of its cards.
fn survey_file(path: &Path) -> Result<SurveyedFile, ReadError> {
    // The capture should stay in the page cache, because it is read once more for the items of each
    // card.
    let mut reader = CaptureReader::open_as(path, Reading::Shared)?;
    let mut surveyor = Surveyor::default();
    while let Some(mut next) = reader.next_packet()? {
        next.decode(&mut surveyor);
    }
    let counts = reader.finish(&mut surveyor);
    surveyor.note_columns();
    let interfaces = reader.interfaces().to_vec();
    for (card, sessions) in surveyor.cards.iter_mut().enumerate() {
        let counted = counts.cards.get(card);
        let link = counted.map(|card| card.link.index());
        let mismatched = counted.map_or(0, |card| card.counts.captures_mismatched);
        let name = link.and_then(|link| interfaces.get(link)?.name.as_deref());
        let name: Option<Arc<str>> = name.map(Arc::from);
        for session in sessions {
            session.interface.clone_from(&name);
            session.truncated_at = reader.truncated_at();
            session.captures_mismatched = mismatched;
        }
    }
    Ok(SurveyedFile { sessions: surveyor.cards, counts, interfaces })
}

/// A sink that collects the sessions of the cards of one capture.
#[derive(Default)]
struct Surveyor {
    cards: Vec<Vec<CardSession>>,
    columns: Columns,
    /// The card whose accesses are in the columns.
    card: CardId,
    /// The card and the last clock of the frame that is being read.
    reached: Option<(CardId, u64)>,
}

impl Surveyor {
    /// The current session of a card.
    fn session(&mut self, card: CardId) -> &mut CardSession {
        while self.cards.len() <= card.0 {
            let number = CardId(self.cards.len());
            self.cards.push(vec![CardSession { card: number, ..CardSession::default() }]);
        }
        let sessions = &mut self.cards[card.0];
        let last = sessions.len() - 1;
        &mut sessions[last]
    }

    fn see(&mut self, card: CardId, clock: u64) {
        self.session(card).see(clock);
        self.reached = Some((card, clock));
    }

    /// Extends the range of the session to the clocks of the accesses in the columns, and clears
    /// the columns.
    fn note_columns(&mut self) {
        let card = self.card;
        let ends = [self.columns.clocks.first().copied(), self.columns.clocks.last().copied()];
        ends.into_iter().flatten().for_each(|clock| self.see(card, clock));
        self.columns.clear();
    }
}

impl Sink for Surveyor {
    fn item(&mut self, card: CardId, item: Item) {
        self.note_columns();
        match &item {
            Item::Restart => {
                self.session(card);
                let restarts_before = self.cards[card.0].len();
                self.cards[card.0].push(CardSession {
                    card,
                    restarts_before,
                    ..CardSession::default()
                });
                self.reached = None;
            }
            Item::Report { report, .. } => {
                self.session(card).learn(report.memory.tck_ps);
            }
            Item::Event(Event::Mark { clock, register }) => {
                let mark = Mark { register: register.0, clock: clock.0 };
                self.session(card).marks.push(mark);
            }
            _ => {}
        }
        if let Some(clock) = item.clock() {
            self.see(card, clock.0);
        }
    }

    /// Uses the arrival time of the frame, not of the packet that is being processed, because the
    /// frame may have waited for others before it was decoded.
    fn frame_read(&mut self, card: CardId, origin: Origin) {
        self.note_columns();
        let reached = self.reached.take().filter(|(reached_card, _)| *reached_card == card);
        if let (Some((_, clock)), Some(time)) = (reached, origin.time) {
            let session = self.session(card);
            let nanos = clock as f64 * session.period();
            session.arrivals.add(nanos, time);
        }
    }

    fn columns(&mut self, card: CardId) -> Option<&mut Columns> {
        if card != self.card {
            self.note_columns();
            self.card = card;
        }
        Some(&mut self.columns)
    }
}
