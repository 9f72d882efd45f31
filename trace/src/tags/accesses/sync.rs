//! Relates the clock of a log to the clock of a card, by the marks that are in both the log and the
//! trace. States a bound of the error.

use std::cmp::Reverse;

use hmtt_files::tag_log::Mark;

use crate::identity::CardId;
use crate::merge::{CardSession, MarkIndex, Offset, TimeBase, first_offset, follow_marks};

/// A mark that took longer than the median duration times this factor was interrupted. Its time is
/// too imprecise.
const INTERRUPTED: u64 = 4;
/// Maximum number of sessions whose marks are all compared with the marks of the log. The sessions
/// are chosen whose first marks agree best with the first marks of the log.
const CANDIDATES: usize = 16;

/// The relation of a log's clock to a card's clock.
#[derive(Clone, Debug)]
pub struct LogSync {
    /// Maps ticks since `origin` to clocks of the card.
    base: TimeBase,
    /// Time in the log that counts as 0 in `base`, in ticks.
    origin: u64,
    /// Bound of the error of a converted time, in clocks.
    pub error: f64,
    /// Number of marks that are in both the log and the trace.
    pub shared: usize,
    /// Number of other marks of the log: the trace does not have them, or they were interrupted.
    pub only_log: u64,
    /// Number of marks of the trace that the log does not have.
    pub only_trace: u64,
    /// Clocks of the first and of the last shared mark.
    pub marks: (f64, f64),
    /// The card in the capture.
    pub card: CardId,
    /// Number of restarts of the card before this session.
    pub session: usize,
}

impl LogSync {
    /// Relates a log to the session of a capture that has most of its marks. `None` if no session
    /// has marks that fit the marks of the log, or if they fit at several places. `marks`: the
    /// marks of the log. `span`: the times of the log's first and last event, in ticks.
    pub fn find(
        sessions: &[CardSession],
        marks: &[Mark],
        tsc_hz: u64,
        span: (u64, u64),
    ) -> Option<Self> {
        let log = LogMarks::new(marks, tsc_hz, span)?;
        let marked = sessions.iter().enumerate().filter(|(_, session)| session.marks() != 0);
        let mut candidates: Vec<(Offset, usize)> = marked
            .filter_map(|(place, session)| {
                let index = MarkIndex::new(session.timed_marks());
                Some((first_offset(&index, &log.timed)?, place))
            })
            .collect();
        // All marks of the log are searched in each candidate. With all sessions as candidates, the
        // cost would be the product of the numbers of marks and sessions.
        candidates.sort_by_key(|(offset, _)| Reverse(offset.agreeing));
        candidates.truncate(CANDIDATES);
        candidates.sort_by_key(|(_, place)| *place);
        let sync = |(offset, place): &(Offset, usize)| log.relate(&sessions[*place], *offset);
        candidates.iter().filter_map(sync).max_by_key(|sync| sync.shared)
    }

    /// Converts a time of the log, in ticks, to a clock of the card's session.
    pub fn clock(&self, tsc: u64) -> f64 {
        self.base.map(tsc.saturating_sub(self.origin))
    }
}

/// The marks of a log that were not interrupted.
struct LogMarks {
    /// Register and time of each mark, in nanoseconds from the origin.
    timed: Vec<(u32, f64)>,
    /// Number of all marks, including interrupted ones.
    all: usize,
    origin: u64,
    /// Duration of the longest of these marks, in ticks.
    widest: u64,
    /// Duration of a tick, in nanoseconds. Infinite if the frequency of ticks is 0.
    tick: f64,
    /// Times of the first and of the last event, in ticks from the origin.
    range: (u64, u64),
}

impl LogMarks {
    fn new(marks: &[Mark], tsc_hz: u64, span: (u64, u64)) -> Option<Self> {
        let width = |mark: &Mark| mark.tsc_after.saturating_sub(mark.tsc_before);
        let mut widths: Vec<u64> = marks.iter().map(width).collect();
        widths.sort_unstable();
        let most = widths.get(widths.len() / 2)?.saturating_mul(INTERRUPTED);
        let clear: Vec<&Mark> = marks.iter().filter(|mark| width(mark) <= most).collect();
        let origin = clear.first()?.tsc_before.min(span.0);
        let tick = 1e9 / tsc_hz as f64;
        let ticks = |mark: &Mark| {
            (mark.tsc_before - origin.min(mark.tsc_before)) as f64 + width(mark) as f64 / 2.0
        };
        let mut timed: Vec<(u32, f64)> =
            clear.iter().map(|mark| (mark.register, ticks(mark) * tick)).collect();
        timed.sort_by(|first, second| first.1.total_cmp(&second.1));
        let widest = clear.iter().map(|mark| width(mark)).max().unwrap_or_default();
        let range = (span.0.saturating_sub(origin), span.1.saturating_sub(origin));
        Some(LogMarks { timed, all: marks.len(), origin, widest, tick, range })
    }

    /// Relates the log to a session. `offset`: the distance between the two clocks that the first
    /// marks show. `None` if no mark of the log agrees with a mark of the session.
    fn relate(&self, session: &CardSession, offset: Offset) -> Option<LogSync> {
        let LogMarks { timed, all: count, origin, widest, tick, range } = self;
        let period = session.period();
        let pairs = follow_marks(&MarkIndex::new(session.timed_marks()), timed, offset);
        let knots: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (b / tick, a / period)).collect();
        let marks = (knots.first()?.1, knots.last()?.1);
        let nominal = tick / period;
        // Bound of the error of a mark: half the duration of the longest mark, plus one clock,
        // which is the resolution of the card.
        let seen_within = *widest as f64 / 2.0 * nominal + 1.0;
        let base = TimeBase::through(knots, nominal, *range, seen_within)?;
        Some(LogSync {
            error: base.error.unwrap_or(f64::MAX),
            base,
            origin: *origin,
            shared: pairs.len(),
            only_log: (count - pairs.len()) as u64,
            only_trace: (session.marks() - pairs.len()) as u64,
            marks,
            card: session.card,
            session: session.restarts_before,
        })
    }
}
