//! Merges the captures of several cards into one trace with one time base, and states a bound of
//! the error of the times.
//!
//! ```text
//! captures -> survey      first reading: marks, arrival times and clock period of each session
//!          -> time_base   maps a session's clock to the clock of the reference
//!          -> card_items  second reading: the items of one card, on demand
//!          -> merge       repeatedly takes the earliest item of all cards
//! ```
//!
//! A session is the part of a card's trace between two restarts, within which its clock is
//! continuous. The first session is the reference: the times of the merged trace are its clocks.
//! Memory does not grow with the captures, except by 24 bytes for each mark.

mod arrivals;
mod card_items;
mod marks;
mod survey;
mod time_base;

pub use arrivals::{Arrivals, Line};
pub(crate) use marks::{MarkIndex, Offset, first_offset, follow as follow_marks};
use survey::Survey;
pub use survey::{CardSession, survey_capture};
pub use time_base::{ClockBasis, TimeBase};

use std::path::PathBuf;
use std::sync::Arc;

use crate::decode::{Item, LinkCounts};
use crate::identity::CardId;
use crate::pcapng::{Interface, ReadError};
use card_items::CardItems;
use time_base::Reference;

/// Maximum number of cards in all captures together. The limit exists because the capture is opened
/// separately for each card.
pub const MAX_SOURCES: usize = 256;

/// Offsets of clocks that the user states, and assumptions for the bounds of errors.
#[derive(Clone, Debug)]
pub struct Options {
    /// Offsets that the user states. Each has a source, which is a card as in
    /// [`CardSession::source`], and the number of clocks that are added to the clocks of this card.
    /// Of several offsets for a source, the last one counts.
    pub offsets: Vec<(CardId, i64)>,
    /// Longest time between the moments at which two cards see the same mark, in nanoseconds.
    pub skew_nanos: f64,
    /// Longest time that the fastest frame of a card takes to arrive, in nanoseconds.
    pub latency_nanos: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { offsets: Vec::new(), skew_nanos: 1e3, latency_nanos: 1e6 }
    }
}

/// The reason why captures could not be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A capture cannot be read.
    #[error("{}", path.display())]
    Read {
        /// Path of the capture.
        path: PathBuf,
        /// The error of reading this capture.
        #[source]
        source: ReadError,
    },
    /// No capture has a frame of a card.
    #[error("no frame of a card in any capture")]
    Nothing,
    /// An offset is stated for a source that does not exist. Holds the number of the source, from
    /// 1, and the number of sources.
    #[error("there is no source {0}; there are {1}, numbered from 1")]
    NoSource(usize, usize),
    /// There are more sources than can be read at the same time. Holds their number.
    #[error("the captures have {0} cards; at most {MAX_SOURCES} can be merged")]
    TooMany(usize),
    /// A session has neither marks in common with the reference nor arrival times, and no offset is
    /// stated.
    #[error(
        "nothing relates the clock of {session} to the first one's: it has no mark in common, and no \
         arrival times; state an offset"
    )]
    Unrelated {
        /// The session, as [`CardSession`] is displayed.
        session: String,
    },
}

/// Captures whose clocks have been related to each other.
///
/// [`Trace::merged`](crate::Trace::merged) reads captures as one merged trace. A `Merge` also
/// states how their clocks were related.
///
/// ```
/// # fn main() -> Result<(), hmtt::merge::MergeError> {
/// use hmtt::merge::{Merge, Options};
///
/// # let capture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worked.pcapng");
/// let merge = Merge::survey(&[capture.clone(), capture], &Options::default())?;
/// // Without marks, the second card's clock is related by the arrival times of its frames.
/// assert_eq!(merge.sessions().count(), 2);
/// let mut items = 0;
/// merge.run(|_session, _item| {
///     items += 1;
///     true
/// })?;
/// assert_eq!(items, 2 * (5 + 1), "accesses, a fault and a report of each card");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Merge {
    sessions: Vec<CardSession>,
    /// The map of each session's clock to the clock of the reference.
    bases: Vec<Arc<TimeBase>>,
    counts: LinkCounts,
    interfaces: Vec<Interface>,
}

