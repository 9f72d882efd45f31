//! Reads decoded items from one capture, or from several merged captures.

use std::io::Read;

use super::runs::Runs;
use crate::capture_reader::{CaptureReader, Unread};
use crate::decode::LinkCounts;
use crate::identity::{CardId, LinkId};
use crate::merge::{Merge, MergeError, MergedItems};
use crate::pcapng::{Interface, ReadError};

/// The input of a trace.
pub(super) enum Input<R: Read> {
    Capture(Box<CaptureReader<R>>),
    Merged(Merged),
}

/// Captures that are read merged.
pub(super) struct Merged {
    items: MergedItems,
    /// The card of each session, by the number of the session.
    cards: Vec<CardId>,
    counts: LinkCounts,
    interfaces: Vec<Interface>,
    truncated_at: Option<u64>,
}

impl Merged {
    /// Opens the captures again.
    pub fn new(merge: &Merge) -> Result<Self, MergeError> {
        let sessions = || merge.sessions().map(|(session, _)| session);
        Ok(Merged {
            items: merge.items()?,
            cards: sessions().map(|session| session.source).collect(),
            counts: merge.counts().clone(),
            interfaces: merge.interfaces().to_vec(),
            truncated_at: sessions().find_map(|session| session.truncated_at),
        })
    }
}

impl<R: Read> Input<R> {
    /// Reads and decodes until enough runs or accesses are waiting. Returns the counts of all cards
    /// if the input has ended, and `None` otherwise.
    ///
    /// # Errors
    /// [`ReadError`] and the counts of all cards: the input ends at an error.
    pub fn fill(&mut self, runs: &mut Runs) -> Result<Option<LinkCounts>, (ReadError, LinkCounts)> {
        while !runs.is_due() {
            match self {
                Input::Capture(reader) => match reader.next_packet() {
                    Ok(Some(mut next)) => next.decode(runs),
                    Ok(None) => return Ok(Some(reader.finish(runs))),
                    Err(error) => return Err((error, reader.finish(runs))),
                },
                Input::Merged(merged) => match merged.items.next() {
                    Some(Ok((session, item))) => runs.merged(merged.cards[session], item),
                    None => return Ok(Some(std::mem::take(&mut merged.counts))),
                    Some(Err(error)) => {
                        return Err((read_error(error), std::mem::take(&mut merged.counts)));
                    }
                },
            }
        }
        Ok(None)
    }

    /// The link of a card; `None` before the card's first frame, and at the end.
    pub fn link_of(&self, card: CardId) -> Option<LinkId> {
        match self {
            Input::Capture(reader) => reader.link_of(card),
            Input::Merged(merged) => Some(merged.counts.cards.get(card.0)?.link),
        }
    }

    pub fn interfaces(&self) -> &[Interface] {
        match self {
            Input::Capture(reader) => reader.interfaces(),
            Input::Merged(merged) => &merged.interfaces,
        }
    }

    /// Counts of the blocks and packets of unknown types that were skipped; all 0 for merged
    /// captures, where they are not known.
    pub fn unread(&self) -> Unread {
        match self {
            Input::Capture(reader) => reader.unread(),
            Input::Merged(_) => Unread::default(),
        }
    }

    pub fn truncated_at(&self) -> Option<u64> {
        match self {
            Input::Capture(reader) => reader.truncated_at(),
            Input::Merged(merged) => merged.truncated_at,
        }
    }
}

/// Converts an error of a merged trace.
fn read_error(error: MergeError) -> ReadError {
    match error {
        MergeError::Read { path, source } => ReadError::Capture { path, source: Box::new(source) },
        // Only opening and reading can fail after the clocks have been related.
        other => ReadError::Open(std::io::Error::other(other)),
    }
}
