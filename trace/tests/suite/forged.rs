//! Tests forged frames on the wire of a sending card: the card's trace does not change, the forged
//! frames are counted, and they need no more time and memory than other frames.

use std::collections::HashSet;

use hmtt::CardId;
use hmtt::decode::{Counts, Item, LinkCounts, Origin, Wire, decode_frames};
use hmtt_format::Event;
use hmtt_test_support::forged::{Forger, Forgery, mix};
use proptest::prelude::*;

use crate::card::Card;

fn origin(packet: usize) -> Origin {
    Origin { packet: packet as u64, ..Origin::default() }
}

/// Decodes the items of each card.
pub fn read(frames: &[Vec<u8>]) -> (Vec<Vec<Item>>, LinkCounts) {
    let (mut wire, mut items) = (Wire::default(), Vec::<Vec<Item>>::new());
    let mut sink = |CardId(card): CardId, item: Item| {
        if items.len() <= card {
            items.resize(card + 1, Vec::new());
        }
        items[card].push(item);
    };
    for (at, frame) in frames.iter().enumerate() {
        wire.push(origin(at + 1), frame, &mut sink);
    }
    let counts = wire.finish(&mut sink);
    (items, counts)
}

/// Removes the numbers of packets, which forged frames increase, from items and counts.
pub fn bare(items: &[Item], counts: &Counts) -> (Vec<Item>, Counts) {
    let bare = |item: &Item| match item {
        Item::Gap(gap) => {
            let mut gap = gap.clone();
            (gap.after_packet, gap.before_packet) = (None, None);
            Item::Gap(gap)
        }
        Item::Malformed { error, .. } => {
            Item::Malformed { origin: Origin::default(), error: *error }
        }
        other => other.clone(),
    };
    let mut counts = counts.clone();
    counts.gaps.iter_mut().for_each(|gap| (gap.after_packet, gap.before_packet) = (None, None));
    (items.iter().map(bare).collect(), counts)
}

fn card(counter: u64) -> Card {
    Card { counter, accesses: counter * 20, clock: counter * 1000, ..Card::new() }
}

/// Builds a session from which frames are lost, in order: `lost` in 1000, then whole stretches.
fn lossy(card: &mut Card, frames: usize, lost: &[bool], stretch: Option<usize>) -> Vec<Vec<u8>> {
    let (session, _) = card.session(frames, 20);
    let gone = |at: usize| {
        let alone = lost.get(at % lost.len().max(1)) == Some(&true);
        at > 3
            && at + 3 < frames
            && (alone || stretch.is_some_and(|from| at >= from && at < from + 100))
    };
    session.into_iter().enumerate().filter(|(at, _)| !gone(*at)).map(|(_, frame)| frame).collect()
}

fn lone() -> impl Strategy<Value = Forgery> {
    prop::sample::select(Forgery::LONE.to_vec())
}

