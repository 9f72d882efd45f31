//! Compares reuse distances with a list of lines, and miss-ratio curves with simulated caches.

use proptest::prelude::*;

use super::{Accesses, accesses};
use crate::analysis::bounded::Bounded;
use crate::analysis::mrc::{Curve, Mrc};
use crate::analysis::reuse::{Reuse, Reuses};
use crate::analysis::shards::Shards;
use crate::analysis::{Analysis, Batch};

/// The distance of each touch, by a list of lines; `None` for the first touch of a line.
fn distances(units: &[u64]) -> Vec<Option<u64>> {
    let mut list: Vec<u64> = Vec::new();
    let mut distances = Vec::new();
    for unit in units {
        let position = list.iter().rposition(|other| other == unit);
        distances.push(position.map(|at| (list.len() - 1 - at) as u64));
        position.map(|at| list.remove(at));
        list.push(*unit);
    }
    distances
}

/// Checks buckets against distances, one by one.
fn assert_buckets(reuses: &Reuses, expected: &[Option<u64>]) {
    let first = expected.iter().filter(|distance| distance.is_none()).count();
    assert_eq!((reuses.touches, reuses.first_touches), (expected.len() as u64, first as f64));
    let (mut sum, mut next) = (0.0, 0);
    for bucket in &reuses.distances {
        assert_eq!(bucket.distance_at_least, next);
        next = bucket.distance_at_most + 1;
        let range = bucket.distance_at_least..=bucket.distance_at_most;
        let inside = expected.iter().flatten().filter(|distance| range.contains(distance));
        assert_eq!(bucket.touches, inside.count() as f64, "{range:?}");
        sum += bucket.touches;
    }
    assert_eq!(sum + reuses.first_touches, reuses.touches as f64);
}

