//! Tests that a sender without knowledge of a card changes no trace: it sends recorded frames of
//! another card with random bytes, at up to 600 frames for each frame of the card.

use hmtt::decode::{Counts, LinkCounts, decode_frames};
use hmtt_format::frame::Heartbeat;
use hmtt_test_support::random_frames::{Change, RandomFrames};

use crate::card::Card;
use crate::forged::{bare, read};

/// Frames of another card, of several lengths.
fn recorded() -> Vec<Vec<u8>> {
    let mut card = Card::new();
    let mut frames = vec![card.info()];
    let counts = [20, 300, 370, 9, 45];
    frames.extend((0..60).map(|at| card.data(counts[at % counts.len()]).0));
    frames.extend((0..3).map(|_| card.end()));
    frames
}

/// Decodes a card's frames beside changed ones, and returns what is wrong.
fn check(good: &[Vec<u8>], change: Change, rate: usize, seed: u64) -> Result<(), String> {
    let (wire, changed) = RandomFrames::new(recorded(), change, seed).mix(good, rate);
    let (items, counts) = read(&wire);
    let (alone, alone_counts) = decode_frames(good);
    let what = format!("{change:?}, {rate} for each frame, seed {seed}");
    let totals = (counts.cards.len(), counts.stray_frames, counts.foreign_frames);
    if totals != (1, changed, changed) {
        return Err(format!("{what}: {totals:?}, {changed} were sent: {}", summary(&counts)));
    }
    let result = bare(&items[0], &counts.cards[0].counts);
    let expected = bare(&alone, &alone_counts);
    if result != expected {
        let at = result.0.iter().zip(&expected.0).position(|(item, expected)| item != expected);
        eprintln!("{at:?} {:?} {:?}", at.map(|at| &result.0[at]), at.map(|at| &expected.0[at]));
        eprintln!("{:?}\n{:?}", result.1, expected.1);
        return Err(format!("{what}: another trace: {}", summary(&counts)));
    }
    Ok(())
}

fn summary(counts: &LinkCounts) -> String {
    let card = |counts: &Counts| {
        let Counts { frames, accesses, malformed_frames, order, .. } = counts;
        format!("{frames} frames, {accesses} accesses, {malformed_frames} malformed, {order:?}")
    };
    counts.cards.iter().map(|counted| card(&counted.counts)).collect::<Vec<_>>().join("; ")
}

fn assert_none(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

/// How many changed frames are sent for each frame of the card, with the seed.
const RATES: [(usize, u64); 5] = [(0, 1), (1, 1), (1, 2), (9, 3), (60, 4)];

/// The card was just switched on, so that its counters are those of the changed frames. Zeros are
/// the counts of a new card, and heartbeats have only a counter: they look like the card's own.
#[test]
fn random_payloads_beside_a_new_card_change_nothing() {
    let (good, _) = Card::new().session(200, 30);
    let known = [Change::Heartbeat, Change::ZeroWords];
    let unknown = Change::LONE.into_iter().filter(|change| !known.contains(change));
    let rates = |change| RATES.map(|(rate, seed)| (change, rate, seed));
    let more = (10..40).map(|seed| (Change::Payload, 3, seed));
    let flood = [(Change::Payload, 600, 1), (Change::Words, 600, 2)];
    let cases = unknown.flat_map(rates).chain(more).chain(flood);
    assert_none(cases.filter_map(|(change, rate, seed)| check(&good, change, rate, seed).err()));
}

/// The card has been on for a while, has lost frames and sends heartbeats and reports.
#[test]
fn random_payloads_beside_an_older_card_change_nothing() {
    let mut card = Card { counter: 9000, accesses: 1 << 21, clock: 1 << 33, ..Card::new() };
    let mut good = vec![card.info()];
    for at in 0..200u64 {
        match at {
            20 | 30 | 31 => card.counter += 1,
            50 => (card.counter, card.accesses) = (card.counter + 100, card.accesses + 2000),
            125 => card.lost += 700,
            130 => good.push(card.info()),
            140 | 141 => {
                let transmit_clocks = (1 << 30) + (at << 20);
                let beat = Heartbeat { running: true, losses: 0, transmit_clocks };
                good.push(card.heartbeat(beat));
            }
            _ => good.push(card.data(30).0),
        }
    }
    good.extend((0..3).map(|_| card.end()));
    let rates = |change| RATES.map(|(rate, seed)| (change, rate, seed));
    let flood = [(Change::Payload, 600, 1), (Change::Words, 600, 2)];
    let cases = Change::LONE.into_iter().flat_map(rates).chain(flood);
    assert_none(cases.filter_map(|(change, rate, seed)| check(&good, change, rate, seed).err()));
}

/// The counters after the restart are those of the changed frames.
#[test]
fn a_restart_beside_random_payloads_is_followed() {
    let mut old = Card { counter: 9000, accesses: 1 << 21, clock: 1 << 33, ..Card::new() };
    let good = [&old.session(100, 30).0[..90], &Card::new().session(150, 30).0].concat();
    let known = [Change::Heartbeat, Change::ZeroWords];
    let unknown = Change::LONE.into_iter().filter(|change| !known.contains(change));
    let rates = |change| RATES.map(|(rate, seed)| (change, rate, seed));
    let flood = [(Change::Payload, 600, 1), (Change::Words, 600, 2)];
    let cases = unknown.flat_map(rates).chain(flood);
    assert_none(cases.filter_map(|(change, rate, seed)| check(&good, change, rate, seed).err()));
}

/// An unreadable frame whose place a readable one takes is no frame of the card; one whose place
/// stays empty is.
#[test]
fn an_unreadable_frame_takes_only_the_place_of_a_frame_that_is_missing() {
    let (good, _) = Card::new().session(200, 30);
    let mut damaged = good.clone();
    damaged[50][14] ^= 0xf0;
    let (_, alone) = decode_frames(&damaged);
    let order = (alone.malformed_frames, alone.order.missing_frames, alone.lost_accesses);
    assert_eq!(order, (1, 0, 30));
    for distance in [1, 20, 45] {
        let mut wire = good.clone();
        wire.insert(50 - distance, damaged[50].clone());
        let (items, counts) = read(&wire);
        let (items_alone, alone) = decode_frames(&good);
        assert_eq!((counts.cards.len(), counts.stray_frames), (1, 1), "{distance}");
        let result = bare(&items[0], &counts.cards[0].counts);
        assert_eq!(result, bare(&items_alone, &alone), "{distance}");
    }
}

/// Recorded frames that still continue each other are another card's as long as the card goes on.
#[test]
fn recorded_frames_with_some_errors_change_nothing_of_a_card() {
    let (good, _) =
        Card { counter: 9000, accesses: 1 << 21, clock: 1 << 33, ..Card::new() }.session(400, 30);
    let (alone, alone_counts) = decode_frames(&good);
    for change in [Change::Bit, Change::Bytes] {
        for (rate, seed) in [(1, 1), (1, 2), (9, 3), (30, 4)] {
            let mut frames = RandomFrames::new(recorded(), change, seed);
            let (wire, changed) = frames.mix(&good, rate);
            let (items, counts) = read(&wire);
            let what = format!("{change:?}, {rate}, seed {seed}: {}", summary(&counts));
            let result = bare(&items[0], &counts.cards[0].counts);
            assert!(result == bare(&alone, &alone_counts), "{what}");
            let others: u64 = counts.cards[1..].iter().map(|card| card.counts.frames).sum();
            assert_eq!(others + counts.foreign_frames, changed, "{what}");
        }
    }
}
