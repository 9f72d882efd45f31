//! Tests that frames which change their order are put back where their card has lost its DDR clock
//! or was switched on again, and counts from 0 again.

use hmtt::decode::{Item, decode_frames};
use hmtt_format::frame::Heartbeat;
use hmtt_format::{Access, Event};
use proptest::prelude::*;

use crate::card::Card;
use crate::wire::cards;

/// How a card restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    /// Its DDR clock is lost and found.
    ClockLoss,
    /// It is switched on again after an end frame.
    AfterEnd,
    /// It is switched on again without an end frame.
    Sudden,
}

/// The frames of a card that restarts once, and their accesses. The sessions differ.
fn session(
    restart: Restart,
    [before, after]: [usize; 2],
    accesses: u64,
) -> (Vec<Vec<u8>>, Vec<Access>) {
    let mut card = Card::new();
    let (mut frames, mut truth) = (vec![card.info()], Vec::new());
    for _ in 0..before {
        let (frame, more) = card.data(accesses);
        frames.push(frame);
        truth.extend_from_slice(&more);
    }
    let beat = |running| Heartbeat { running, losses: 1, transmit_clocks: 7505 };
    match restart {
        Restart::ClockLoss => {
            frames.extend([false, true].map(|running| card.heartbeat(beat(running))))
        }
        Restart::AfterEnd => frames.push(card.end()),
        Restart::Sudden => {}
    }
    let counter = if restart == Restart::ClockLoss { card.counter } else { 0 };
    card = Card { counter, ..Card::new() };
    frames.push(card.info());
    for _ in 0..after {
        let (frame, more) = card.data(accesses + 1);
        frames.push(frame);
        truth.extend_from_slice(&more);
    }
    frames.push(card.end());
    (frames, truth)
}

fn accesses_of(items: &[Item]) -> Vec<Access> {
    let access = |item: &Item| match item {
        Item::Event(Event::Access(access)) => Some(*access),
        _ => None,
    };
    items.iter().filter_map(access).collect()
}

/// Moves each frame but the first by so many places, and checks that all are found again.
fn check(
    restart: Restart,
    lengths: [usize; 2],
    accesses: u64,
    delays: &[usize],
) -> Result<(), TestCaseError> {
    let (frames, truth) = session(restart, lengths, accesses);
    let mut order: Vec<usize> = (0..frames.len()).collect();
    // The first frame of a card is the first.
    order[1..].sort_by_key(|index| index + delays[*index]);
    let arrived: Vec<&Vec<u8>> = order.iter().map(|index| &frames[*index]).collect();
    let traces = cards(&arrived);
    prop_assert_eq!(traces.len(), 1, "{:?}", order);
    let (items, counts) = &traces[0];
    prop_assert!(accesses_of(items) == truth, "{:?} {:?}", counts, order);
    let missing = counts.order.missing_frames;
    prop_assert_eq!((counts.lost_accesses, missing, counts.order.restarts), (0, 0, 1));
    prop_assert_eq!((counts.malformed_frames, counts.order.duplicate_frames), (0, 0));
    if restart == Restart::ClockLoss {
        prop_assert_eq!(decode_frames(&arrived).0, items.clone());
    }
    Ok(())
}

proptest! {
    #[test]
    fn frames_that_change_their_order_at_a_loss_of_the_clock_are_put_back(
        lengths in [80usize..100, 80usize..100],
        accesses in 1u64..40,
        delays in prop::collection::vec(prop_oneof![2 => Just(0usize), 1 => 0usize..62], 210),
    ) {
        check(Restart::ClockLoss, lengths, accesses, &delays)?;
    }

    /// The first session is so long that the second one is recognized before it counts as far.
    #[test]
    fn frames_that_change_their_order_at_a_power_on_are_put_back(
        restart in prop::sample::select(vec![Restart::AfterEnd, Restart::Sudden]),
        lengths in [150usize..170, 100usize..170],
        accesses in 1u64..40,
        delays in prop::collection::vec(prop_oneof![2 => Just(0usize), 1 => 0usize..62], 350),
    ) {
        check(restart, lengths, accesses, &delays)?;
    }

    #[test]
    fn frames_that_change_their_order_in_short_sessions_are_put_back(
        lengths in [1usize..100, 1usize..100],
        accesses in 1u64..40,
        delays in prop::collection::vec(prop_oneof![2 => Just(0usize), 1 => 0usize..3], 210),
    ) {
        check(Restart::ClockLoss, lengths, accesses, &delays)?;
    }
}

/// Frames move by up to five places, but the restart's report arrives after all frames before it
/// and before most of those after it.
#[test]
fn frames_that_arrive_before_the_report_of_a_restart_are_put_back() {
    let (frames, truth) = session(Restart::ClockLoss, [7, 20], 30);
    let restart = [0, 2, 1, 3, 5, 4, 6, 8, 7, 9, 11, 10, 12, 17, 14, 13, 15, 16];
    let order: Vec<usize> = restart.into_iter().chain(18..frames.len()).collect();
    let arrived: Vec<&Vec<u8>> = order.iter().map(|index| &frames[*index]).collect();
    let traces = cards(&arrived);
    assert_eq!(traces.len(), 1);
    let (items, counts) = &traces[0];
    assert_eq!((accesses_of(items), counts.lost_accesses, counts.order.restarts), (truth, 0, 1));
}