proptest! {
    #[test]
    fn unconfirmed_frames_change_nothing(
        forgery in lone(),
        seed in 1u64..,
        start in 0u64..1 << 36,
        frames in 20usize..300,
        lost in prop::collection::vec(prop::bool::weighted(0.05), 1..80),
        stretch in prop::option::of(5usize..200),
        turns in prop::collection::vec(prop_oneof![4 => 0usize..4, 1 => 0usize..40], 1..30),
    ) {
        let good = lossy(&mut card(start), frames, &lost, stretch);
        let (wire, forged) = mix(&good, &mut Forger::new(forgery, seed), &turns);
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        prop_assert_eq!((counts.cards.len(), counts.stray_frames, counts.foreign_frames), (1, forged, forged));
        prop_assert_eq!(bare(&items[0], &counts.cards[0].counts), bare(&alone, &alone_counts));
    }

    /// The same for a single forged frame, at any place.
    #[test]
    fn one_unconfirmed_frame_changes_nothing(
        forgery in lone(),
        seed in 1u64..,
        start in 0u64..1 << 36,
        at in 1usize..40,
        has_ended: bool,
    ) {
        let (mut good, _) = card(start).session(40, 20);
        if !has_ended {
            good.truncate(36);
        }
        let at = at.min(good.len());
        let mut wire = good.clone();
        wire.insert(at, Forger::new(forgery, seed).frame());
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        prop_assert_eq!((counts.cards.len(), counts.stray_frames), (1, 1));
        prop_assert_eq!(bare(&items[0], &counts.cards[0].counts), bare(&alone, &alone_counts));
        let mut decoder = Wire::default();
        wire.iter().enumerate().for_each(|(at, frame)| decoder.push(origin(at), frame, &mut |_, _| {}));
        prop_assert_eq!(decoder.has_ended(), has_ended);
    }

    /// Forged frames that continue each other cannot be distinguished from a card. They become a
    /// separate card.
    #[test]
    fn forged_cards_change_nothing_of_a_card(
        forgery in prop::sample::select(vec![Forgery::Card, Forgery::Jumps]),
        seed in 1u64..,
        start in 0u64..1 << 36,
        turns in prop::collection::vec(1usize..4, 1..30),
    ) {
        let (good, _) = card(start).session(400, 20);
        let (wire, forged) = mix(&good, &mut Forger::new(forgery, seed), &turns);
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        prop_assert_eq!(bare(&items[0], &counts.cards[0].counts), bare(&alone, &alone_counts));
        let others: u64 = counts.cards[1..].iter().map(|card| card.counts.frames).sum();
        prop_assert_eq!(others + counts.foreign_frames, forged);
    }
}

fn forged_sessions(seed: u64, start: u64, turns: &[usize]) -> Result<(), TestCaseError> {
    let (good, truth) = card(start).session(400, 20);
    let (wire, forged) = mix(&good, &mut Forger::new(Forgery::Sessions, seed), turns);
    let (items, counts) = read(&wire);
    let sum = counts.sum();
    prop_assert_eq!(sum.frames + sum.foreign_frames, wire.len() as u64);
    prop_assert!(counts.stray_frames <= forged);
    let access = |item: &Item| match item {
        Item::Event(Event::Access(access)) => Some((access.clock, access.address)),
        _ => None,
    };
    let read: HashSet<_> = items.iter().flatten().filter_map(access).collect();
    let missing = truth.iter().find(|truth| !read.contains(&(truth.clock, truth.address)));
    prop_assert_eq!(missing, None);
    Ok(())
}

proptest! {
    /// Frames of a very short session may be taken for the card's after a long gap if no more
    /// frames of the card follow. All accesses of the card are decoded.
    #[test]
    fn short_forged_sequences_lose_no_access_of_a_card(
        seed in 1u64..,
        start in 0u64..1 << 36,
        turns in prop::collection::vec(1usize..4, 1..30),
    ) {
        forged_sessions(seed, start, &turns)?;
    }
}

