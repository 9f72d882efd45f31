//! Decodes any frames in several ways. Checks that each frame is counted once, and that the counts
//! of a single card add up.

use std::collections::HashMap;

use hmtt::CardId;
use hmtt::decode::{Columns, Counted, Counts, Item, LinkCounts, Origin, Sink, Wire, decode_frames};

use hmtt_test_support::random_frames::{Change, RandomFrames};

use crate::script::{Expected, Script};

/// Decodes a script's frames in all ways.
pub fn check(bytes: &[u8]) {
    let script = Script::new(bytes);
    let frames = &script.frames;
    let (counts, rows) = rows(frames);
    let sum = counts.sum();
    assert_eq!(sum.frames + sum.foreign_frames, frames.len() as u64, "each frame is counted once");
    assert_eq!(sum.accesses, sum.reads + sum.writes);
    assert!(sum.gap_count >= sum.gaps.len() as u64);
    let (items, by_items) = items(frames);
    assert_eq!(by_items, counts, "with and without columns");
    assert_eq!(counted(frames), counts, "with and without events");
    let events = items.iter().filter(|item| matches!(item, Item::Event(_))).count() as u64;
    assert_eq!((events, rows), (sum.records, sum.records));
    let malformed = items.iter().filter(|item| matches!(item, Item::Malformed { .. })).count();
    assert_eq!(malformed as u64, sum.malformed_frames);
    let (alone, alone_counts) = decode_frames(frames);
    adds_up(&alone, &alone_counts);
    if let Some(expected) = script.expected() {
        assert_eq!(Expected::from_counts(&alone_counts), expected);
        same(&items, &alone);
        // All counts except the order are compared. A frame that waited until its card was known is
        // counted at its place.
        assert_eq!((counts.cards.len(), Expected::from_counts(&sum)), (1, expected));
        beside_random_frames(frames, &alone, &alone_counts);
    }
}

/// Checks that frames with random payloads add no event and no restart to a card's trace.
fn beside_random_frames(frames: &[Vec<u8>], alone: &[Item], alone_counts: &Counts) {
    let events = |items: &[Item]| {
        let mut events = HashMap::<String, u64>::new();
        for item in items.iter().filter(|item| matches!(item, Item::Event(_))) {
            *events.entry(format!("{item:?}")).or_default() += 1;
        }
        events
    };
    let expected = events(alone);
    for (change, rate) in [(Change::Payload, 3), (Change::Words, 1)] {
        let seed = frames.iter().map(Vec::len).sum::<usize>() as u64;
        let (wire, _) = RandomFrames::new(frames.to_vec(), change, seed).mix(frames, rate);
        let (mixed_items, counts) = items(&wire);
        let sum = counts.sum();
        assert_eq!(sum.frames + sum.foreign_frames, wire.len() as u64);
        assert!(sum.order.restarts <= alone_counts.order.restarts, "a restart was made up");
        for (event, count) in events(&mixed_items) {
            assert!(expected.get(&event) >= Some(&count), "{event} was made up");
        }
    }
}

/// Checks that the trace of one card on a wire equals the trace of the card alone.
fn same(wire: &[Item], alone: &[Item]) {
    let differs = wire.iter().zip(alone).position(|(wire, alone)| wire != alone);
    if let Some(at) = differs {
        panic!("item {at} is {:?} on a wire, {:?} alone", wire[at], alone[at]);
    }
    assert_eq!(wire.len(), alone.len());
}

/// Checks that the items of a trace agree with its counts.
fn adds_up(items: &[Item], counts: &Counts) {
    let (mut events, mut gaps, mut restarts, mut lost, mut before) = (0, 0, 0, 0, 0);
    for item in items {
        match item {
            Item::Event(_) => events += 1,
            Item::Gap(gap) => {
                gaps += 1;
                let side = if gap.after.is_some() { &mut lost } else { &mut before };
                *side += gap.accesses.unwrap_or(0);
            }
            Item::Restart => restarts += 1,
            _ => {}
        }
    }
    assert_eq!((events, gaps), (counts.records, counts.gap_count));
    assert_eq!(restarts, counts.order.restarts);
    assert_eq!((lost, before), (counts.lost_accesses, counts.accesses_before_start));
}

fn origin(index: usize) -> Origin {
    Origin { packet: index as u64 + 1, ..Origin::default() }
}

fn items(frames: &[Vec<u8>]) -> (Vec<Item>, LinkCounts) {
    let (mut wire, mut items) = (Wire::default(), Vec::new());
    let mut sink = |_, item| items.push(item);
    for (index, frame) in frames.iter().enumerate() {
        wire.push(origin(index), frame, &mut sink);
    }
    let counts = wire.finish(&mut sink);
    (items, counts)
}

fn counted(frames: &[Vec<u8>]) -> LinkCounts {
    let mut wire = Wire::default();
    for (index, frame) in frames.iter().enumerate() {
        wire.push(origin(index), frame, &mut Counted(|_, _| {}));
    }
    wire.finish(&mut Counted(|_, _| {}))
}

/// Counts events and rows of columns.
#[derive(Default)]
struct Rows {
    columns: Columns,
    events: u64,
}

impl Sink for Rows {
    fn item(&mut self, _: CardId, item: Item) {
        self.events += u64::from(matches!(item, Item::Event(_)));
    }

    fn columns(&mut self, _: CardId) -> Option<&mut Columns> {
        Some(&mut self.columns)
    }
}

fn rows(frames: &[Vec<u8>]) -> (LinkCounts, u64) {
    let (mut wire, mut rows) = (Wire::default(), Rows::default());
    for (index, frame) in frames.iter().enumerate() {
        wire.push(origin(index), frame, &mut rows);
    }
    let counts = wire.finish(&mut rows);
    (counts, rows.events + rows.columns.len() as u64)
}
