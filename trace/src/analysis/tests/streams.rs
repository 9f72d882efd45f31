//! Streams, compared with a plain account of each instruction, and with streams that are known.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::accesses;
use crate::analysis::streams::Streams;
use crate::analysis::{Analysis, Batch};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn strides_of_instructions_are_those_of_their_addresses(all in accesses(1500)) {
        let mut streams = Streams::new(usize::MAX);
        streams.add(&all.batch(0..all.len()));
        let found = streams.result();
        let mut by_instruction: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (instruction, address) in all.instructions.iter().zip(&all.addresses) {
            by_instruction.entry(*instruction).or_default().push(*address as i64);
        }
        let (mut strides, mut lengths, mut repeated) = (BTreeMap::new(), Vec::new(), 0);
        for addresses in by_instruction.values() {
            let all: Vec<i64> = addresses.windows(2).map(|pair| pair[1] - pair[0]).collect();
            repeated += all.iter().filter(|stride| **stride == 0).count() as u64;
            for run in all.chunk_by(|one, other| one == other) {
                if run[0] != 0 && run.len() > 1 {
                    *strides.entry(run[0]).or_insert(0) += run.len() as u64 - 1;
                    lengths.push(run.len() as u64 + 1);
                }
            }
        }
        prop_assert!(found.by_instruction);
        let of_strides: BTreeMap<i64, u64> =
            found.strides.iter().map(|one| (one.stride_bytes, one.accesses)).collect();
        prop_assert_eq!(&of_strides, &strides);
        prop_assert_eq!(found.stream_accesses, strides.values().sum::<u64>());
        prop_assert_eq!(found.repeated_accesses, repeated);
        for one in &found.stream_lengths {
            let inside = lengths.iter().filter(|length| (one.at_least..=one.at_most).contains(length));
            prop_assert_eq!(one.streams, inside.count() as u64);
        }
        prop_assert_eq!(found.stream_lengths.iter().map(|one| one.streams).sum::<u64>(), lengths.len() as u64);
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
    let found = streams.result();
    assert!(!found.by_instruction);
    assert_eq!((found.stream_accesses, found.repeated_accesses), (3 * 998, 0));
    let strides: Vec<_> =
        found.strides.iter().map(|one| (one.stride_bytes, one.accesses)).collect();
    assert_eq!(strides, [(-64, 998), (64, 998), (128, 998)]);
    let lengths: Vec<_> =
        found.stream_lengths.iter().map(|one| (one.at_most, one.streams)).collect();
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
    let of = |addresses: &[u64]| {
        let mut streams = Streams::new(5);
        streams.add(&Batch::new(addresses, &vec![false; addresses.len()]));
        streams
    };
    let mut joined = of(&addresses[..500]);
    joined.append(of(&addresses[500..]));
    assert_eq!(joined.result().stream_accesses, 996);
    let mut merged = of(&addresses);
    merged.merge(of(&addresses));
    let found = merged.result();
    assert_eq!((found.accesses, found.stream_accesses), (2000, 2 * 998));
}
