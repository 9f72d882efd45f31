//! Attributes accesses to the owners of their frames. If a capture has marks of the snapshots, the
//! snapshots around an access decide; otherwise all snapshots of the map decide.
//!
//! ```text
//! snapshots   |  0  |       |  1  |           |  2  |          the marks of a card: begins and ends
//! accesses  a   b      c       d        e        f     g
//! ```
//!
//! `c` is resolved if snapshots 0 and 1 agree on its frame, and `e` if snapshots 1 and 2 agree. An
//! access during a snapshot may have been made before or after the snapshot read that page. So `d`
//! is resolved if snapshots 0, 1 and 2 agree. `a`, `b`, `f` and `g` are not between two snapshots.
//! If marks are missing, more snapshots must agree. Only the order of accesses and marks in a
//! card's trace matters, and no loss or restart changes that order.
//!
//! The accesses to a memory are resolved by time if its trace has marks of the ends of at least two
//! snapshots. These accesses are counted by frame from one mark to the next (a stretch). The counts
//! of a stretch are stored until the next snapshot begins. In addition, the counts of all frames
//! are stored, in case that the memory has too few marks.

use std::collections::BTreeMap;

use hmtt_files::page_map::{SnapshotMark, SnapshotMarks};
use hmtt_format::Event;
use hmtt_format::config::MARK_FREE_FIRST;

use super::attribution::Tally;
use super::{Attribution, Between, Owners, PageMap, Rule};
use crate::analysis::frames::Frames;
use crate::analysis::hash::Table;
use crate::analysis::source::Part;
use crate::analysis::{Analysis, Batch, PageRun};
use crate::decode::Item;

/// Least number of snapshots with a marked end, for the accesses to a memory to be resolved by
/// time.
const LEAST_SNAPSHOTS: u64 = 2;

/// Collects the accesses of all memories, and the marks among them.
#[derive(Debug)]
pub struct Attributor {
    /// Index of the snapshot with each mark number.
    numbers: BTreeMap<u32, u32>,
    page_log2: u32,
    memories: Vec<Memory>,
}

/// Counts of accesses between two marks, by frame.
#[derive(Debug, Default)]
struct Stretch {
    /// Index of the last snapshot that was complete before the stretch; `None` if none is known.
    after: Option<u32>,
    accesses: Table<u64>,
}

/// The accesses of one memory.
#[derive(Debug)]
struct Memory {
    frames: Frames,
    marks: SnapshotMarks,
    /// Index of the snapshot whose begin was marked last.
    begun: Option<u32>,
    /// Index of the snapshot whose end was marked last.
    ended: Option<u32>,
    /// The stretch since the last mark.
    now: Stretch,
    /// Earlier stretches that wait for the begin of the next snapshot.
    waiting: Vec<Stretch>,
    /// Accesses that were attributed by time so far.
    tally: Tally,
}

impl Attributor {
    /// Creates an attributor for the snapshots of a map.
    pub fn new(map: &PageMap) -> Self {
        let numbered = map.snapshots.iter().zip(0..);
        let numbers = numbered.filter_map(|(snapshot, at)| Some((snapshot.mark?, at))).collect();
        let page_log2 = u32::from(map.machine.page_log2).clamp(1, 63);
        Attributor { numbers, page_log2, memories: Vec::new() }
    }

