//! Tests that two cards on one wire are two traces, each as if it were alone on the wire, and that
//! one card is one trace, even if it restarts.

use hmtt::CardId;
use hmtt::decode::{Counts, Item, Origin, Wire, decode_frames};
use hmtt_format::frame::{FrameKind, Heartbeat};
use proptest::prelude::*;

use crate::card::Card;

/// Returns the items and counts of each card found among the frames.
pub fn cards(frames: &[impl AsRef<[u8]>]) -> Vec<(Vec<Item>, Counts)> {
    let (mut wire, mut items) = (Wire::default(), Vec::<Vec<Item>>::new());
    let mut sink = |CardId(card): CardId, item: Item| {
        if items.len() <= card {
            items.resize(card + 1, Vec::new());
        }
        items[card].push(item);
    };
    for (frame, packet) in frames.iter().zip(1..) {
        wire.push(Origin { packet, ..Origin::default() }, frame.as_ref(), &mut sink);
    }
    let counts = wire.finish(&mut sink);
    items.resize(counts.cards.len(), Vec::new());
    items.into_iter().zip(counts.cards.into_iter().map(|card| card.counts)).collect()
}

/// Decodes frames of one card and counts foreign ones.
pub fn on_a_wire(frames: &[impl AsRef<[u8]>]) -> (Vec<Item>, Counts) {
    let mut cards = cards(frames);
    assert!(cards.len() <= 1, "{} cards on a wire with one", cards.len());
    cards.pop().unwrap_or_default()
}

/// Removes packet numbers from items, because they differ between a wire and a card alone.
fn bare(items: Vec<Item>) -> Vec<Item> {
    let bare = |item| match item {
        Item::Gap(mut gap) => {
            (gap.after_packet, gap.before_packet) = (None, None);
            Item::Gap(gap)
        }
        Item::Malformed { error, .. } => Item::Malformed { origin: Origin::default(), error },
        other => other,
    };
    items.into_iter().map(bare).collect()
}

fn bare_counts(mut counts: Counts) -> Counts {
    counts.gaps.iter_mut().for_each(|gap| (gap.after_packet, gap.before_packet) = (None, None));
    counts
}

/// Checks that the traces of a wire are those of `parts`, one card each, in any order.
fn assert_apart(wire: &[Vec<u8>], parts: &[Vec<Vec<u8>>]) {
    let mut traces: Vec<_> =
        cards(wire).into_iter().map(|(items, counts)| (bare(items), bare_counts(counts))).collect();
    assert_eq!(traces.len(), parts.len(), "cards found: {:?}", totals(&traces));
    for part in parts {
        let (items, counts) = decode_frames(part);
        let expected = (bare(items), bare_counts(counts));
        let at = traces.iter().position(|trace| *trace == expected);
        let at = at.unwrap_or_else(|| panic!("{:?} is not in {:?}", expected.1, totals(&traces)));
        traces.remove(at);
    }
}

fn totals(traces: &[(Vec<Item>, Counts)]) -> Vec<&Counts> {
    traces.iter().map(|(_, counts)| counts).collect()
}

/// Returns a card with these counts.
fn card(counter: u64, accesses: u64, clock: u64) -> Card {
    Card { counter, accesses, clock, ..Card::new() }
}

/// Interleaves the frames of both: the first frame of `first`, then alternating runs of the given
/// lengths.
fn interleave(first: &[Vec<u8>], second: &[Vec<u8>], turns: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let (mut first, mut second) = (first.iter(), second.iter());
    let mut wire = Vec::new();
    for (of_first, of_second) in turns.iter().cycle() {
        if first.len() == 0 && second.len() == 0 {
            break;
        }
        wire.extend(first.by_ref().take(*of_first).cloned());
        wire.extend(second.by_ref().take(*of_second).cloned());
    }
    wire
}

#[test]
fn two_cards_are_two_traces() {
    let (first, _) = card(1000, 5_000_000, 9_000_000_000).session(300, 100);
    let (second, _) = card(70_000, 1_000, 77).session(200, 370);
    for turns in [&[(1, 1)][..], &[(3, 1), (1, 4)], &[(60, 1)], &[(1, 60)], &[(50, 50)]] {
        assert_apart(&interleave(&first, &second, turns), &[first.clone(), second.clone()]);
        assert_apart(&interleave(&second, &first, turns), &[first.clone(), second.clone()]);
    }
}

