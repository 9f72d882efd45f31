//! Tests that dropped, copied and reordered frames are counted as a simple model counts them.

use std::collections::BTreeSet;

use hmtt::decode::arrival::Arrival;
use hmtt::decode::sequence::{Order, Sequencer, Step, WINDOW};
use hmtt::decode::{Counts, Item, Origin, decode_frames};
use hmtt_format::frame::{COUNTER_BITS, COUNTER_MASK};
use hmtt_format::{Access, Event};
use proptest::prelude::*;

use crate::card::Card;
use crate::wire::on_a_wire;

/// Maximum delay of a frame, well within the window, however frames overtake each other.
const MAX_DELAY: u64 = WINDOW / 4;

/// Number of accesses in a data frame.
const ACCESSES: u64 = 7;

/// What happens to one frame on the wire.
#[derive(Clone, Copy, Debug)]
struct Fate {
    dropped: bool,
    delay: u64,
    copy_delay: Option<u64>,
}

fn fate() -> impl Strategy<Value = Fate> {
    let delay = || prop_oneof![4 => Just(0), 1 => 0..MAX_DELAY];
    (prop::bool::weighted(0.2), delay(), prop::option::weighted(0.2, delay()))
        .prop_map(|(dropped, delay, copy_delay)| Fate { dropped, delay, copy_delay })
}

/// Returns the indices of frames in the order in which they arrive.
fn arrivals(fates: &[Fate]) -> Vec<u64> {
    let mut arrivals = Vec::new();
    for (index, fate) in fates.iter().enumerate().filter(|(_, fate)| !fate.dropped) {
        let index = index as u64;
        arrivals.push((index + fate.delay, index));
        arrivals.extend(fate.copy_delay.map(|delay| (index + delay, index)));
    }
    arrivals.sort_by_key(|(time, _)| *time);
    arrivals.into_iter().map(|(_, index)| index).collect()
}

fn naive(arrivals: &[u64]) -> Order {
    let mut order = Order::default();
    let mut seen = BTreeSet::new();
    for index in arrivals {
        let overtaken = seen.last().is_some_and(|newest| newest > index);
        if !seen.insert(*index) {
            order.duplicate_frames += 1;
        } else if overtaken {
            order.reordered_frames += 1;
        }
    }
    if let Some((first, last)) = seen.first().zip(seen.last()) {
        order.missing_frames = last - first + 1 - seen.len() as u64;
    }
    order
}

/// Returns the counters that the sequencer passes on, those that it reports missing, and its
/// counts.
fn sequence(start: u64, arrivals: &[u64]) -> (Vec<u64>, BTreeSet<u64>, Order) {
    let mut card = Card::new();
    card.counter = start;
    let frames: Vec<Vec<u8>> =
        (0..=arrivals.iter().copied().max().unwrap_or(0)).map(|_| card.data(2).0).collect();
    let (mut passed, mut missing) = (Vec::new(), BTreeSet::new());
    let mut sequencer = Sequencer::default();
    let mut note = |step: Step<'_>| match step {
        Step::Frame(arrival) => passed.push(arrival.frame.counter),
        Step::Missing { first, frames } => {
            missing.extend((0..frames).map(|index| (first + index) & COUNTER_MASK));
        }
        Step::Restart => panic!("nothing restarted"),
        Step::Stray(_) => panic!("all frames can be read"),
    };
    for index in arrivals {
        let bytes = &frames[*index as usize];
        let arrival = Arrival::parse(Origin::default(), bytes).unwrap();
        sequencer.push(&arrival, &mut note);
    }
    sequencer.finish(&mut note);
    (passed, missing, sequencer.order())
}

proptest! {
    #[test]
    fn every_lost_copied_and_reordered_frame_is_counted(
        start in prop_oneof![Just(0), (1 << COUNTER_BITS) - 300..1u64 << COUNTER_BITS, 0..=COUNTER_MASK],
        fates in prop::collection::vec(fate(), 1..400),
    ) {
        let arrivals = arrivals(&fates);
        let (passed, missing, order) = sequence(start, &arrivals);
        prop_assert_eq!(order, naive(&arrivals));

        let counter = |index: u64| (start + index) & COUNTER_MASK;
        let came: BTreeSet<u64> = arrivals.iter().copied().collect();
        let in_order: Vec<u64> = came.iter().map(|index| counter(*index)).collect();
        prop_assert_eq!(passed, in_order);
        let between = came.first().copied().unwrap_or(0)..came.last().copied().unwrap_or(0);
        let absent: BTreeSet<u64> =
            between.filter(|index| !came.contains(index)).map(counter).collect();
        prop_assert_eq!(missing, absent);
    }
}

