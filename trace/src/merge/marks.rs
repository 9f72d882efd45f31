//! The marks two cards saw to pairs of the same mark.
//!
//! A mark is a register number that software wrote: not unique. The same mark is found by time: first
//! the offset between the clocks that most pairs agree on, then mark by mark from there, so that
//! clocks may drift apart as far as they like.

/// A mark that a card saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub register: u32,
    pub clock: u64,
}

/// Marks of each card that the first offset is sought among.
const FIRST_MARKS: usize = 256;
/// How far the times of a mark may differ from what is expected, in nanoseconds.
const TOLERANCE: f64 = 20_000.0;
/// Most that two clocks run apart, as a share of time: two oscillators of 100 ppm.
pub(super) const MAX_DRIFT: f64 = 200e-6;

/// A mark and its moment, in nanoseconds of its card.
pub(crate) type TimedMark = (u32, f64);

/// The marks of a card by time, and by register: what other cards' marks are looked up in.
pub(crate) struct MarkIndex {
    /// Ascending.
    marks: Vec<TimedMark>,
    /// Places among the marks, by register, then ascending.
    by_register: Vec<u32>,
}

impl MarkIndex {
    /// Of marks in any order.
    pub fn new(mut marks: Vec<TimedMark>) -> Self {
        marks.sort_by(|one, other| one.1.total_cmp(&other.1));
        // A mark takes 24 bytes: 2^32 of them do not fit into the memory.
        let mut by_register: Vec<u32> = (0..marks.len() as u32).collect();
        by_register.sort_by_key(|place| (marks[*place as usize].0, *place));
        MarkIndex { marks, by_register }
    }

    /// Places of the marks of a register, ascending.
    fn of(&self, register: u32) -> &[u32] {
        let register_at = |place: &u32| self.marks[*place as usize].0;
        let from = self.by_register.partition_point(|place| register_at(place) < register);
        let same = &self.by_register[from..];
        &same[..same.partition_point(|place| register_at(place) == register)]
    }

    /// Place of the mark of a register that is nearest to a moment and within a tolerance of it, from a place
    /// on. Of several at one distance, the first.
    fn nearest(&self, register: u32, from: usize, expected: f64, tolerance: f64) -> Option<usize> {
        let same = self.of(register);
        let same = &same[same.partition_point(|place| (*place as usize) < from)..];
        let moment = |place: &u32| self.marks[*place as usize].1;
        let after = same.partition_point(|place| moment(place) < expected);
        let before = after.checked_sub(1).map(|last| {
            let last = moment(&same[last]);
            same[same.partition_point(|place| moment(place) < last)]
        });
        let distance = |place: &u32| (moment(place) - expected).abs();
        let candidates = before.into_iter().chain(same.get(after).copied());
        candidates
            .filter(|place| distance(place) <= tolerance)
            .min_by(|one, other| distance(one).total_cmp(&distance(other)))
            .map(|place| place as usize)
    }
}

/// What to add to the other's moments, and how many of the first marks have it so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    nanos: f64,
    /// Pairs that agree on it.
    pub agreeing: usize,
}

/// What to add to the other's moments, as most pairs among the first marks have it.
pub(crate) fn first_offset(one: &MarkIndex, other: &[TimedMark]) -> Option<Offset> {
    let one = &one.marks[..one.marks.len().min(FIRST_MARKS)];
    let other = &other[..other.len().min(FIRST_MARKS)];
    let span = |marks: &[TimedMark]| Some(marks.last()?.1 - marks.first()?.1);
    let width = TOLERANCE + MAX_DRIFT * span(one)?.max(span(other)?);
    let mut offsets: Vec<f64> = one
        .iter()
        .flat_map(|mark| {
            let same = other.iter().filter(|twin| twin.0 == mark.0);
            same.map(|twin| mark.1 - twin.1)
        })
        .collect();
    offsets.sort_by(f64::total_cmp);
    let (mut best, mut rivals, mut from) = ((0, 0.0), false, 0);
    for to in 0..offsets.len() {
        while offsets[to] - offsets[from] > width {
            from += 1;
        }
        let agree = to + 1 - from;
        let middle = offsets[from + agree / 2];
        if agree > best.0 {
            (best, rivals) = ((agree, middle), false);
        } else if agree == best.0 && (middle - best.1).abs() > width {
            rivals = true;
        }
    }
    // Two offsets with as many pairs each: nothing tells which is right.
    (best.0 != 0 && !rivals).then_some(Offset { nanos: best.1, agreeing: best.0 })
}

