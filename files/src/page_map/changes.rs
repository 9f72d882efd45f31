//! Finds the differences between two readings of the pages of a process.

use super::content::{Entry, Place};

/// Consecutive pages with consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first virtual page.
    pub page: u64,
    /// Number of pages; at least 1.
    pub count: u64,
    /// The frame of the first page.
    pub place: Place,
}

impl Run {
    /// Number of the page after the run.
    pub const fn end(&self) -> u64 {
        self.page.saturating_add(self.count)
    }

    /// The run of the first pages, at most `count`.
    pub fn first(self, count: u64) -> Run {
        Run { count: count.min(self.count), ..self }
    }

    /// The run without its first `count` pages; `None` if no page is left.
    pub fn after(self, count: u64) -> Option<Run> {
        let left = self.count.checked_sub(count).filter(|left| *left > 0)?;
        let place = Place { frame: self.place.frame.saturating_add(count), ..self.place };
        Some(Run { page: self.page.saturating_add(count), count: left, place })
    }

    /// Appends `next` if it continues this run in pages, frames and mapping. Returns whether it
    /// does.
    pub fn join(&mut self, next: &Run) -> bool {
        let expected = Place { frame: self.place.frame.saturating_add(self.count), ..self.place };
        let continues = self.end() == next.page && expected == next.place;
        if continues {
            self.count += next.count;
        }
        continues
    }
}

/// Changes in order. Changes that continue each other are joined.
#[derive(Default)]
struct Changes(Vec<Entry>);

impl Changes {
    fn set(&mut self, run: Run) {
        if let Some(Entry { page, count, place: Some(place) }) = self.0.last_mut() {
            let mut last = Run { page: *page, count: *count, place: *place };
            if last.join(&run) {
                *count = last.count;
                return;
            }
        }
        self.0.push(Entry { page: run.page, count: run.count, place: Some(run.place) });
    }

    fn remove(&mut self, page: u64, count: u64) {
        match self.0.last_mut() {
            Some(last) if last.place.is_none() && last.page + last.count == page => {
                last.count += count
            }
            _ => self.0.push(Entry { page, count, place: None }),
        }
    }
}

/// Returns the entries that change the state `old` to the state `new`. The runs of each state must
/// be in order and must not overlap; the same holds for the returned entries.
///
/// Example: in `old` the pages 10 to 13 have the frames 50 to 53, in `new` the pages 10 and 11 have
/// the frames 50 and 51 and page 12 has frame 90. The result is page 12 with frame 90, and page 13
/// without a frame.
pub fn changes(old: &[Run], new: &[Run]) -> Vec<Entry> {
    let mut changes = Changes::default();
    let (mut old, mut new) = (old.iter().copied(), new.iter().copied());
    let (mut before, mut after) = (old.next(), new.next());
    loop {
        match (before, after) {
            (None, None) => return changes.0,
            (Some(run), None) => {
                changes.remove(run.page, run.count);
                before = old.next();
            }
            (None, Some(run)) => {
                changes.set(run);
                after = new.next();
            }
            (Some(was), Some(is)) if was.page < is.page => {
                let count = was.count.min(is.page - was.page);
                changes.remove(was.page, count);
                before = was.after(count).or_else(|| old.next());
            }
            (Some(was), Some(is)) if is.page < was.page => {
                let count = is.count.min(was.page - is.page);
                changes.set(is.first(count));
                after = is.after(count).or_else(|| new.next());
            }
            (Some(was), Some(is)) => {
                let count = was.count.min(is.count);
                if was.place != is.place {
                    changes.set(is.first(count));
                }
                before = was.after(count).or_else(|| old.next());
                after = is.after(count).or_else(|| new.next());
            }
        }
    }
}