proptest! {
    /// For info, data and end frames: what is decoded is the truth of the received frames, and what
    /// is reported lost is the rest.
    #[test]
    fn decoded_and_lost_accesses_add_up(fates in prop::collection::vec(fate(), 60..200), lost: u16) {
        let mut card = Card::new();
        card.lost = lost.into();
        let (frames, truth) = card.session(fates.len() - 2, ACCESSES);
        let arrivals = arrivals(&fates);
        let arrived: Vec<&Vec<u8>> =
            arrivals.iter().map(|index| &frames[*index as usize]).collect();
        let (items, counts) = decode_frames(&arrived);
        prop_assert_eq!(on_a_wire(&arrived), (items.clone(), counts.clone()));

        let came: BTreeSet<u64> = arrivals.iter().copied().collect();
        let expected: Vec<Access> = truth
            .chunks(ACCESSES as usize)
            .zip(1..)
            .filter(|(_, index)| came.contains(index))
            .flat_map(|(accesses, _)| accesses.iter().copied())
            .collect();
        let decoded: Vec<Access> = items
            .iter()
            .filter_map(|item| match item {
                Item::Event(Event::Access(access)) => Some(*access),
                _ => None,
            })
            .collect();
        prop_assert_eq!(decoded, expected);
        if let Some(last) = came.last() {
            let sent_so_far = ACCESSES * (*last).min(truth.len() as u64 / ACCESSES);
            let stated = counts.accesses + counts.lost_accesses + counts.accesses_before_start;
            prop_assert_eq!(stated, sent_so_far);
            prop_assert_eq!(counts.complete_tail, *last == fates.len() as u64 - 1);
        }
        prop_assert_eq!(counts.card_lost_records, 0);
    }
}

/// Records that a card loses in a pause of four seconds. A frame after such a pause agrees with the
/// frame before by 39 bits: too few to be believed before another frame confirms it.
const LOST_IN_A_PAUSE: u32 = 310_000;
const PAUSE_CLOCKS: u64 = 4_076_000_000;

proptest! {
    #[test]
    fn frames_around_long_pauses_are_of_one_card(
        stretches in prop::collection::vec(prop::collection::vec((fate(), 1..40u64), 4..20), 1..6),
    ) {
        let mut card = Card::new();
        let mut frames = vec![card.info()];
        let mut fates = vec![Fate { dropped: false, delay: 0, copy_delay: None }];
        for stretch in &stretches {
            for (fate, accesses) in stretch {
                frames.push(card.data(*accesses).0);
                fates.push(*fate);
            }
            card.clock += PAUSE_CLOCKS;
            card.lost += LOST_IN_A_PAUSE;
            card.accesses += u64::from(LOST_IN_A_PAUSE);
        }
        let arrivals = arrivals(&fates);
        let arrived: Vec<&Vec<u8>> =
            arrivals.iter().map(|index| &frames[*index as usize]).collect();
        let (on_wire, alone) = (on_a_wire(&arrived), decode_frames(&arrived));
        prop_assert!(on_wire.0 == alone.0, "{:?} {:?} {:?}", arrivals, on_wire.1.order, alone.1.order);
        // A frame that waited until its card was known is counted in its place, not as out of
        // order.
        let order = |counts: Counts| (counts.order.missing_frames, counts.order.duplicate_frames);
        prop_assert_eq!(order(on_wire.1), order(alone.1));
    }
}

#[test]
fn a_frame_beyond_the_window_is_missing_and_late() {
    let mut arrivals: Vec<u64> = (0..200).filter(|index| *index != 50).collect();
    let after_the_window = arrivals.iter().position(|index| *index == 50 + WINDOW + 3).unwrap();
    arrivals.insert(after_the_window, 50);
    let (_, missing, order) = sequence(7, &arrivals);
    assert_eq!(missing, BTreeSet::from([57]));
    assert_eq!(
        order,
        Order { missing_frames: 1, reordered_frames: 1, late_frames: 1, ..Order::default() }
    );
}

#[test]
fn a_late_frame_is_put_in_order_behind_a_gap_longer_than_the_window() {
    // 2 to 42 are lost. 43 arrives 23 places late, after a frame that is more than the window away
    // from 1.
    let arrivals = [0, 1, 44, 67, 43, 68];
    let (passed, missing, order) = sequence(0, &arrivals);
    assert_eq!(passed, [0, 1, 43, 44, 67, 68]);
    assert_eq!(missing, (2..43).chain(45..67).collect());
    assert_eq!(order, Order { missing_frames: 63, reordered_frames: 1, ..Order::default() });
}
