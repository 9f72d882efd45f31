//! Finds who owns a frame.
//!
//! The runs of a map are divided at all of their begins and ends, so that all frames of a segment have the same runs. At most
//! [`MOST_OWNERS`] of them are kept for each segment: a forged map with many runs of the same frames stays linear.

use std::collections::BTreeSet;

use hmtt_format::page_map::Run;

use super::{Held, PageMap, label};

/// Most owners of a frame that are listed.
pub const MOST_OWNERS: usize = 16;

/// Who owns a frame, by all snapshots of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One page of one process, in all snapshots.
    Resolved {
        /// Index in [`PageMap::held`].
        held: usize,
        /// Number of the virtual page.
        page: u64,
    },
    /// Several pages, in all snapshots.
    Shared {
        /// Indices in [`PageMap::held`], and virtual pages; at most [`MOST_OWNERS`].
        owners: Vec<(usize, u64)>,
        /// How many there are.
        count: u64,
    },
    /// Pages that had the frame in some snapshots and not in others.
    Ambiguous,
    /// No page of a process in the map.
    Unresolved,
}

/// Consecutive frames with the same runs.
#[derive(Clone, Debug)]
struct Segment {
    frame: u64,
    /// Indices of runs.
    held: Vec<u32>,
    count: u64,
    /// Whether a run is not of all snapshots.
    is_partial: bool,
}

/// Who owns the frames of a map.
#[derive(Clone, Debug)]
pub struct Owners {
    /// In the order of frames; the last one has no owners.
    segments: Vec<Segment>,
}

impl Owners {
    /// Prepares a map.
    pub fn new(map: &PageMap) -> Owners {
        let last = map.snapshots.len().saturating_sub(1) as u32;
        // At each frame, runs that end and begin there.
        let mut events: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * map.held.len());
        for (held, index) in map.held.iter().zip(0u32..) {
            let frame = held.run.place.frame;
            events.push((frame, true, index));
            events.push((frame.saturating_add(held.run.count), false, index));
        }
        events.sort_unstable();
        let (mut active, mut partial) = (BTreeSet::new(), 0u64);
        let mut segments = Vec::new();
        let mut events = events.into_iter().peekable();
        while let Some((frame, is_begin, index)) = events.next() {
            let held = &map.held[index as usize];
            let is_partial = held.first > 0 || held.last < last;
            if is_begin {
                active.insert(index);
                partial += u64::from(is_partial);
            } else {
                active.remove(&index);
                partial -= u64::from(is_partial);
            }
            if events.peek().is_none_or(|(next, ..)| *next != frame) {
                let some = active.iter().take(MOST_OWNERS).copied().collect();
                let count = active.len() as u64;
                segments.push(Segment { frame, held: some, count, is_partial: partial > 0 });
            }
        }
        Owners { segments }
    }

    /// The owner of a frame.
    pub fn find(&self, map: &PageMap, frame: u64) -> Owner {
        let behind = self.segments.partition_point(|segment| segment.frame <= frame);
        let Some(segment) = behind.checked_sub(1).map(|at| &self.segments[at]) else {
            return Owner::Unresolved;
        };
        let page = |index: &u32| {
            let Run { page, place, .. } = map.held[*index as usize].run;
            (*index as usize, page.saturating_add(frame.saturating_sub(place.frame)))
        };
        match (&segment.held[..], segment.is_partial) {
            ([], _) => Owner::Unresolved,
            (_, true) => Owner::Ambiguous,
            ([one], false) => {
                let (held, page) = page(one);
                Owner::Resolved { held, page }
            }
            (some, false) => {
                Owner::Shared { owners: some.iter().map(page).collect(), count: segment.count }
            }
        }
    }
}

impl Held {
    /// What the pages belong to.
    pub fn label(&self, map: &PageMap) -> String {
        map.mapping(self.run.place.mapping)
            .map_or_else(String::new, |of| label(of, &self.run.place))
    }
}
