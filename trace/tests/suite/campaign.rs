//! Drops, copies and moves frames of one card at random, several at a time, also where the card
//! restarts, and checks that exactly what arrives is decoded, and that all else is counted as lost.
//! `damage` also flips bits and cuts frames short.
//!
//! The number of trials is twice `PROPTEST_CASES`: `make fuzz` makes 10,000.

mod damage;

use std::collections::HashMap;

use hmtt::decode::{Counts, Item};
use hmtt_format::frame::Heartbeat;
use hmtt_format::{Access, Event};
use proptest::prelude::*;

use crate::card::Card;
use crate::wire::cards;

/// Places by which a frame moves at most: a receiver puts frames in order within 64 counts.
const FARTHEST: usize = 60;
/// Frames of a session: more than a receiver waits for.
const FRAMES: std::ops::Range<usize> = 80..160;
/// Most accesses of a frame.
const FRAME_ACCESSES: u64 = 90;

/// What happens to a frame on the wire.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Drop,
    /// A copy arrives so many places later.
    Copy(usize),
    /// The frame arrives so many places later.
    Move(usize),
}

/// What a card sent.
#[derive(Default)]
struct Sent {
    frames: Vec<Vec<u8>>,
    /// The accesses of each frame.
    truth: Vec<Vec<Access>>,
    /// Whether each frame may be dropped: behind the last frame of a session, nothing shows how
    /// many accesses were lost.
    may_drop: Vec<bool>,
    lost_on_card: u64,
}

impl Sent {
    /// `sessions`: for each, its number of data frames, and a number on which the accesses of each
    /// frame depend. Between two sessions, the card's DDR clock is lost. `losses`: whether the card
    /// loses records before some frames.
    fn new(sessions: impl IntoIterator<Item = (usize, u64)>, losses: bool) -> Self {
        let (mut card, mut sent) = (Card::new(), Sent::default());
        for (number, (frames, accesses)) in sessions.into_iter().enumerate() {
            if number != 0 {
                let beat =
                    |running| Heartbeat { running, losses: number as u16, transmit_clocks: 7 };
                sent.push(card.info(), Vec::new(), false);
                sent.push(card.heartbeat(beat(false)), Vec::new(), false);
                sent.push(card.heartbeat(beat(true)), Vec::new(), false);
                card = Card { counter: card.counter, ..Card::new() };
            }
            sent.push(card.info(), Vec::new(), false);
            for at in 0..frames {
                if losses && at % 37 == 19 {
                    card.lost += 40;
                    card.accesses += 40;
                    sent.lost_on_card += 40;
                }
                let (frame, truth) = card.data(1 + (accesses + at as u64 * 7) % FRAME_ACCESSES);
                sent.push(frame, truth, at != 0);
            }
        }
        for _ in 0..3 {
            sent.push(card.end(), Vec::new(), false);
        }
        sent
    }

    fn push(&mut self, frame: Vec<u8>, truth: Vec<Access>, may_drop: bool) {
        self.frames.push(frame);
        self.truth.push(truth);
        self.may_drop.push(may_drop);
    }

    /// Indices of the frames as they arrive, and for each sent frame whether it arrived.
    fn arrive(&self, faults: &[(usize, Fault)]) -> (Vec<usize>, Vec<bool>) {
        let mut arrives = vec![true; self.frames.len()];
        // Frames are sent at even times.
        let mut times: Vec<usize> = (0..self.frames.len()).map(|at| 2 * at).collect();
        let mut copies = Vec::new();
        for (at, fault) in faults {
            let at = 1 + at % (self.frames.len() - 1);
            match fault {
                Fault::Copy(places) => copies.push((2 * (at + places) + 1, at)),
                // The last frames show that all others were sent.
                Fault::Move(places) if at + 3 < self.frames.len() => {
                    times[at] = 2 * (at + places) + 1;
                }
                Fault::Move(_) => {}
                Fault::Drop => arrives[at] = !self.may_drop[at],
            }
        }
        let mut order: Vec<(usize, usize)> = times.into_iter().zip(0..).collect();
        order.extend(copies);
        order.sort_unstable();
        let arrived = order.into_iter().map(|(_, at)| at).filter(|at| arrives[*at]);
        (arrived.collect(), arrives)
    }
}

fn number_of(accesses: impl Iterator<Item = Access>) -> HashMap<Access, u64> {
    let mut numbers = HashMap::new();
    accesses.for_each(|access| *numbers.entry(access).or_default() += 1);
    numbers
}

fn decoded(items: &[Item]) -> HashMap<Access, u64> {
    number_of(items.iter().filter_map(|item| match item {
        Item::Event(Event::Access(access)) => Some(*access),
        _ => None,
    }))
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => Just(Fault::Drop),
        2 => (0..FARTHEST).prop_map(Fault::Copy),
        4 => (1..FARTHEST).prop_map(Fault::Move),
    ]
}

fn faults() -> impl Strategy<Value = Vec<(usize, Fault)>> {
    prop::collection::vec((any::<usize>(), fault()), 1..12)
}

fn sessions() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(FRAMES, 1..3)
}

fn trials() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases * 2, ..default }
}

proptest! {
    #![proptest_config(trials())]

    #[test]
    fn exactly_what_arrives_is_decoded(
        sessions in sessions(),
        accesses in 1..FRAME_ACCESSES,
        losses in any::<bool>(),
        faults in faults(),
    ) {
        // The card repeats after a restart what it did before.
        let sent = Sent::new(sessions.iter().map(|frames| (*frames, accesses)), losses);
        let (arrived, arrives) = sent.arrive(&faults);
        let arrived: Vec<_> = arrived.into_iter().map(|at| &sent.frames[at]).collect();
        let traces = cards(&arrived);
        prop_assert_eq!(traces.len(), 1);
        let (items, counts) = &traces[0];
        let kept = sent.truth.iter().zip(&arrives).filter(|(_, arrives)| **arrives);
        let truth = number_of(kept.flat_map(|(truth, _)| truth).copied());
        prop_assert!(decoded(items) == truth, "{:?}", counts);
        let Counts { accesses, lost_accesses, malformed_frames, order, .. } = counts;
        let dropped = arrives.iter().filter(|arrives| !**arrives).count() as u64;
        let sent_accesses = sent.truth.iter().flatten().count() as u64 + sent.lost_on_card;
        prop_assert_eq!(accesses + lost_accesses, sent_accesses);
        prop_assert_eq!(
            (order.missing_frames, order.restarts, *malformed_frames),
            (dropped, sessions.len() as u64 - 1, 0)
        );
    }
}
