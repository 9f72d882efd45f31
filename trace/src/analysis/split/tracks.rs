//! Counts the accesses of each group and thread over time, as tracks for ui.perfetto.dev.
//!
//! Time is the clock of a card. Without a clock, time is the number of earlier accesses to the
//! memory, in the order of the file. Memory and output are bounded: a track has at most
//! [`MOST_COLUMNS`](super::super::columns::MOST_COLUMNS) slices, and accesses beyond
//! [`MOST_TRACKS`] tracks are counted in one track for each memory. All tracks of a memory have
//! slices of one length. The sum of all tracks is the number of accesses in batches; accesses
//! without an exact time (page runs, slices of frequency mode, ranges of elements) are in no track.
//! With [`Functions::inclusive`](super::Functions::inclusive), each access counts once for each
//! open function.

mod events;

pub use events::{MOST_WRITTEN, Slices, Written};

use std::collections::BTreeMap;

use super::super::columns::{Column, Columns};
use super::super::source::Part;
use super::super::{Batch, Known};
use super::chooser::Chooser;
use super::labels::Labels;
use super::rows::Rows;
use super::{By, OTHERS};

/// Maximum number of tracks that are counted separately.
pub const MOST_TRACKS: usize = 1024;

/// Number of accesses in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count(u64);

impl Column for Count {
    fn join(&mut self, later: &Self) {
        self.0 = self.0.saturating_add(later.0);
    }
}

/// State of a memory: the time of its accesses, and how they are divided into groups.
struct Memory {
    chooser: Chooser,
    known: Known,
    /// Time at which the session's clock is 0.
    offset: u64,
    /// Time after the last access.
    next: u64,
    /// Times of the accesses of a batch.
    places: Vec<u64>,
}

/// Key of a track: the memory, the thread if it is known, and the group, or `None` for all other
/// accesses.
type Key = (usize, Option<u32>, Option<usize>);

/// The tracks of all memories.
pub struct Tracks {
    by: By,
    memories: Vec<Option<Memory>>,
    labels: Labels,
    rows: Rows,
    tracks: BTreeMap<Key, Columns<Count>>,
}

impl Memory {
    /// Computes the times of a batch's accesses.
    fn place(&mut self, batch: &Batch<'_>) {
        self.places.clear();
        match batch.clocks() {
            Some(clocks) => {
                self.places.extend(clocks.iter().map(|clock| clock.saturating_add(self.offset)));
            }
            None => self.places.extend((self.next..).take(batch.len())),
        }
        let last = self.places.iter().max().map_or(0, |last| last.saturating_add(1));
        self.next = self.next.max(last);
    }
}

impl Tracks {
    /// Begins without accesses. `most`: maximum number of groups, besides the group of all others.
    pub fn new(by: By, most: usize) -> Self {
        Tracks {
            by,
            memories: Vec::new(),
            labels: Labels::new(most),
            rows: Rows::default(),
            tracks: BTreeMap::new(),
        }
    }

    /// Takes a part of a source.
    pub fn part(&mut self, memory: usize, part: Part<'_>) {
        if let Part::Known(known) = part {
            if self.memories.len() <= memory {
                self.memories.resize_with(memory + 1, || None);
            }
            let new = || Memory {
                chooser: Chooser::new(&self.by, known),
                known: *known,
                offset: 0,
                next: 0,
                places: Vec::new(),
            };
            self.memories[memory].get_or_insert_with(new).known = *known;
        }
        let Some(Some(state)) = self.memories.get_mut(memory) else { return };
        match part {
            Part::Known(_) => {}
            Part::Batch(batch) => self.batch(memory, &batch),
            // These accesses have no exact time, and are in no track.
            Part::Elements(_) | Part::PageRun(_) | Part::FrequencySlice(_) | Part::LeftOut(_) => {}
            Part::Gap(_) => state.chooser.lose(),
            Part::Restart => {
                state.chooser.lose();
                state.offset = state.next;
            }
            Part::Item(item) => state.chooser.item(item),
            Part::PieceEnd => {}
            #[cfg(feature = "access-traces")]
            Part::Functions(functions) => state.chooser.functions(functions),
        }
    }

    fn batch(&mut self, memory: usize, batch: &Batch<'_>) {
        let Tracks { memories, labels, rows, tracks, .. } = self;
        let Some(Some(state)) = memories.get_mut(memory) else { return };
        state.place(batch);
        let Memory { chooser, places, .. } = state;
        let placed = batch.with_clocks(places);
        chooser.batch(memory, &placed, labels, rows, |group, batch| {
            let own = (memory, batch.thread(), Some(group));
            let has_place = tracks.len() < MOST_TRACKS || tracks.contains_key(&own);
            let track = tracks.entry(if has_place { own } else { (memory, None, None) });
            let track = track.or_default();
            batch.clocks().unwrap_or_default().iter().for_each(|at| track.at(*at).0 += 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::AddressSpace;

    /// Accesses of a track by slice, with the numbers of slices.
    fn counts(track: &Columns<Count>) -> Vec<(u64, u64)> {
        track
            .iter()
            .map(|(number, count)| (number, count.0))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    #[test]
    fn accesses_have_the_place_of_their_clock_after_restarts_or_of_their_number() {
        let mut tracks = Tracks::new(By::Thread, 8);
        let card = Known { clocks: true, ..Known::default() };
        tracks.part(0, Part::Known(&card));
        let batch = Batch::new(&[0; 2], &[false; 2]).with_clocks(&[3, 7]);
        tracks.part(0, Part::Batch(batch));
        tracks.part(0, Part::Restart);
        tracks.part(0, Part::Batch(batch));
        let program =
            Known { threads: true, address_space: AddressSpace::Virtual, ..Known::default() };
        tracks.part(1, Part::Known(&program));
        let plain = Batch::new(&[0; 2], &[false; 2]);
        for thread in [5, 6, 5] {
            tracks.part(1, Part::Batch(plain.with_thread(thread)));
        }
        let track_counts: Vec<_> = tracks.tracks.values().map(counts).collect();
        let of_card = vec![(3, 1), (7, 1), (11, 1), (15, 1)];
        let threads = [vec![(0, 1), (1, 1), (4, 1), (5, 1)], vec![(2, 1), (3, 1)]];
        assert_eq!(track_counts, [&[of_card][..], &threads].concat());
    }

    #[test]
    fn tracks_are_limited_and_lose_no_access() {
        let mut tracks = Tracks::new(By::Thread, 4 * MOST_TRACKS);
        tracks.part(0, Part::Known(&Known { threads: true, ..Known::default() }));
        let threads = MOST_TRACKS as u32 + 100;
        for thread in 0..threads {
            let batch = Batch::new(&[0; 3], &[false; 3]).with_thread(thread);
            tracks.part(0, Part::Batch(batch));
        }
        assert_eq!(tracks.tracks.len(), MOST_TRACKS + 1);
        let total = tracks.tracks.values().flat_map(counts).map(|(_, count)| count).sum::<u64>();
        assert_eq!(total, 3 * u64::from(threads));
        assert_eq!(
            counts(&tracks.tracks[&(0, None, None)]).iter().map(|count| count.1).sum::<u64>(),
            300
        );
    }
}
