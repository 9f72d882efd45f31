//! Finds the owner of a physical page (frame).
//!
//! The frames are divided into segments at the begins and ends of all runs in the map, so that all
//! frames of a segment have the same runs. At most `MOST_RUNS` runs are kept for each segment, and
//! `LISTED_PER_RUN` times the number of the map's runs in total. So the memory stays linear even
//! for a forged map with many runs of the same frames. A frame with more owners is ambiguous,
//! unless all of them had it in all snapshots.

use std::collections::BTreeSet;

use super::{Held, PageMap, label};

/// Maximum number of owners of a shared frame that are listed.
pub const MOST_OWNERS: usize = 16;

/// Maximum number of runs that are kept for a frame: its owners over time.
const MOST_RUNS: usize = 256;
/// Maximum number of runs that all segments keep, for each run of the map. In addition, each
/// segment may keep [`MOST_OWNERS`] runs.
const LISTED_PER_RUN: usize = 16;

/// The owner of a frame, according to some snapshots of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One page of one process had the frame in all of these snapshots.
    Resolved {
        /// Index of the run in [`PageMap::held`].
        held: usize,
        /// Number of the virtual page.
        page: u64,
    },
    /// The same several pages had the frame in all of these snapshots.
    Shared {
        /// Indices of the runs in [`PageMap::held`], with their virtual pages; at most
        /// [`MOST_OWNERS`].
        owners: Vec<(usize, u64)>,
        /// Number of pages that share the frame.
        count: u64,
    },
    /// A page had the frame in some of these snapshots and not in others.
    Ambiguous,
    /// No page of a recorded process had the frame in any of these snapshots.
    Unresolved,
}

/// A time between two snapshots: after the end of one and before the begin of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Index of the last snapshot that was complete before this time; `None` if none is known.
    pub after: Option<u32>,
    /// Index of the first snapshot that began after this time; `None` if none is known.
    pub before: Option<u32>,
}

/// Consecutive frames with the same runs, up to the next segment's first frame.
#[derive(Clone, Debug)]
struct Segment {
    frame: u64,
    /// Indices of the segment's runs. If there are too many, only some of them are kept.
    held: Vec<u32>,
    count: u64,
    /// Whether one of the runs does not last for all snapshots.
    is_partial: bool,
}

/// An index of the owners of all frames in a map.
#[derive(Clone, Debug)]
pub struct Owners {
    /// Segments in ascending order of frames. The last segment has no owners.
    segments: Vec<Segment>,
    /// Index of the last snapshot.
    last: u32,
}

impl Owners {
    /// Builds the index of a map.
    pub fn new(map: &PageMap) -> Owners {
        let last = map.snapshots.len().saturating_sub(1) as u32;
        // The frames at which runs begin and end.
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

    /// Finds the owner of a frame by all snapshots.
    pub fn find(&self, map: &PageMap, frame: u64) -> Owner {
        self.find_between(map, frame, Between { after: Some(0), before: Some(self.last) })
    }

    /// Finds the owner of a frame at a time between two snapshots, by these two and all snapshots
    /// between them. If one of the two is not known, the result is [`Owner::Unresolved`] or
    /// [`Owner::Ambiguous`].
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
    /// The name of the object that the pages belong to, such as a file.
    pub fn label(&self, map: &PageMap) -> String {
        map.mapping(self.run.place.mapping)
            .map_or_else(String::new, |mapping| label(mapping, &self.run.place))
    }
}
