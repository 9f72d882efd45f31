//! Finds who owns a frame.
//!
//! The runs of a map are divided at all of their begins and ends, so that all frames of a segment
//! have the same runs. At most `MOST_RUNS` of them are kept for each segment, and `LISTED_PER_RUN`
//! times as many as the map has in all: a forged map with many runs of the same frames stays
//! linear. Frames with more owners, not all of them in all snapshots, are ambiguous.

use std::collections::BTreeSet;

use super::{Held, PageMap, label};

/// Most owners of a frame that are listed.
pub const MOST_OWNERS: usize = 16;

/// Most runs of a frame that are kept: its owners one after the other.
const MOST_RUNS: usize = 256;
/// Runs that are kept for each run of the map, at most, besides [`MOST_OWNERS`] of each frame.
const LISTED_PER_RUN: usize = 16;

/// Who owns a frame, by some snapshots of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One page of one process, in all of them.
    Resolved {
        /// Index in [`PageMap::held`].
        held: usize,
        /// Number of the virtual page.
        page: u64,
    },
    /// Several pages, in all of them.
    Shared {
        /// Indices in [`PageMap::held`], and virtual pages; at most [`MOST_OWNERS`].
        owners: Vec<(usize, u64)>,
        /// How many there are.
        count: u64,
    },
    /// Pages that had the frame in some snapshots and not in others.
    Ambiguous,
    /// No page of a process in any of them.
    Unresolved,
}

/// Snapshots between which something was: after one was whole, and before another one began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Index of the last snapshot that was whole before; `None` if none is known.
    pub after: Option<u32>,
    /// Index of the first snapshot that began afterwards; `None` if none is known.
    pub before: Option<u32>,
}

/// Consecutive frames with the same runs.
#[derive(Clone, Debug)]
struct Segment {
    frame: u64,
    /// Indices of runs; not all of them if there are too many.
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
    /// Index of the last snapshot.
    last: u32,
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
        let mut left = LISTED_PER_RUN * map.held.len();
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
                let is_listed = active.len() <= MOST_RUNS.min(left);
                let most = if is_listed { MOST_RUNS } else { MOST_OWNERS };
                let some: Vec<u32> = active.iter().take(most).copied().collect();
                left = left.saturating_sub(some.len());
                let count = active.len() as u64;
                segments.push(Segment { frame, held: some, count, is_partial: partial > 0 });
            }
        }
        Owners { segments, last }
    }

    /// The owner of a frame, by all snapshots.
    pub fn find(&self, map: &PageMap, frame: u64) -> Owner {
        self.find_between(map, frame, Between { after: Some(0), before: Some(self.last) })
    }

    /// The owner of a frame between two snapshots: by these and all between them. Without one of
    /// the two, it is at most known that there is none.
    pub fn find_between(&self, map: &PageMap, frame: u64, between: Between) -> Owner {
        let behind = self.segments.partition_point(|segment| segment.frame <= frame);
        let Some(segment) = behind.checked_sub(1).map(|at| &self.segments[at]) else {
            return Owner::Unresolved;
        };
        let is_whole = segment.held.len() as u64 == segment.count;
        if !is_whole && segment.is_partial {
            return Owner::Ambiguous;
        }
        let first = between.after.unwrap_or(0);
        let last = between.before.unwrap_or(self.last).max(first);
        let (mut owners, mut count) = (Vec::new(), 0u64);
        for index in &segment.held {
            let Held { run, first: from, last: to, .. } = &map.held[*index as usize];
            if *from > last || *to < first {
                continue;
            }
            if *from > first || *to < last || between.after.is_none() || between.before.is_none() {
                return Owner::Ambiguous;
            }
            count += 1;
            if owners.len() < MOST_OWNERS {
                let page = run.page.saturating_add(frame.saturating_sub(run.place.frame));
                owners.push((*index as usize, page));
            }
        }
        let count = if is_whole { count } else { segment.count };
        match owners[..] {
            [] => Owner::Unresolved,
            [(held, page)] => Owner::Resolved { held, page },
            _ => Owner::Shared { owners, count },
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