/// Misses of a fully associative LRU cache.
fn misses(units: &[u64], lines: u64) -> u64 {
    let mut cache: Vec<u64> = Vec::new();
    let mut misses = 0;
    for unit in units {
        match cache.iter().position(|other| other == unit) {
            Some(at) => drop(cache.remove(at)),
            None => misses += 1,
        }
        cache.push(*unit);
        if cache.len() as u64 > lines {
            cache.remove(0);
        }
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn distances_of_lines_and_pages_are_those_of_a_list(accesses in accesses(1500)) {
        for log2 in [6, 12] {
            let mut reuse = Reuse::new(log2);
            reuse.add(&accesses.batch(0..accesses.len()));
            assert_buckets(&reuse.result(), &distances(&accesses.units(log2)));
        }
    }

    #[test]
    fn joined_pieces_have_the_distances_of_the_whole(
        accesses in accesses(1500),
        cuts in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let mut cuts = [cuts.0, cuts.1].map(|cut| (cut * accesses.len() as f64) as usize);
        cuts.sort_unstable();
        let piece = |rows| {
            let mut reuse = Reuse::lines();
            reuse.add(&accesses.batch(rows));
            // A piece may come from another machine.
            let text = serde_json::to_string(&reuse).unwrap();
            serde_json::from_str::<Reuse>(&text).unwrap()
        };
        let pieces = [piece(0..cuts[0]), piece(cuts[0]..cuts[1]), piece(cuts[1]..accesses.len())];
        let [mut first, second, third] = pieces.clone();
        first.append(second);
        first.append(third);
        assert_buckets(&first.result(), &distances(&accesses.units(6)));
        // The pieces are joined in another order, and accesses follow them.
        let [mut first, mut second, third] = pieces;
        second.append(third);
        first.append(second);
        first.add(&accesses.batch(0..accesses.len()));
        let twice = [accesses.units(6), accesses.units(6)].concat();
        assert_buckets(&first.result(), &distances(&twice));
    }

    #[test]
    fn merged_memories_have_the_sums_of_both(first in accesses(800), second in accesses(800)) {
        let reuse = |accesses: &Accesses| {
            let mut reuse = Reuse::lines();
            reuse.add(&accesses.batch(0..accesses.len()));
            reuse
        };
        let mut both = reuse(&first);
        both.merge(reuse(&second));
        let expected = [distances(&first.units(6)), distances(&second.units(6))].concat();
        assert_buckets(&both.result(), &expected);
    }

    #[test]
    fn the_curve_is_that_of_simulated_caches(accesses in accesses(800)) {
        let mut mrc = Mrc::Exact(Reuse::lines());
        mrc.add(&accesses.batch(0..accesses.len()));
        let (curve, units) = (mrc.result(), accesses.units(6));
        for point in &curve.points {
            let expected = misses(&units, point.lines) as f64 / units.len() as f64;
            prop_assert!((point.miss_ratio - expected).abs() < 1e-9, "{:?}", point);
            prop_assert_eq!(point.cache_bytes, point.lines * 64);
        }
        if let Some(last) = curve.points.last() {
            // A larger cache does not help.
            prop_assert_eq!(misses(&units, last.lines), misses(&units, 1 << 40));
        }
    }

    #[test]
    fn a_sample_of_all_lines_is_exact(accesses in accesses(800)) {
        let (mut exact, mut sampled) = (Reuse::lines(), Shards::lines(1.0));
        for batch in [accesses.batch(0..accesses.len()), accesses.plain()] {
            exact.add(&batch);
            sampled.add(&batch);
            prop_assert_eq!(exact.result(), sampled.result());
        }
    }

    #[test]
    fn bounded_distances_are_exact_up_to_the_bound(accesses in accesses(800), cut in 0.0..1.0f64) {
        let cut = (cut * accesses.len() as f64) as usize;
        let expected = distances(&accesses.units(6));
        let piece = |rows| {
            let mut bounded = Bounded::lines(accesses.units(6).len());
            bounded.add(&accesses.batch(rows));
            bounded
        };
        let mut joined = piece(0..cut);
        joined.append(piece(cut..accesses.len()));
        for bounded in [piece(0..accesses.len()), joined] {
            let text = serde_json::to_string(&bounded).unwrap();
            assert_buckets(&serde_json::from_str::<Bounded>(&text).unwrap().result(), &expected);
        }
    }

    #[test]
    fn bounded_distances_count_all_touches(accesses in accesses(800), most in 1usize..100) {
        let mut both = Bounded::lines(most);
        both.add(&accesses.batch(0..accesses.len()));
        both.append(both.clone());
        both.merge(both.clone());
        let (reuses, touches) = (both.result(), 4 * accesses.units(6).len());
        let sum = reuses.distances.iter().map(|bucket| bucket.touches).sum::<f64>();
        prop_assert_eq!(reuses.touches, touches as u64);
        prop_assert!((sum + reuses.first_touches - touches as f64).abs() <= 1e-6 * touches as f64);
    }

    #[test]
    fn joined_samples_are_the_sample_of_the_whole(accesses in accesses(1500), cut in 0.0..1.0f64) {
        let cut = (cut * accesses.len() as f64) as usize;
        let piece = |rows| {
            let mut shards = Shards::lines(0.3);
            shards.add(&accesses.batch(rows));
            shards
        };
        let mut joined = piece(0..cut);
        joined.append(piece(cut..accesses.len()));
        prop_assert_eq!(joined.result(), piece(0..accesses.len()).result());
    }
}

/// The next random number, by xorshift (Marsaglia 2003).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// 4 million accesses: a loop, two scans, and a skewed choice among 2^21 lines. No line has a large
/// part of all accesses; otherwise the error would depend on whether such a line is sampled.
fn mixed() -> Vec<u64> {
    let (mut state, mut scan) = (0x1234_5678_9abc_def1, 0u64);
    let lines = (0..4_000_000u64).map(|at| match random(&mut state) % 8 {
        0 | 1 => at % (1 << 19),
        2 => (1 << 21) + at / 8 % (1 << 17),
        3 => {
            scan += 1;
            (1 << 24) + scan
        }
        _ => {
            // The product of two random numbers: lower lines are more frequent.
            let parts = [0; 2].map(|_| (random(&mut state) >> 11) as f64 / (1u64 << 53) as f64);
            (1 << 26) + (parts.iter().product::<f64>() * f64::from(1 << 21)) as u64
        }
    });
    lines.map(|line| line << 6).collect()
}

/// Checks that an estimated curve differs by less than 0.01 from the exact one, for caches of at
/// least `from` lines.
fn check_curve(exact: &Curve, estimated: &Curve, from: u64) {
    for point in exact.points.iter().filter(|point| point.lines >= from) {
        let estimate = estimated.at(point.lines).unwrap();
        println!("{:>9} lines: {:.4}, estimated {estimate:.4}", point.lines, point.miss_ratio);
        assert!((estimate - point.miss_ratio).abs() < 0.01, "{point:?} {estimate}");
    }
}

#[test]
fn the_curve_of_a_sample_of_one_percent_differs_by_less_than_one_percent() {
    let addresses = mixed();
    let writes = vec![false; addresses.len()];
    let batch = Batch::new(&addresses, &writes);
    let (mut exact, mut sampled) = (Reuse::lines(), Shards::lines(0.01));
    exact.add(&batch);
    sampled.add(&batch);
    let (exact, sampled) = (Curve::new(&exact.result()), Curve::new(&sampled.result()));
    assert_eq!(sampled.points.first().map(|point| point.lines), Some(128));
    assert!(exact.points.len() > 15, "{exact:?}");
    check_curve(&exact, &sampled, 128);
    // A wrong distance would be seen: the curve is not flat.
    assert!(exact.at(128).unwrap() - exact.at(1 << 20).unwrap() > 0.3);
}

#[test]
fn the_curve_of_a_bounded_number_of_lines_differs_by_less_than_one_percent() {
    let addresses = mixed();
    let writes = vec![false; addresses.len()];
    let batch = Batch::new(&addresses, &writes);
    let (mut exact, mut bounded) = (Reuse::lines(), Bounded::lines(50_000));
    exact.add(&batch);
    bounded.add(&batch);
    assert!((1.0 / 256.0..1.0 / 8.0).contains(&bounded.result().sampling_rate));
    let (exact, bounded) = (Curve::new(&exact.result()), Curve::new(&bounded.result()));
    check_curve(&exact, &bounded, 256);
}