/// Moments of the same mark: of the one card, of the other. Ascending.
pub(crate) fn pair(one: &MarkIndex, other: &[TimedMark]) -> Vec<(f64, f64)> {
    first_offset(one, other).map_or(Vec::new(), |offset| follow(one, other, offset))
}

/// Pairs mark by mark, each expected where the one before was. Takes the logarithm of the one card's marks
/// for each mark of the other, however many are near each other.
pub(crate) fn follow(one: &MarkIndex, other: &[TimedMark], offset: Offset) -> Vec<(f64, f64)> {
    let mut offset = offset.nanos;
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut from = 0;
    let begin = other.first().map_or(0.0, |mark| mark.1);
    for &(register, moment) in other {
        let since = moment - pairs.last().map_or(begin, |(_, last)| *last);
        let tolerance = TOLERANCE + MAX_DRIFT * since.abs();
        let expected = moment + offset;
        let rest = &one.marks[from..];
        from += rest.partition_point(|mark| mark.1 < expected - tolerance);
        if let Some(at) = one.nearest(register, from, expected, tolerance) {
            let twin = one.marks[at].1;
            pairs.push((twin, moment));
            offset = twin - moment;
            from = at + 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marks of one register, a millisecond and something apart, that never repeats.
    fn marks(count: u64) -> Vec<TimedMark> {
        (0..count).map(|n| (0x105, (n * 1_000_000 + n * n * 977 % 800_000) as f64)).collect()
    }

    #[test]
    fn marks_are_found_in_each_other_though_clocks_drift_and_marks_get_lost() {
        let one = marks(20_000);
        let drift = |moment: f64| moment * 1.000_09 - 5e9;
        let other: Vec<TimedMark> = one
            .iter()
            .enumerate()
            .filter(|(n, _)| n % 7 != 3 && *n >= 40)
            .map(|(_, mark)| (mark.0, drift(mark.1)))
            .collect();
        let kept: Vec<TimedMark> =
            one.iter().copied().enumerate().filter(|(n, _)| n % 11 != 5).map(|(_, m)| m).collect();
        let pairs = pair(&MarkIndex::new(kept), &other);
        assert!(pairs.len() > 15_000, "{}", pairs.len());
        assert!(pairs.iter().all(|(a, b)| (drift(*a) - b).abs() < 1e-3));
    }

    #[test]
    fn marks_that_fit_anywhere_fit_nowhere() {
        let one = MarkIndex::new(vec![(1, 0.0), (1, 1e9)]);
        assert!(pair(&one, &[(1, 5e8)]).is_empty());
        assert!(pair(&one, &[(2, 5e8)]).is_empty());
        assert_eq!(pair(&MarkIndex::new(vec![(1, 0.0)]), &[(1, 5e8)]), [(0.0, 5e8)]);
    }

    /// Looks at every mark.
    fn nearest_plainly(
        marks: &[TimedMark],
        register: u32,
        from: usize,
        expected: f64,
    ) -> Option<usize> {
        let distance = |mark: &TimedMark| (mark.1 - expected).abs();
        let near = marks.iter().enumerate().skip(from);
        let near = near.filter(|(_, mark)| mark.0 == register && distance(mark) <= TOLERANCE);
        near.min_by(|one, other| distance(one.1).total_cmp(&distance(other.1))).map(|(at, _)| at)
    }

    proptest! {
        #[test]
        fn the_nearest_mark_is_the_one_that_looking_at_all_finds(
            marks in prop::collection::vec((0u32..3, 0u32..40), 0..60),
            register in 0u32..4,
            from in 0usize..60,
            expected in 0u32..40,
        ) {
            let marks: Vec<TimedMark> =
                marks.into_iter().map(|(register, at)| (register, f64::from(at) * 7e3)).collect();
            let index = MarkIndex::new(marks);
            let from = from.min(index.marks.len());
            let expected = f64::from(expected) * 7e3;
            let plain = nearest_plainly(&index.marks, register, from, expected);
            prop_assert_eq!(index.nearest(register, from, expected, TOLERANCE), plain);
        }
    }
}
