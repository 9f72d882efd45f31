//! Follows the pages of one process through the snapshots of a map.
//!
//! The pages of a process are in three layers of ranges: their frames, their mappings, and the
//! snapshots since which the process has the frames. In the layer of frames, pages with consecutive
//! frames are one range, even if the process has them since different snapshots. So a change never
//! visits pages that it leaves unchanged. The work is linear in the changes of the map, apart from
//! searching the layers.

use std::ops::Range;

use hmtt_files::page_map::{Entry, Place, Run};

use super::layer::Layer;

/// Frames that a process had in consecutive snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Number of the process, from 1.
    pub process: u32,
    /// The pages, with their frames and their mapping.
    pub run: Run,
    /// Index of the first snapshot in which the process had the frames.
    pub first: u32,
    /// Index of the last snapshot in which the process had the frames.
    pub last: u32,
}

/// The pages of a process at one time. All layers have the same pages.
#[derive(Debug)]
pub struct History {
    process: u32,
    /// Number of the frame minus number of the page, modulo 2^64. It is the same for pages with
    /// consecutive frames. Example: pages 3 and 4 in the frames 10 and 11 have the shift 7.
    shifts: Layer<u64>,
    /// Number of the mapping, and whether the page belongs to the page cache of a file.
    mappings: Layer<(u32, bool)>,
    /// Index of the snapshot since which the process has the frame.
    since: Layer<u32>,
}

impl History {
    /// Creates a history of a process without pages.
    pub fn new(process: u32) -> Self {
        let (shifts, mappings, since) = (Layer::new(), Layer::new(), Layer::new());
        History { process, shifts, mappings, since }
    }

    /// Applies a change that a snapshot has found. Pages that lose their frame are appended to
    /// `held`.
    pub fn change(&mut self, entry: &Entry, snapshot: u32, held: &mut Vec<Held>) {
        let pages = entry.page..entry.page.saturating_add(entry.count);
        let shift = entry.place.map(|place| place.frame.wrapping_sub(entry.page));
        let mut begin = pages.start;
        for (part, was) in self.shifts.take(pages.clone()) {
            if shift != Some(was) {
                self.leave(part, was, snapshot, held);
                continue;
            }
            // The frames stay the same, and perhaps the mapping has changed: for example, a heap
            // has grown.
            self.mappings.take(part.clone());
            let new = begin..part.start;
            begin = part.end;
            self.since.put(new, snapshot);
        }
        if let (Some(place), Some(shift)) = (entry.place, shift) {
            self.since.put(begin..pages.end, snapshot);
            self.mappings.put(pages.clone(), (place.mapping, place.is_file));
            self.shifts.put(pages, shift);
        }
    }

    /// The process has no pages from a snapshot on. All of its pages are appended to `held`.
    pub fn end(&mut self, snapshot: u32, held: &mut Vec<Held>) {
        for (part, shift) in self.shifts.take(0..u64::MAX) {
            self.leave(part, shift, snapshot, held);
        }
    }

    /// Appends pages that lose their frame in a snapshot to `held`. `shift`: their value in
    /// `shifts`.
    fn leave(&mut self, pages: Range<u64>, shift: u64, snapshot: u32, held: &mut Vec<Held>) {
        let mut mappings = self.mappings.take(pages.clone()).into_iter();
        let mut mapping = mappings.next();
        for (part, first) in self.since.take(pages) {
            let mut page = part.start;
            while page < part.end
                && let Some((range, (number, is_file))) = &mapping
            {
                let end = part.end.min(range.end);
                let place =
                    Place { frame: page.wrapping_add(shift), mapping: *number, is_file: *is_file };
                let run = Run { page, count: end - page, place };
                if let Some(last) = snapshot.checked_sub(1).filter(|last| *last >= first) {
                    held.push(Held { process: self.process, run, first, last });
                }
                page = end;
                if range.end == end {
                    mapping = mappings.next();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(page: u64, count: u64, frame: u64, mapping: u32) -> Entry {
        Entry { page, count, place: Some(Place { frame, mapping, is_file: false }) }
    }

    /// Number of steps for `n` single pages and then `n` entries that cover all of these pages; and
    /// the frames that were held.
    fn steps(
        n: u64,
        first: impl Fn(u64) -> (Entry, u32),
        again: impl Fn(u64) -> Entry,
    ) -> (u64, Vec<Held>) {
        let (mut history, mut held) = (History::new(1), Vec::new());
        let mut singles: Vec<_> = (0..n).map(first).collect();
        singles.sort_by_key(|(_, snapshot)| *snapshot);
        for (entry, snapshot) in &singles {
            history.change(entry, *snapshot, &mut held);
        }
        for (at, snapshot) in (0..n).zip(2..) {
            history.change(&again(at), snapshot, &mut held);
        }
        history.end(n as u32 + 2, &mut held);
        (history.shifts.steps + history.mappings.steps + history.since.steps, held)
    }

    #[test]
    fn work_is_linear_in_the_changes() {
        let n = 500;
        // First, single pages come in one snapshot, or alternately in two snapshots, or alternately
        // in two mappings. Then all pages keep their frames or change their frames again and again.
        for kind in 0..3 {
            let first = |at: u64| {
                let odd = (at % 2) as u32;
                match kind {
                    0 => (entry(at, 1, at, 1), 0),
                    1 => (entry(at, 1, at, 1), odd),
                    _ => (entry(at, 1, at, 1 + odd), 0),
                }
            };
            for moves in [false, true] {
                let run = |n: u64| {
                    steps(n, first, |at| {
                        entry(0, n, if moves { at % 2 * n } else { 0 }, 1 + (at % 2) as u32)
                    })
                };
                let ((few, held), (many, _)) = (run(n), run(4 * n));
                assert!(many <= 5 * few, "{kind} {moves}: {few} and {many} steps");
                let pages: u64 =
                    held.iter().filter(|held| held.first < 2).map(|held| held.run.count).sum();
                assert_eq!(pages, n, "{kind} {moves}");
            }
        }
    }
}