proptest! {
    /// Many frames that continue each other, near the card's counter and counts, are a separate
    /// card as long as the true one sends a frame now and then.
    #[test]
    fn a_forged_sequence_takes_nothing_of_a_card_that_continues(
        start in 1u64 << 20..1 << 36,
        ahead in prop_oneof![64i64..2000, -2000i64..-64, 2000i64..1 << 20, -(1 << 20)..-2000i64],
        accesses in -100_000i64..100_000,
        clock in -100_000i64..100_000,
        restarts: bool,
        turns in prop::collection::vec(prop_oneof![1usize..4, 1usize..50], 1..30),
    ) {
        let (good, _) = card(start).session(200, 20);
        let mut other = card(start);
        other.counter = other.counter.wrapping_add_signed(ahead);
        other.accesses = other.accesses.wrapping_add_signed(accesses);
        other.clock = other.clock.wrapping_add_signed(clock);
        let mut forger = if restarts { Card::new() } else { other };
        let (mut wire, mut forged) = (Vec::new(), 0);
        for (at, frame) in good.iter().enumerate() {
            wire.push(frame.clone());
            // First the card becomes known.
            let count = if at < 8 { 0 } else { turns[at % turns.len()] };
            wire.extend((0..count).map(|_| forger.data(7).0));
            forged += count as u64;
        }
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        prop_assert_eq!(bare(&items[0], &counts.cards[0].counts), bare(&alone, &alone_counts));
        let others: u64 = counts.cards[1..].iter().map(|card| card.counts.frames).sum();
        prop_assert_eq!(others + counts.foreign_frames, forged);
    }

    /// While the card is silent, the forged sequence looks like a restart of the card and takes its
    /// number. When the card continues, it gets another number; its counts and accesses are
    /// complete.
    #[test]
    fn a_forged_sequence_takes_the_number_of_a_silent_card_and_no_access(
        seed in 1u64..,
        start in 0u64..1 << 36,
        at in 10usize..190,
        length in 65usize..400,
    ) {
        let (good, _) = card(start).session(200, 20);
        let mut forger = Forger::new(Forgery::Card, seed);
        let string: Vec<_> = (0..length).map(|_| forger.frame()).collect();
        let wire = [&good[..at], &string[..], &good[at..]].concat();
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        prop_assert_eq!(counts.cards.len(), 2);
        prop_assert_eq!(counts.cards[0].counts.frames, length as u64);
        let (before, _) = decode_frames(&good[..at]);
        // The item about the missing end of the session is left out.
        let before = before.len() - 1;
        let joined_items = [&items[0][..before], &items[1][..]].concat();
        prop_assert_eq!(bare(&joined_items, &counts.cards[1].counts), bare(&alone, &alone_counts));
    }
}

/// A card that sends single frames while forged frames fill all places for waiting frames.
#[test]
fn a_slow_card_beside_a_flood_keeps_its_trace() {
    let (good, _) = card(1000).session(60, 20);
    for forgery in Forgery::LONE {
        let (wire, forged) = mix(&good, &mut Forger::new(forgery, 77), &[700]);
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        assert_eq!((counts.cards.len(), counts.stray_frames), (1, forged), "{forgery:?}");
        let result = bare(&items[0], &counts.cards[0].counts);
        assert_eq!(result, bare(&alone, &alone_counts), "{forgery:?}");
    }
}

#[test]
fn a_card_that_restarts_beside_a_flood_is_followed() {
    let (first, _) = card(5000).session(100, 20);
    let (second, _) = Card::new().session(100, 30);
    let good = [&first[..80], &second[..]].concat();
    for (forgery, turn) in
        Forgery::LONE.into_iter().flat_map(|forgery| [(forgery, 2), (forgery, 50)])
    {
        let (wire, forged) = mix(&good, &mut Forger::new(forgery, 5), &[turn]);
        let (items, counts) = read(&wire);
        let (alone, alone_counts) = decode_frames(&good);
        assert_eq!((counts.cards.len(), counts.stray_frames), (1, forged), "{forgery:?} {turn}");
        let result = bare(&items[0], &counts.cards[0].counts);
        assert_eq!(result, bare(&alone, &alone_counts), "{forgery:?} {turn}");
    }
}

/// A card whose cable was unplugged for a long time after its end frames. The accesses that it
/// counted meanwhile are lost.
#[test]
fn a_long_gap_after_the_end_is_a_loss_and_not_another_card() {
    for lost in [1u64 << 20, 1 << 24] {
        let mut card = card(1000);
        let (mut wire, _) = card.session(50, 20);
        card.counter += lost;
        card.accesses += lost * 5;
        wire.extend(card.session(50, 20).0);
        let (_, counts) = read(&wire);
        let order = counts.cards[0].counts.order;
        let counted = (counts.cards.len(), order.missing_frames, counts.sum().lost_accesses);
        assert_eq!(counted, (1, lost, lost * 5));
    }
}
