//! Compares the streams that are found with the strides of each instruction, and with streams that
//! are known.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::accesses;
use crate::analysis::streams::Streams;
use crate::analysis::{Analysis, Batch};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn strides_of_instructions_are_those_of_their_addresses(accesses in accesses(1500)) {
        let mut streams = Streams::new(usize::MAX);
        streams.add(&accesses.batch(0..accesses.len()));
        let result = streams.result();
        let mut by_instruction: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (instruction, address) in accesses.instructions.iter().zip(&accesses.addresses) {
            by_instruction.entry(*instruction).or_default().push(*address as i64);
        }
        let (mut strides, mut lengths, mut repeated) = (BTreeMap::new(), Vec::new(), 0);
        for addresses in by_instruction.values() {
            let steps: Vec<i64> = addresses.windows(2).map(|pair| pair[1] - pair[0]).collect();
            repeated += steps.iter().filter(|stride| **stride == 0).count() as u64;
            for run in steps.chunk_by(|step, next| step == next) {
                if run[0] != 0 && run.len() > 1 {
                    *strides.entry(run[0]).or_insert(0) += run.len() as u64 - 1;
                    lengths.push(run.len() as u64 + 1);
                }
            }
        }
        prop_assert!(result.by_instruction);
        let of_strides: BTreeMap<i64, u64> =
            result.strides.iter().map(|stride| (stride.stride_bytes, stride.accesses)).collect();
        prop_assert_eq!(&of_strides, &strides);
        prop_assert_eq!(result.stream_accesses, strides.values().sum::<u64>());
        prop_assert_eq!(result.repeated_accesses, repeated);
        for bucket in &result.stream_lengths {
            let inside = lengths.iter().filter(|length| (bucket.at_least..=bucket.at_most).contains(length));
            prop_assert_eq!(bucket.streams, inside.count() as u64);
        }
        prop_assert_eq!(result.stream_lengths.iter().map(|bucket| bucket.streams).sum::<u64>(), lengths.len() as u64);
    }
}

#[test]
fn interleaved_streams_of_lines_are_told_apart() {
    // Three streams in turns, far from each other: one backwards, one with every second line.
    let addresses: Vec<u64> = (0..3000u64)
        .map(|at| match at % 3 {
            0 => (1 << 20) + at / 3 * 64,
            1 => (1 << 30) - at / 3 * 64,
            _ => (1 << 40) + at / 3 * 128,
        })
        .collect();
    let mut streams = Streams::new(5);
    streams.add(&Batch::new(&addresses, &vec![false; 3000]));
    let result = streams.result();
    assert!(!result.by_instruction);
    assert_eq!((result.stream_accesses, result.repeated_accesses), (3 * 998, 0));
    let strides: Vec<_> =
        result.strides.iter().map(|stride| (stride.stride_bytes, stride.accesses)).collect();
    assert_eq!(strides, [(-64, 998), (64, 998), (128, 998)]);
    let lengths: Vec<_> =
        result.stream_lengths.iter().map(|bucket| (bucket.at_most, bucket.streams)).collect();
    assert_eq!(lengths, [(1023, 3)]);
}

#[test]
fn random_lines_are_in_no_stream() {
    let mut state = 1u64;
    let addresses: Vec<u64> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 20 << 6
        })
        .collect();
    let mut streams = Streams::new(5);
    streams.add(&Batch::new(&addresses, &vec![false; 10_000]));
    assert_eq!(streams.result().stream_accesses, 0);
}

#[test]
fn pieces_lose_only_the_begins_of_streams() {
    let addresses: Vec<u64> = (0..1000u64).map(|at| at * 64).collect();
    let piece = |addresses: &[u64]| {
        let mut streams = Streams::new(5);
        streams.add(&Batch::new(addresses, &vec![false; addresses.len()]));
        streams
    };
    let mut joined = piece(&addresses[..500]);
    joined.append(piece(&addresses[500..]));
    assert_eq!(joined.result().stream_accesses, 996);
    let mut merged = piece(&addresses);
    merged.merge(piece(&addresses));
    let result = merged.result();
    assert_eq!((result.accesses, result.stream_accesses), (2000, 2 * 998));
}
