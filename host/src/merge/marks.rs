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
pub(crate) type Timed = (u32, f64);

/// Moments of the same mark: of the one card, of the other. Ascending.
pub(crate) fn pair(one: &[Timed], other: &[Timed]) -> Vec<(f64, f64)> {
    let Some(offset) = first_offset(one, other) else { return Vec::new() };
    follow(one, other, offset)
}

/// What to add to the other's moments, as most pairs among the first marks have it.
fn first_offset(one: &[Timed], other: &[Timed]) -> Option<f64> {
    let (one, other) = (&one[..one.len().min(FIRST_MARKS)], &other[..other.len().min(FIRST_MARKS)]);
    let span = |marks: &[Timed]| Some(marks.last()?.1 - marks.first()?.1);
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
    (best.0 != 0 && !rivals).then_some(best.1)
}

/// Pairs mark by mark, each expected where the one before was.
fn follow(one: &[Timed], other: &[Timed], mut offset: f64) -> Vec<(f64, f64)> {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut from = 0;
    let begin = other.first().map_or(0.0, |mark| mark.1);
    for &(register, moment) in other {
        let since = moment - pairs.last().map_or(begin, |(_, last)| *last);
        let tolerance = TOLERANCE + MAX_DRIFT * since.abs();
        let expected = moment + offset;
        while one.get(from).is_some_and(|mark| mark.1 < expected - tolerance) {
            from += 1;
        }
        let near = one[from..]
            .iter()
            .enumerate()
            .take_while(|(_, mark)| mark.1 <= expected + tolerance)
            .filter(|(_, mark)| mark.0 == register);
        let distance = |mark: &Timed| (mark.1 - expected).abs();
        let nearest = near.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        if let Some((at, twin)) = nearest {
            pairs.push((twin.1, moment));
            offset = twin.1 - moment;
            from += at + 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks of one register, a millisecond and something apart, that never repeats.
    fn marks(count: u64) -> Vec<Timed> {
        (0..count).map(|n| (0x105, (n * 1_000_000 + n * n * 977 % 800_000) as f64)).collect()
    }

    #[test]
    fn marks_are_found_in_each_other_though_clocks_drift_and_marks_get_lost() {
        let one = marks(20_000);
        let drift = |moment: f64| moment * 1.000_09 - 5e9;
        let other: Vec<Timed> = one
            .iter()
            .enumerate()
            .filter(|(n, _)| n % 7 != 3 && *n >= 40)
            .map(|(_, mark)| (mark.0, drift(mark.1)))
            .collect();
        let kept: Vec<Timed> =
            one.iter().copied().enumerate().filter(|(n, _)| n % 11 != 5).map(|(_, m)| m).collect();
        let pairs = pair(&kept, &other);
        assert!(pairs.len() > 15_000, "{}", pairs.len());
        assert!(pairs.iter().all(|(a, b)| (drift(*a) - b).abs() < 1e-3));
    }

    #[test]
    fn marks_that_fit_anywhere_fit_nowhere() {
        let one: Vec<Timed> = vec![(1, 0.0), (1, 1e9)];
        assert!(pair(&one, &[(1, 5e8)]).is_empty());
        assert!(pair(&one, &[(2, 5e8)]).is_empty());
        assert_eq!(pair(&one[..1], &[(1, 5e8)]), [(0.0, 5e8)]);
    }
}
