//! Keeps the open streams of lines, for accesses without instructions, and finds the stream that a
//! line continues.
//!
//! Each access is compared with all streams. So the compared lines are in separate arrays, and are
//! compared without branches in between: a random order of lines costs no wrong predictions.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{NEAR_LINES, OPEN_STREAMS, Stream};

/// A line that is far from the lines of all accesses, because lines are addresses without their
/// lowest bits.
const NO_LINE: u64 = 1 << 63;
/// The nibbles 0 to 15, from the lowest one on.
const ASCENDING: u64 = 0xfedc_ba98_7654_3210;
const EACH_NIBBLE: u64 = 0x1111_1111_1111_1111;

/// Number of places whose next lines are compared at once.
const COMPARED: usize = 4;

// Places of streams are nibbles.
const _: () = assert!(OPEN_STREAMS == 16);

/// The table of open streams. Each stream keeps its place until another stream replaces it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "[Stream; OPEN_STREAMS]", into = "[Stream; OPEN_STREAMS]")]
pub(super) struct Open {
    streams: [Stream; OPEN_STREAMS],
    /// The last line of each stream; [`NO_LINE`] without accesses.
    last: [u64; OPEN_STREAMS],
    /// The last line plus the stride of each stream; [`NO_LINE`] without a stride.
    next: [u64; OPEN_STREAMS],
    /// Places of the streams, one nibble each, ordered by their last use: the lowest nibble is the
    /// stream that was used longest ago. Streams that were not used yet are ordered by place.
    order: u64,
}

impl Default for Open {
    fn default() -> Self {
        Open::from([Stream::default(); OPEN_STREAMS])
    }
}

impl From<[Stream; OPEN_STREAMS]> for Open {
    fn from(streams: [Stream; OPEN_STREAMS]) -> Self {
        let none = [NO_LINE; OPEN_STREAMS];
        let mut open = Open { streams, last: none, next: none, order: ASCENDING };
        (0..OPEN_STREAMS).for_each(|at| open.compare_with(at));
        let mut places: [usize; OPEN_STREAMS] = std::array::from_fn(|at| at);
        places.sort_by_key(|at| streams[*at].used);
        places.iter().for_each(|at| open.use_now(*at));
        open
    }
}

impl From<Open> for [Stream; OPEN_STREAMS] {
    fn from(open: Open) -> Self {
        open.streams
    }
}

impl Open {
    /// The streams, in the order of the table.
    pub fn streams(&self) -> &[Stream; OPEN_STREAMS] {
        &self.streams
    }

    /// The place of the stream that a line continues: the stream that has this line as its next
    /// line, or else the nearest stream within [`NEAR_LINES`] lines. Of several such streams, the
    /// first stream in the table is taken. `None` if there is no such stream.
    #[inline]
    pub fn continued(&self, line: u64) -> Option<usize> {
        // Scans are mostly in the first places, so a few places are compared at a time.
        for first in (0..OPEN_STREAMS).step_by(COMPARED) {
            let next = places(first..first + COMPARED, |at| self.next[at] == line);
            if next != 0 {
                return Some(next.trailing_zeros() as usize);
            }
        }
        // Adding NEAR_LINES maps the distances -NEAR_LINES to NEAR_LINES to 0 to 2 * NEAR_LINES.
        let near = |at: usize| self.last[at].wrapping_sub(line).wrapping_add(NEAR_LINES);
        let mut left = places(0..OPEN_STREAMS, |at| near(at) <= 2 * NEAR_LINES);
        let mut nearest = None;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let distance = self.last[at].abs_diff(line);
            if nearest.is_none_or(|(_, least)| distance < least) {
                nearest = Some((at, distance));
            }
        }
        nearest.map(|(at, _)| at)
    }

    /// The place of the stream that was used longest ago.
    #[inline]
    fn oldest(&self) -> usize {
        self.order as usize % OPEN_STREAMS
    }

    /// Empties the place of the stream that was used longest ago. Returns the place, which has to
    /// be [changed](Self::change) next, and the stream.
    #[inline]
    pub fn take_oldest(&mut self) -> (usize, Stream) {
        let at = self.oldest();
        (at, std::mem::take(&mut self.streams[at]))
    }

    /// Changes a stream, which becomes the last used one. `used`: number of lines that were looked
    /// up so far.
    #[inline]
    pub fn change(&mut self, at: usize, used: u64, change: impl FnOnce(&mut Stream)) {
        let stream = &mut self.streams[at];
        change(stream);
        stream.used = used;
        self.compare_with(at);
        self.use_now(at);
    }

    /// Sets the lines with which accesses are compared, from the stream at this place.
    #[inline]
    fn compare_with(&mut self, at: usize) {
        let Stream { last, stride, accesses, .. } = self.streams[at];
        self.last[at] = if accesses > 0 { last } else { NO_LINE };
        self.next[at] = if accesses > 1 { last.wrapping_add(stride as u64) } else { NO_LINE };
    }

    /// Makes a stream the one that was used last.
    #[inline]
    fn use_now(&mut self, at: usize) {
        // The nibble that equals `at` becomes 0. The search for a nibble of 0 is exact for the
        // lowest nibble of 0.
        let other = self.order ^ (EACH_NIBBLE * at as u64);
        let zero = other.wrapping_sub(EACH_NIBBLE) & !other & (EACH_NIBBLE << 3);
        let older = (1 << (zero.trailing_zeros() & !3)) - 1;
        self.order =
            self.order & older | self.order >> 4 & !older & u64::MAX >> 4 | (at as u64) << 60;
    }
}

/// A bit mask of the places for which `is_so` is true.
#[inline]
fn places(places: Range<usize>, is_so: impl Fn(usize) -> bool) -> u32 {
    places.fold(0, |bits, at| bits | u32::from(is_so(at)) << at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The place of the stream that a line continues or replaces, stream by stream.
    fn plain(streams: &[Stream], line: u64) -> (Option<usize>, usize) {
        let next = |stream: &Stream| {
            stream.accesses >= 2
                && i128::from(stream.last) + i128::from(stream.stride) == i128::from(line)
        };
        let near = streams.iter().enumerate().filter(|(_, stream)| stream.accesses > 0);
        let near = near.map(|(at, stream)| (stream.last.abs_diff(line), at)).min();
        let near = near.filter(|(distance, _)| *distance <= NEAR_LINES).map(|(_, at)| at);
        let oldest =
            streams.iter().enumerate().min_by_key(|(at, stream)| (stream.used, *at)).unwrap().0;
        (streams.iter().position(next).or(near), oldest)
    }

    proptest! {
        #[test]
        fn places_are_those_of_a_plain_search(
            steps in prop::collection::vec(
                (any::<bool>(), prop_oneof![0..200u64, 0..1u64 << 58], -9..9i64, 0..4u64, -80..80i64),
                0..200,
            ),
        ) {
            let mut open = Open::default();
            for (used, (from_last, far, stride, accesses, distance)) in (1..).zip(steps) {
                let last = open.streams[far as usize % OPEN_STREAMS].last;
                let line = if from_last { last.saturating_add_signed(distance) } else { far };
                let (continued, oldest) = plain(&open.streams, line);
                prop_assert_eq!((open.continued(line), open.oldest()), (continued, oldest));
                open.change(continued.unwrap_or(oldest), used, |stream| {
                    (stream.last, stream.stride, stream.accesses) = (line, stride, accesses);
                });
                let read = Open::from(<[Stream; OPEN_STREAMS]>::from(open.clone()));
                prop_assert_eq!((read.last, read.next, read.order), (open.last, open.next, open.order));
            }
        }
    }
}