#[test]
fn cards_switched_on_together_are_separated_by_their_counts() {
    let mut second = Card::new();
    // The window makes the reports differ. Two equal reports would be copies of one report.
    second.tag_window = Some(0x1000_0000);
    let (first, _) = Card::new().session(100, 300);
    let (second, _) = second.session(100, 299);
    assert_apart(&interleave(&first, &second, &[(1, 1)]), &[first.clone(), second.clone()]);
    assert_apart(&interleave(&first, &second, &[(2, 1), (1, 2)]), &[first.clone(), second.clone()]);
    let (mut first_lossy, mut second_lossy) = (first, second);
    first_lossy.drain(40..43);
    second_lossy.drain(38..45);
    let parts = [first_lossy.clone(), second_lossy.clone()];
    assert_apart(&interleave(&first_lossy, &second_lossy, &[(1, 1)]), &parts);
}

#[test]
fn a_card_that_appears_later_is_not_a_restart() {
    let (first, _) = card(5000, 5_000_000, 9_000_000_000).session(300, 100);
    let (second, _) = Card::new().session(100, 50);
    let late = interleave(&first[100..], &second, &[(1, 1)]);
    assert_apart(&[&first[..100], &late].concat(), &[first, second]);
}

#[test]
fn three_cards_are_three_traces() {
    let sessions: Vec<Vec<Vec<u8>>> = [(7, 0, 0), (100_000, 88, 123_456), (50, 1 << 30, 1 << 40)]
        .into_iter()
        .map(|(counter, accesses, clock)| card(counter, accesses, clock).session(150, 200).0)
        .collect();
    let two = interleave(&sessions[0], &sessions[1], &[(1, 2)]);
    assert_apart(&interleave(&two, &sessions[2], &[(2, 1), (1, 1)]), &sessions);
}

/// One frame a second beside 80,000: the slow card seems to have restarted until it continues.
#[test]
fn a_slow_card_that_seemed_to_restart_continues() {
    let (slow, _) = card(500, 90_000, 4_000_000).session(4, 40);
    for start in [card(0, 0, 0), card(90_000, 1 << 35, 1 << 45)] {
        let (fast, truth) = start.clone().session(1000, 370);
        let wire = interleave(&slow, &fast, &[(1, 300)]);
        let traces = cards(&wire);
        assert_eq!(traces.len(), 2);
        let (_, alone) = decode_frames(&slow);
        let (_, fast_alone) = decode_frames(&fast);
        let counts: Vec<Counts> =
            traces.iter().map(|(_, counts)| bare_counts(counts.clone())).collect();
        assert_eq!(counts, [bare_counts(fast_alone), bare_counts(alone)]);
        let items: usize = traces.iter().map(|(items, _)| accesses(items)).sum();
        assert_eq!(items, truth.len() + 160, "every access of both is somewhere");
    }
}

fn accesses(items: &[Item]) -> usize {
    let access = |item: &&Item| matches!(item, Item::Event(hmtt_format::Event::Access(_)));
    items.iter().filter(access).count()
}

#[test]
fn a_restart_and_a_long_gap_are_not_a_second_card() {
    let mut card = Card::new();
    let (mut frames, _) = card.session(400, 30);
    frames.drain(150..300);
    let (again, _) = Card::new().session(300, 7);
    let wire = [&frames[..], &again].concat();
    let (items, counts) = on_a_wire(&wire);
    assert_eq!((items, counts.clone()), decode_frames(&wire));
    assert_eq!((counts.order.restarts, counts.order.missing_frames), (1, 150));
}

#[test]
fn heartbeats_and_unreadable_frames_belong_to_their_card() {
    let beat = |clocks| Heartbeat { running: true, losses: 0, transmit_clocks: clocks };
    let make = |mut card: Card, clocks: u64| {
        let mut frames = vec![card.info()];
        for round in 0..20 {
            frames.push(card.data(50).0);
            frames.push(card.heartbeat(beat(clocks + round * 125_000_000)));
        }
        frames[7][14] ^= 0xf0;
        frames.push(card.end());
        frames
    };
    let first = make(card(300, 0, 0), 1 << 30);
    let second = make(card(9000, 1 << 20, 1 << 20), 1 << 36);
    assert_apart(&interleave(&first, &second, &[(1, 1)]), &[first.clone(), second.clone()]);
}

