//! Reads the items of one card from its capture, in the second reading, and converts their clocks
//! to the common time base.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use hmtt_format::event::SliceLength;
use hmtt_format::{Cycles, Event};

use super::{CardSession, MergeError, TimeBase};
use crate::capture_reader::CaptureReader;
use crate::decode::{Item, Sink};
use crate::identity::CardId;
use crate::pcapng::Reading;

/// The items of one card with clocks of the common time base. They are read on demand.
pub(super) struct CardItems {
    path: PathBuf,
    /// The card, numbered over all captures.
    source: CardId,
    /// The card, numbered within its capture.
    card: CardId,
    reader: CaptureReader,
    ended: bool,
    /// The card's sessions, in order: the number of restarts before the session, its number in the
    /// merge, and its time base.
    sessions: Vec<(usize, usize, Arc<TimeBase>)>,
    /// Number of restarts of the card so far.
    restarts_before: usize,
    /// Decoded items that were not returned yet, with the card's own clocks.
    waiting: VecDeque<Item>,
    /// Time of the last item, in clocks of the reference.
    time: f64,
}

/// A sink that appends the items of one card to a queue, and ignores other cards.
struct OfCard<'a>(CardId, &'a mut VecDeque<Item>);

impl Sink for OfCard<'_> {
    fn item(&mut self, card: CardId, item: Item) {
        if card == self.0 {
            self.1.push_back(item);
        }
    }
}

impl CardItems {
    /// Opens the capture of a session's card.
    ///
    /// # Errors
    /// [`MergeError::Read`]: the capture cannot be opened.
    pub fn open(session: &CardSession) -> Result<Self, MergeError> {
        let failed = |source| MergeError::Read { path: session.file.to_path_buf(), source };
        Ok(CardItems {
            path: session.file.to_path_buf(),
            source: session.source,
            card: session.card,
            reader: CaptureReader::open_as(&session.file, Reading::Shared).map_err(failed)?,
            ended: false,
            sessions: Vec::new(),
            restarts_before: 0,
            waiting: VecDeque::new(),
            time: f64::MIN,
        })
    }

    /// Whether a session is of this card.
    pub fn is_of(&self, session: &CardSession) -> bool {
        self.source == session.source
    }

    /// Adds the next session of the card. `number`: its number in the merge.
    pub fn add(&mut self, session: &CardSession, number: usize, base: &Arc<TimeBase>) {
        self.sessions.push((session.restarts_before, number, base.clone()));
    }

    /// Reads until an item is waiting, or the capture has ended.
    ///
    /// # Errors
    /// [`MergeError::Read`]: the capture cannot be read.
    pub fn fill(&mut self) -> Result<(), MergeError> {
        let CardItems { reader, waiting, path, card, ended, .. } = self;
        while waiting.is_empty() && !*ended {
            let mut of_card = OfCard(*card, waiting);
            match reader.next_packet() {
                Ok(Some(mut next)) => next.decode(&mut of_card),
                Ok(None) => {
                    *ended = true;
                    reader.finish(&mut of_card);
                }
                Err(source) => return Err(MergeError::Read { path: path.clone(), source }),
            }
        }
        Ok(())
    }

    /// Time of the next item, in clocks of the reference; `None` if no item is waiting. An item
    /// without a clock gets the time of the item before it. Times never decrease.
    pub fn time(&self) -> Option<f64> {
        let clock = time_of(self.waiting.front()?);
        let time = clock.zip(self.base()).map(|(clock, (_, base))| base.map(clock.0));
        Some(time.map_or(self.time, |time| time.max(self.time)))
    }

    /// Number and time base of the current session.
    fn base(&self) -> Option<(usize, &TimeBase)> {
        // The sessions are in ascending order of restarts.
        let at = self
            .sessions
            .binary_search_by_key(&self.restarts_before, |(restarts_before, ..)| *restarts_before)
            .ok()?;
        let (_, number, base) = &self.sessions[at];
        Some((*number, base))
    }

    /// Takes the next item. Returns the number of its session too.
    pub fn next(&mut self) -> Option<(usize, Item)> {
        self.time = self.time()?;
        let item = self.waiting.pop_front()?;
        if item == Item::Restart {
            self.restarts_before += 1;
        }
        // A session without any clock is not in `sessions`. Its items count for the first session.
        let first = || self.sessions.first().map(|(_, number, base)| (*number, &**base));
        let (session, base) = self.base().or_else(first)?;
        Some((session, on_base(item, base)))
    }
}

/// Clock of an item; `None` if it has none. For a gap, the last clock before it or, if it is not
/// known, the first clock after it.
fn time_of(item: &Item) -> Option<Cycles> {
    match item {
        Item::Gap(gap) => gap.after.or(gap.before),
        other => other.clock(),
    }
}

/// Converts the clocks and durations of an item to the common time base.
fn on_base(item: Item, base: &TimeBase) -> Item {
    let map = |clock: Cycles| base.clock(clock);
    match item {
        Item::Event(event) => Item::Event(event_on_base(event, base)),
        Item::Gap(mut gap) => {
            (gap.after, gap.before) = (gap.after.map(map), gap.before.map(map));
            Item::Gap(gap)
        }
        Item::Report { clock, end, report } => Item::Report { clock: map(clock), end, report },
        other => other,
    }
}

/// Converts the clock of an event to the common time base, and the duration of a page run or of a
/// partial time slice.
fn event_on_base(mut event: Event, base: &TimeBase) -> Event {
    let scaled = |clocks: f64| (clocks * base.rate()).round();
    match &mut event {
        Event::Page { duration, .. } => *duration = scaled(f64::from(*duration)) as u32,
        Event::Slice { length: SliceLength::Partial(length), .. } => {
            *length = Cycles(scaled(length.0 as f64) as u64);
        }
        Event::Slice { length: SliceLength::Unknown { .. } | SliceLength::Whole(_), .. }
        | Event::Access(_)
        | Event::Tag { .. }
        | Event::Mark { .. }
        | Event::Fault { .. }
        | Event::Interval { .. }
        | Event::Count { .. }
        | Event::HotPage { .. } => {}
    }
    if let Some(clock) = event.clock_mut() {
        *clock = base.clock(*clock);
    }
    event
}