    /// Takes a part of a source: counts its accesses, or takes a mark.
    pub fn part(&mut self, map: &PageMap, owners: &Owners, memory: usize, part: &Part<'_>) {
        let log2 = self.page_log2;
        while self.memories.len() <= memory {
            self.memories.push(Memory::new(log2));
        }
        let memory = &mut self.memories[memory];
        match part {
            Part::Batch(batch) => {
                memory.frames.add(batch);
                if !self.numbers.is_empty() {
                    memory.now.add(batch, log2);
                }
            }
            // The card ends a page run at a mark, so each run is between two marks.
            Part::PageRun(run) => {
                memory.frames.page_run(run);
                if !self.numbers.is_empty() {
                    memory.now.add_run(run, log2);
                }
            }
            Part::Gap(_) | Part::Restart => memory.marks.lose(),
            Part::Item(Item::Event(Event::Mark { register, .. })) => {
                let free = register.0.checked_sub(MARK_FREE_FIRST.into());
                let mark = free.and_then(|mark| u8::try_from(mark).ok());
                let Some(SnapshotMark { number, is_end }) =
                    mark.and_then(|mark| memory.marks.mark(mark))
                else {
                    return;
                };
                match self.numbers.get(&number) {
                    Some(snapshot) if is_end => memory.end(*snapshot),
                    Some(snapshot) => memory.begin(*snapshot, map, owners),
                    // The mark belongs to another recording of a map.
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Attributes all accesses, and returns the sums.
    pub fn finish(self, map: &PageMap, owners: &Owners) -> Attribution {
        let mut sum = Tally::default();
        let (mut timed, mut total) = (0, 0);
        for memory in self.memories {
            total += 1;
            if memory.tally.sums.marked_snapshots >= LEAST_SNAPSHOTS {
                timed += 1;
                sum.merge(memory.finish(map, owners));
                continue;
            }
            for (frame, accesses) in memory.frames.iter() {
                sum.add(map, owners.find(map, frame), accesses);
            }
        }
        sum.sums.owner_rule = match timed {
            0 => Rule::AllSnapshots,
            timed if timed == total => Rule::Time,
            _ => Rule::Both,
        };
        sum.finish(map)
    }
}

impl Stretch {
    fn add(&mut self, batch: &Batch<'_>, page_log2: u32) {
        for address in batch.addresses() {
            let sum = self.accesses.entry(address >> page_log2);
            *sum = sum.saturating_add(1);
        }
    }

    fn add_run(&mut self, run: &PageRun, page_log2: u32) {
        let sum = self.accesses.entry(run.address >> page_log2);
        *sum = sum.saturating_add(run.accesses());
    }
}

impl Memory {
    fn new(page_log2: u32) -> Self {
        Memory {
            frames: Frames::new(page_log2),
            marks: SnapshotMarks::default(),
            begun: None,
            ended: None,
            now: Stretch::default(),
            waiting: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// A snapshot begins. The waiting stretches are now between two snapshots, and are attributed.
    fn begin(&mut self, snapshot: u32, map: &PageMap, owners: &Owners) {
        // Snapshots do not overlap. A mark that is out of order does not belong to this recording.
        if self.begun.is_some_and(|begun| snapshot <= begun)
            || self.ended.is_some_and(|ended| snapshot <= ended)
        {
            return;
        }
        self.next_stretch();
        self.attribute(Some(snapshot), map, owners);
        self.begun = Some(snapshot);
        // The previous snapshot was complete by now, even if its end is not in the trace.
        self.now.after = snapshot.checked_sub(1);
    }

    /// A snapshot is complete.
    fn end(&mut self, snapshot: u32) {
        if self.begun.is_some_and(|begun| snapshot < begun)
            || self.ended.is_some_and(|ended| snapshot <= ended)
        {
            return;
        }
        self.next_stretch();
        self.ended = Some(snapshot);
        self.tally.sums.marked_snapshots += 1;
        self.now.after = Some(snapshot);
    }

    fn next_stretch(&mut self) {
        let last = std::mem::take(&mut self.now);
        if !last.accesses.is_empty() {
            self.waiting.push(last);
        }
    }

    /// Attributes the waiting stretches. `before`: the snapshot that begins now; `None` at the end.
    fn attribute(&mut self, before: Option<u32>, map: &PageMap, owners: &Owners) {
        for Stretch { after, accesses } in self.waiting.drain(..) {
            let between = Between { after, before };
            let is_outside = after.is_none() || before.is_none();
            for (frame, accesses) in accesses.iter() {
                if is_outside {
                    let sum = &mut self.tally.sums.outside_accesses;
                    *sum = sum.saturating_add(accesses);
                }
                let owner = owners.find_between(map, frame, between);
                self.tally.add(map, owner, accesses);
            }
        }
    }

    fn finish(mut self, map: &PageMap, owners: &Owners) -> Tally {
        self.next_stretch();
        self.attribute(None, map, owners);
        self.tally
    }
}