impl Merge {
    /// Reads the captures once and relates the clocks of their sessions.
    ///
    /// # Errors
    /// [`MergeError`]: a capture cannot be read, there is no card or there are too many, an offset
    /// is of no source, or a session's clock cannot be related to the reference.
    pub fn survey(paths: &[PathBuf], options: &Options) -> Result<Self, MergeError> {
        let Survey { sessions, counts, interfaces } = survey::survey(paths)?;
        if sessions.is_empty() {
            return Err(MergeError::Nothing);
        }
        let sources = sessions.iter().map(|session| session.source.0 + 1).max().unwrap_or(0);
        if sources > MAX_SOURCES {
            return Err(MergeError::TooMany(sources));
        }
        if let Some((wrong, _)) = options.offsets.iter().find(|(source, _)| source.0 >= sources) {
            return Err(MergeError::NoSource(wrong.0 + 1, sources));
        }
        let reference = Reference::new(&sessions[0]);
        let base = |session: &CardSession| {
            let offset = options.offsets.iter().rev().find(|(source, _)| *source == session.source);
            TimeBase::relate(&reference, session, offset.map(|(_, offset)| *offset), options)
                .ok_or_else(|| MergeError::Unrelated { session: session.to_string() })
        };
        let mut bases = sessions.iter().map(base).collect::<Result<Vec<_>, _>>()?;
        // Clocks are unsigned, so all times are shifted until the lowest is not negative.
        let first = |(base, session): (&TimeBase, &CardSession)| base.map(session.first);
        let lowest = bases.iter().zip(&sessions).map(first).fold(0.0, f64::min);
        bases.iter_mut().for_each(|base| base.shift(-lowest.floor()));
        let bases = bases.into_iter().map(Arc::new).collect();
        Ok(Merge { sessions, bases, counts, interfaces })
    }

    /// The sessions, each with the map of its clock to the clock of the first session. The number
    /// of a session, as in [`Merge::run`], is its position here.
    pub fn sessions(&self) -> impl Iterator<Item = (&CardSession, &TimeBase)> {
        self.sessions.iter().zip(self.bases.iter().map(Arc::as_ref))
    }

    /// The counts of each card of all captures, in the order of [`CardSession::source`].
    pub fn counts(&self) -> &LinkCounts {
        &self.counts
    }

    /// The interfaces of all captures, to which the links in [`Merge::counts`] refer.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Reads the captures again. Passes all items to `sink` in order of time, each with the number
    /// of its session.
    ///
    /// Stops when the sink returns `false`.
    ///
    /// # Errors
    /// [`MergeError::Read`]: a capture cannot be read again.
    pub fn run(&self, mut sink: impl FnMut(usize, Item) -> bool) -> Result<(), MergeError> {
        for next in self.items()? {
            let (session, item) = next?;
            if !sink(session, item) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the captures again. Returns their items in order of time, each with the number of its
    /// session.
    ///
    /// # Errors
    /// [`MergeError::Read`]: a capture cannot be opened again. If reading fails later, the last
    /// item is the error.
    pub fn items(&self) -> Result<MergedItems, MergeError> {
        Ok(MergedItems { cards: self.cards()?, failed: false })
    }

    /// Opens the capture of each card.
    fn cards(&self) -> Result<Vec<CardItems>, MergeError> {
        let mut cards: Vec<CardItems> = Vec::new();
        for (number, (session, base)) in self.sessions.iter().zip(&self.bases).enumerate() {
            // The sessions of one card are adjacent.
            if !cards.last().is_some_and(|card| card.is_of(session)) {
                cards.push(CardItems::open(session)?);
            }
            if let Some(card) = cards.last_mut() {
                card.add(session, number, base);
            }
        }
        Ok(cards)
    }
}

/// An iterator over the items of all captures of a [`Merge`], in order of time.
pub struct MergedItems {
    cards: Vec<CardItems>,
    failed: bool,
}

impl MergedItems {
    /// The earliest item of all cards; `None` after the last one.
    fn earliest(&mut self) -> Result<Option<(usize, Item)>, MergeError> {
        loop {
            for card in &mut self.cards {
                card.fill()?;
            }
            let earliest = self
                .cards
                .iter()
                .enumerate()
                .filter_map(|(at, card)| Some((card.time()?, at)))
                .min_by(|first, second| first.0.total_cmp(&second.0));
            let Some((_, at)) = earliest else { return Ok(None) };
            if let Some(next) = self.cards[at].next() {
                return Ok(Some(next));
            }
        }
    }
}

impl Iterator for MergedItems {
    type Item = Result<(usize, Item), MergeError>;

    /// The next item, with the number of its session; `None` after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.earliest().transpose()?;
        self.failed = next.is_err();
        Some(next)
    }
}
