//! Decodes generated wires, on which cards lose frames and restart, and checks that each rule
//! decides about some frame, and that no frame is parsed twice.

use hmtt_format::frame::{COUNTER_MASK, Heartbeat};
use hmtt_test_support::card::Card;
use hmtt_test_support::forged::{Forger, Forgery, mix};

use super::owner::OWNER;
use super::*;
use crate::decode::evidence::{DAMAGE, FIT, REACH};
use crate::decode::frame::tests::parsed;
use crate::decode::rules::tests::decided;

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = random.below(1));
        random
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Makes the frames of a card that loses records and its DDR clock, restarts, and is silent.
fn session(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut card = Card::new();
    if random.one_in(2) {
        (card.counter, card.accesses) = (random.below(1 << 40), random.below(1 << 40));
    }
    let (mut frames, mut losses, mut transmit_clocks) = (vec![card.info()], 0, 0);
    while frames.len() < count {
        transmit_clocks += random.below(1 << 28);
        let mut beat = Heartbeat { running: true, losses, transmit_clocks };
        match random.below(60) {
            0 | 1 => frames.push(card.heartbeat(beat)),
            2 => frames.push(card.info()),
            3 => frames.push(card.end()),
            4 => card.lost += 3,
            5 => {
                (losses, beat.losses) = (losses + 1, losses + 1);
                frames.push(card.heartbeat(beat));
                (card.accesses, card.lost, card.clock) = (0, 0, 0);
                frames.push(card.info());
            }
            6 if random.one_in(3) => card = Card::new(),
            7 if random.one_in(3) => {
                let frames = 1 << random.below(24);
                card.counter = (card.counter + frames) & COUNTER_MASK;
                card.accesses += frames;
            }
            _ => frames.push(card.data(random.below(20)).0),
        }
    }
    frames
}

/// Loses, copies, delays and damages frames.
fn damage(random: &mut Random, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut arrivals = Vec::new();
    for (frame, at) in frames.iter().zip(0..) {
        let (mut frame, late) = (frame.clone(), random.below(90));
        if random.one_in(20) {
            let bit = random.below(44 * 8);
            frame[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        match random.below(20) {
            0 => {}
            1 => arrivals.extend([(at, frame.clone()), (at + late, frame)]),
            2 => arrivals.push((at + late, frame)),
            _ => arrivals.push((at, frame)),
        }
    }
    arrivals.sort_by_key(|(time, _)| *time);
    arrivals.into_iter().map(|(_, frame)| frame).collect()
}

/// Makes the frames of one to three cards, alternating or one after the other, sometimes with
/// forged frames in between.
fn wire(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let first = session(&mut random, 100);
    let mut cards = vec![damage(&mut random, &first)];
    for _ in 0..random.below(3) {
        let other = if random.one_in(3) { first.clone() } else { session(&mut random, 100) };
        cards.push(damage(&mut random, &other));
    }
    let turn = [1, 5, 30, 1000][random.below(4) as usize];
    let mut frames = Vec::new();
    let mut rest: Vec<_> = cards.iter().map(|frames| frames.iter()).collect();
    while rest.iter().any(|rest| rest.len() != 0) {
        let at = random.below(rest.len() as u64) as usize;
        frames.extend(rest[at].by_ref().take(1 + random.below(turn) as usize).cloned());
    }
    let forgery = Forgery::ALL[random.below(9) as usize];
    let turns: &[usize] = if random.one_in(3) { &[0, 1, 0, 2] } else { &[0] };
    mix(&frames, &mut Forger::new(forgery, seed + 1), turns).0
}

/// Decodes a wire. Returns the number of frames on it.
fn decode(seed: u64) -> u64 {
    let frames = wire(seed);
    let mut wire = Wire::default();
    for (frame, packet) in frames.iter().zip(1..) {
        wire.push(Origin { packet, ..Origin::default() }, frame, &mut |_, _| {});
    }
    let counts = wire.finish(&mut |_, _| {}).sum();
    assert_eq!(counts.frames + counts.foreign_frames, frames.len() as u64);
    frames.len() as u64
}

#[test]
fn each_rule_decides_about_some_frame() {
    let rules = |names: &mut Vec<&'static str>| {
        names.extend(FIT.rules.iter().map(|rule| rule.because));
        names.extend(REACH.rules.iter().map(|rule| rule.because));
        names.extend(DAMAGE.rules.iter().map(|rule| rule.because));
        names.extend(OWNER.rules.iter().map(|rule| rule.because));
    };
    let mut unused = Vec::new();
    rules(&mut unused);
    for seed in 0..MOST_WIRES {
        decode(seed);
        let decided = decided();
        unused.retain(|because| !decided.contains(because));
        if unused.is_empty() {
            return;
        }
    }
    panic!("rules that decided about no frame: {unused:#?}");
}

/// Maximum number of wires that are decoded until each rule has decided.
const MOST_WIRES: u64 = 2_000;

#[test]
fn each_frame_is_parsed_once() {
    let before = parsed();
    let frames: u64 = (0..50).map(decode).sum();
    assert_eq!(parsed() - before, frames);
}