#[test]
fn a_frame_with_damaged_counts_is_not_a_card() {
    let mut card = card(300, 1 << 20, 1 << 20);
    let (mut frames, _) = card.session(3000, 50);
    // The count of accesses in the sync.
    frames[50][26 + 3] ^= 0x10;
    let mut cards = cards(&frames);
    assert_eq!(cards.len(), 1);
    let counts = cards.remove(0).1;
    assert_eq!(
        (counts.order.restarts, counts.order.missing_frames, counts.order.late_frames),
        (0, 1, 1)
    );
    assert_eq!((counts.accesses, counts.lost_accesses), (2999 * 50, 50));
}

#[test]
fn the_number_of_cards_and_waiting_frames_is_bounded() {
    let mut wire = Wire::default();
    for serial in 0..3000u64 {
        let mut card = card(serial * 100_000, serial << 20, serial << 30);
        let frame = card.frame(FrameKind::Data, &[]);
        wire.push(Origin::default(), &frame, &mut |_, _| {});
    }
    assert!(wire.cards().len() <= hmtt::decode::wire::MAX_CARDS);
    let counts = wire.finish(&mut |_, _| {}).sum();
    assert_eq!(counts.frames, 3000);
}

/// What happens to one frame on the wire.
#[derive(Clone, Copy, Debug)]
struct Fate {
    dropped: bool,
    delay: u64,
    copied: bool,
}

fn fate() -> impl Strategy<Value = Fate> {
    let delay = prop_oneof![9 => Just(0), 1 => 1..6u64];
    (prop::bool::weighted(0.05), delay, prop::bool::weighted(0.05))
        .prop_map(|(dropped, delay, copied)| Fate { dropped, delay, copied })
}

/// Returns frames in order of arrival: some dropped, late or duplicated.
fn damage(frames: &[Vec<u8>], fates: &[Fate]) -> Vec<Vec<u8>> {
    let mut arrivals: Vec<(u64, &Vec<u8>)> = Vec::new();
    for ((frame, fate), at) in frames.iter().zip(fates.iter().cycle()).zip(0..) {
        if !fate.dropped {
            arrivals.push((at + fate.delay, frame));
            arrivals.extend(fate.copied.then_some((at + fate.delay + 1, frame)));
        }
    }
    arrivals.sort_by_key(|(time, _)| *time);
    arrivals.into_iter().map(|(_, frame)| frame.clone()).collect()
}

/// Returns cards whose counts are so different that no loss makes one look like the other.
fn starts() -> impl Strategy<Value = (Card, Card)> {
    let start = |base: u64| {
        (0..1u64 << 20, 0..1u64 << 30, 0..1u64 << 40).prop_map(move |(counter, accesses, clock)| {
            card(counter + (base << 30), accesses + (base << 32), clock + (base << 44))
        })
    };
    (start(0), start(1))
}

proptest! {
    #[test]
    fn interleaved_cards_have_the_traces_of_cards_alone(
        (mut first, mut second) in starts(),
        sizes in (20usize..150, 20usize..150, 1u64..370, 1u64..370),
        fates in (prop::collection::vec(fate(), 50..60), prop::collection::vec(fate(), 50..60)),
        turns in prop::collection::vec((1usize..6, 1usize..6), 1..20),
    ) {
        let first = damage(&first.session(sizes.0, sizes.2).0, &fates.0);
        let second = damage(&second.session(sizes.1, sizes.3).0, &fates.1);
        assert_apart(&interleave(&first, &second, &turns), &[first, second]);
    }

    #[test]
    fn a_card_alone_is_one_card_through_losses_and_restarts(
        sessions in prop::collection::vec((20usize..150, 1u64..90), 1..4),
        fates in prop::collection::vec(fate(), 50..60),
        start in 0u64..1 << 30,
    ) {
        let mut frames = Vec::new();
        for (index, (size, accesses)) in sessions.into_iter().enumerate() {
            let mut card = card(if index == 0 { start } else { 0 }, 0, 0);
            // Sessions with equal numbers of accesses in each frame could continue each other by
            // chance.
            let (session, _) = card.session(size, 4 * accesses + index as u64);
            // A frame that overtakes a restart cannot be distinguished from one of the session
            // before.
            frames.extend_from_slice(&session[..6]);
            frames.extend(damage(&session[6..], &fates));
        }
        let (items, counts) = on_a_wire(&frames);
        prop_assert_eq!(counts.frames, frames.len() as u64);
        prop_assert_eq!((items, counts), decode_frames(&frames));
    }
}

#[test]
fn items_stay_small() {
    assert!(size_of::<Item>() <= 96, "{} bytes", size_of::<Item>());
}
