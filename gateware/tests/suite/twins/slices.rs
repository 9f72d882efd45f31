//! Tests slices: counts, clocks and words; and the timekeeper, whose clock they state.

use gateware::statistics::frequency::Frequency;
use gateware::statistics::slice_words::SliceWords;
use gateware::statistics::timekeeper::Timekeeper;
use gateware::statistics::{SliceCounts, SlotClock};
use hmtt_format::record::{Word, WordRecord};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};

fn slot_clock(clock: u64) -> SlotClock {
    SlotClock { low: (clock & 0xff_ffff).into(), high: (clock >> 24 & 0xff_ffff).into() }
}

fn clock_of(clock: SlotClock) -> u64 {
    clock.high.to_u64() << 24 | clock.low.to_u64()
}

#[test]
fn the_timekeeper_adds_up_the_clocks_that_pass() {
    with_seeds(0..10, |rng| {
        let (mut keeper, mut clock) = (settled(Timekeeper::default()), 0u64);
        for _ in 0..2000 {
            let width = [16, 25][rng.usize(0..2)];
            let (gap, passes) = (spread(rng, width), chance(rng, 70));
            keeper.gap.next = gap.into();
            keeper.passes.next = passes;
            keeper.set.next = chance(rng, 2);
            if keeper.set.next {
                clock = spread(rng, 48);
                keeper.set_to.next = slot_clock(clock);
            } else if passes {
                clock = clock + gap & (1 << 48) - 1;
            }
            pulse(&mut keeper, |keeper| &mut keeper.clock);
            if chance(rng, 20) {
                (keeper.passes.next, keeper.set.next) = (false, false);
                pulse(&mut keeper, |keeper| &mut keeper.clock);
                assert_eq!(clock_of(keeper.now.val()), clock);
            }
        }
    });
}

/// Decodes the words of a slice.
fn read(frequency: &Frequency, words: &mut SliceWords, code: u64) -> WordRecord {
    words.code.next = code.into();
    words.counts.next = frequency.counts.val();
    let read: Vec<u64> = (0..3u64)
        .map(|index| {
            words.index.next = index.into();
            settle(words);
            words.high.val().to_u64() << 32 | words.low.val().to_u64()
        })
        .collect();
    let mut rest = read[1..].iter().copied();
    match Word::decode(read[0], || rest.next()) {
        Ok(Word::Record(record)) => record,
        other => panic!("a slice became {other:?}"),
    }
}

#[test]
fn slices_contain_the_counts_of_what_passed() {
    with_seeds(0..6, |rng| {
        let mut frequency = settled(Frequency::default());
        let mut words = settled(SliceWords::default());
        let (whole, code) = (rng.u64(50..500), rng.u64(0..19));
        frequency.slice_last.next = (whole - 1).into();
        let (mut clock, mut first, mut counts) = (spread(rng, 47), 0, [0u32; 2]);
        frequency.restart.next = true;
        frequency.now.next = slot_clock(clock);
        for _ in 0..3000 {
            if frequency.restart.next {
                (first, counts) = (clock, [0; 2]);
                pulse(&mut frequency, |frequency| &mut frequency.clock);
                frequency.restart.next = false;
            }
            let (access, write, gap) = (rng.bool(), rng.bool(), spread(rng, 5));
            frequency.offer.next = access;
            frequency.write.next = write;
            frequency.passes.next = true;
            frequency.gap.next = gap.into();
            clock += gap;
            counts[usize::from(write)] += u32::from(access);
            pulse(&mut frequency, |frequency| &mut frequency.clock);
            let ends = clock - first >= whole || chance(rng, 1);
            (frequency.offer.next, frequency.passes.next) = (false, false);
            if ends {
                (0..2).for_each(|_| pulse(&mut frequency, |frequency| &mut frequency.clock));
                assert_eq!(frequency.counted.val(), counts != [0; 2]);
                assert_eq!(frequency.accesses.val().to_u64() as u32, counts[0] + counts[1]);
                let length = clock - first;
                let expected = WordRecord::Slice {
                    code: code as u8,
                    partial: (length != whole).then_some(length as u32),
                    start: first,
                    reads: counts[0],
                    writes: counts[1],
                };
                assert_eq!(read(&frequency, &mut words, code), expected);
                frequency.restart.next = true;
                frequency.now.next = slot_clock(clock);
            }
        }
    });
}

#[test]
fn every_bit_of_a_slice_is_encoded() {
    let mut words = settled(SliceWords::default());
    let mut check = |code: u64, start: u64, [reads, writes]: [u64; 2], partial: Option<u64>| {
        words.code.next = code.into();
        words.counts.next = SliceCounts {
            partial: partial.is_some(),
            first: slot_clock(start),
            reads: reads.into(),
            writes: writes.into(),
            length: partial.unwrap_or(5).into(),
        };
        let mut index = 0u64;
        let mut next = || {
            words.index.next = index.into();
            settle(&mut words);
            index += 1;
            Some(words.high.val().to_u64() << 32 | words.low.val().to_u64())
        };
        let first = next().expect("a word");
        let (reads, writes, partial) =
            (reads as u32, writes as u32, partial.map(|length| length as u32));
        let expected = WordRecord::Slice { code: code as u8, partial, start, reads, writes };
        assert_eq!(Word::decode(first, next), Ok(Word::Record(expected)));
    };
    (0..19).for_each(|code| check(code, 1, [1, 2], Some(3)));
    for bit in 0..48 {
        check(9, 1 << bit, [1, 2], None);
    }
    for bit in 0..32 {
        check(9, 4, [1 << bit, !(1u64 << bit) & 0xffff_ffff], Some(1 << bit));
    }
}
