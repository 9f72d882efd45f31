//! Finds the marks that two cards both recorded, and pairs their times.
//!
//! A mark has a register number that software has chosen. The number is not unique, so marks are
//! also matched by time. First, the offset between the two clocks is found on which most pairs of
//! marks agree. Then each mark is expected at the offset of the pair before it, so the clocks may
//! drift apart without limit.
//!
//! ```text
//! marks of one card      0x60 at 1000   0x61 at 2000   0x60 at 5000
//! marks of the other     0x60 at  400   0x61 at 1401   0x60 at 4402
//! offsets                600            599            598
//! ```

/// A mark that a card recorded: number of the register, and extended clock of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub register: u32,
    pub clock: u64,
}

/// Number of marks of each card among which the first offset is searched.
const FIRST_MARKS: usize = 256;
/// Largest difference between the time of a mark and its expected time, without drift, in
/// nanoseconds.
const TOLERANCE: f64 = 20_000.0;
/// Largest relative difference between the rates of two clocks: two oscillators with an error of
/// 100 ppm each.
pub(super) const MAX_DRIFT: f64 = 200e-6;

/// A mark: number of the register, and time by its card's clock, in nanoseconds.
pub(crate) type TimedMark = (u32, f64);

/// The marks of one card, indexed by time and by register, so that the marks of another card can be
/// looked up.
pub(crate) struct MarkIndex {
    /// All marks, in ascending order of time.
    marks: Vec<TimedMark>,
    /// Indices into `marks`, ordered by register, then by time.
    by_register: Vec<u32>,
}

impl MarkIndex {
    /// Indexes marks that are in any order.
    pub fn new(mut marks: Vec<TimedMark>) -> Self {
        marks.sort_by(|first, second| first.1.total_cmp(&second.1));
        // An index fits into 32 bits: a mark takes 24 bytes, so 2^32 marks do not fit into memory.
        let mut by_register: Vec<u32> = (0..marks.len() as u32).collect();
        by_register.sort_by_key(|place| (marks[*place as usize].0, *place));
        MarkIndex { marks, by_register }
    }

    /// Indices of the marks with a register number, ascending.
    fn of(&self, register: u32) -> &[u32] {
        let register_at = |place: &u32| self.marks[*place as usize].0;
        let from = self.by_register.partition_point(|place| register_at(place) < register);
        let same = &self.by_register[from..];
        &same[..same.partition_point(|place| register_at(place) == register)]
    }

    /// Index of the mark with this register number whose time is nearest to `expected`. Only marks
    /// from index `from` on and within `tolerance` are considered. Of several marks at the same
    /// distance, the first one is returned. Times are in nanoseconds.
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
            .min_by(|first, second| distance(first).total_cmp(&distance(second)))
            .map(|place| place as usize)
    }
}

/// The offset between two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    /// Nanoseconds to add to the times of the second clock.
    nanos: f64,
    /// Number of pairs among the first marks that agree on the offset.
    pub agreeing: usize,
}

/// The offset to add to the times of `other`: the offset on which most pairs among the first marks
/// agree. `None` if there are no pairs, or if equally many pairs agree on a different offset.
pub(crate) fn first_offset(reference: &MarkIndex, other: &[TimedMark]) -> Option<Offset> {
    let reference = &reference.marks[..reference.marks.len().min(FIRST_MARKS)];
    let other = &other[..other.len().min(FIRST_MARKS)];
    let span = |marks: &[TimedMark]| Some(marks.last()?.1 - marks.first()?.1);
    let width = TOLERANCE + MAX_DRIFT * span(reference)?.max(span(other)?);
    let mut offsets: Vec<f64> = reference
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
    // If two offsets have the same number of pairs, neither can be preferred.
    (best.0 != 0 && !rivals).then_some(Offset { nanos: best.1, agreeing: best.0 })
}

/// Pairs the marks that both cards recorded: their times by the clock of `reference` and by the
/// clock of `other`, in nanoseconds, ascending.
pub(crate) fn pair(reference: &MarkIndex, other: &[TimedMark]) -> Vec<(f64, f64)> {
    first_offset(reference, other).map_or(Vec::new(), |offset| follow(reference, other, offset))
}

/// Pairs mark by mark. Each mark is expected at the offset of the pair before it. The work for each
/// mark of `other` is logarithmic in the number of marks of `reference`, even if many of them are
/// near each other.
pub(crate) fn follow(
    reference: &MarkIndex,
    other: &[TimedMark],
    offset: Offset,
) -> Vec<(f64, f64)> {
    let mut offset = offset.nanos;
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut from = 0;
    let begin = other.first().map_or(0.0, |mark| mark.1);
    for &(register, moment) in other {
        let since = moment - pairs.last().map_or(begin, |(_, last)| *last);
        let tolerance = TOLERANCE + MAX_DRIFT * since.abs();
        let expected = moment + offset;
        let rest = &reference.marks[from..];
        from += rest.partition_point(|mark| mark.1 < expected - tolerance);
        if let Some(at) = reference.nearest(register, from, expected, tolerance) {
            let twin = reference.marks[at].1;
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

    /// Marks of one register. Their distances are about a millisecond, and do not repeat.
    fn marks(count: u64) -> Vec<TimedMark> {
        (0..count).map(|n| (0x105, (n * 1_000_000 + n * n * 977 % 800_000) as f64)).collect()
    }

    #[test]
    fn marks_are_found_in_each_other_though_clocks_drift_and_marks_get_lost() {
        let reference = marks(20_000);
        let drift = |moment: f64| moment * 1.000_09 - 5e9;
        let other: Vec<TimedMark> = reference
            .iter()
            .enumerate()
            .filter(|(n, _)| n % 7 != 3 && *n >= 40)
            .map(|(_, mark)| (mark.0, drift(mark.1)))
            .collect();
        let kept: Vec<TimedMark> = reference
            .iter()
            .copied()
            .enumerate()
            .filter(|(n, _)| n % 11 != 5)
            .map(|(_, m)| m)
            .collect();
        let pairs = pair(&MarkIndex::new(kept), &other);
        assert!(pairs.len() > 15_000, "{}", pairs.len());
        assert!(pairs.iter().all(|(a, b)| (drift(*a) - b).abs() < 1e-3));
    }

    #[test]
    fn marks_with_two_equally_good_offsets_are_not_paired() {
        let reference = MarkIndex::new(vec![(1, 0.0), (1, 1e9)]);
        assert!(pair(&reference, &[(1, 5e8)]).is_empty());
        assert!(pair(&reference, &[(2, 5e8)]).is_empty());
        assert_eq!(pair(&MarkIndex::new(vec![(1, 0.0)]), &[(1, 5e8)]), [(0.0, 5e8)]);
    }

    /// Finds the nearest mark by a comparison with every mark.
    fn nearest_plainly(
        marks: &[TimedMark],
        register: u32,
        from: usize,
        expected: f64,
    ) -> Option<usize> {
        let distance = |mark: &TimedMark| (mark.1 - expected).abs();
        let near = marks.iter().enumerate().skip(from);
        let near = near.filter(|(_, mark)| mark.0 == register && distance(mark) <= TOLERANCE);
        near.min_by(|first, second| distance(first.1).total_cmp(&distance(second.1)))
            .map(|(at, _)| at)
    }

    proptest! {
        #[test]
        fn the_nearest_mark_is_the_one_that_a_linear_search_finds(
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
