//! Follows the pages of one process through the snapshots of a map.

use std::collections::BTreeMap;

use hmtt_format::page_map::{Entry, Place, Run};

/// Frames that a process had, from one snapshot to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Number of the process.
    pub process: u32,
    /// The pages, and where they were.
    pub run: Run,
    /// Index of the first snapshot.
    pub first: u32,
    /// Index of the last snapshot.
    pub last: u32,
}

/// The pages of a process at one moment.
#[derive(Debug)]
pub struct History {
    process: u32,
    /// By first page: the run, and the snapshot since which its frames are the process's.
    now: BTreeMap<u64, (Run, u32)>,
}

impl History {
    /// A process without pages.
    pub fn new(process: u32) -> Self {
        History { process, now: BTreeMap::new() }
    }

    /// Takes a change in a snapshot. What the process had until then is appended to `held`.
    pub fn change(&mut self, entry: &Entry, snapshot: u32, held: &mut Vec<Held>) {
        let end = entry.page + entry.count;
        let overlapping = self.overlapping(entry.page, end);
        let mut rest = entry.place.map(|place| Run { page: entry.page, count: entry.count, place });
        for (was, since) in overlapping {
            self.now.remove(&was.page);
            let before = entry.page.saturating_sub(was.page);
            if before > 0 {
                self.now.insert(was.page, (was.first(before), since));
            }
            let Some(inside) = was.after(before) else { continue };
            if let Some(behind) = inside.after(end - inside.page) {
                self.now.insert(behind.page, (behind, since));
            }
            let inside = inside.first(end - inside.page);
            // The same frames go on, in another mapping perhaps: a heap that has grown.
            let same = rest.filter(|run| has_frame(run, inside.page, inside.place.frame));
            if let Some(run) = same {
                let place = Place { frame: inside.place.frame, ..run.place };
                self.now.insert(inside.page, (Run { place, ..inside }, since));
                self.fill(&mut rest, inside.page, snapshot);
                rest = rest.and_then(|run| run.after(inside.count));
            } else if let Some(last) = snapshot.checked_sub(1).filter(|last| *last >= since) {
                held.push(Held { process: self.process, run: inside, first: since, last });
            }
        }
        self.fill(&mut rest, end, snapshot);
    }

    /// Adds what is new before a page. `rest` then begins there.
    fn fill(&mut self, rest: &mut Option<Run>, page: u64, snapshot: u32) {
        let Some(run) = *rest else { return };
        let count = page.saturating_sub(run.page);
        if count > 0 {
            self.now.insert(run.page, (run.first(count), snapshot));
            *rest = run.after(count);
        }
    }

    fn overlapping(&self, page: u64, end: u64) -> Vec<(Run, u32)> {
        let before = self.now.range(..page).next_back().filter(|(_, (run, _))| run.end() > page);
        before.into_iter().chain(self.now.range(page..end)).map(|(_, one)| *one).collect()
    }

    /// The process has no pages from a snapshot on.
    pub fn end(&mut self, snapshot: u32, held: &mut Vec<Held>) {
        for (run, first) in std::mem::take(&mut self.now).into_values() {
            if let Some(last) = snapshot.checked_sub(1).filter(|last| *last >= first) {
                held.push(Held { process: self.process, run, first, last });
            }
        }
    }
}

/// Whether a page of a run has this frame.
fn has_frame(run: &Run, page: u64, frame: u64) -> bool {
    page >= run.page && run.place.frame.wrapping_add(page - run.page) == frame
}
