//! Tests that a trace is the same as items, as columns and as counts.

use hmtt::CardId;
use hmtt::decode::{CardTrace, Columns, Counted, Counts, Item, Origin, Sink, decode_frames};
use hmtt_format::record::{Half, PageRun, WordRecord};
use hmtt_format::{Access, Cycles, Event, FaultKind};
use proptest::prelude::*;

use crate::card::Card;

/// Accesses as columns, and all other items with the number of accesses before each.
#[derive(Default)]
struct Taken {
    columns: Columns,
    others: Vec<(usize, Item)>,
}

impl Sink for Taken {
    fn item(&mut self, _: CardId, item: Item) {
        self.others.push((self.columns.len(), item));
    }

    fn columns(&mut self, _: CardId) -> Option<&mut Columns> {
        Some(&mut self.columns)
    }
}

fn as_columns(frames: &[Vec<u8>]) -> (Taken, Counts) {
    let (mut sink, mut trace) = (Taken::default(), CardTrace::default());
    for (frame, packet) in frames.iter().zip(1..) {
        trace.push(Origin { packet, ..Origin::default() }, frame, &mut sink);
    }
    let counts = trace.finish(&mut sink);
    (sink, counts)
}

fn counted(frames: &[Vec<u8>]) -> (Vec<Item>, Counts) {
    let (mut items, mut trace) = (Vec::new(), CardTrace::default());
    for (frame, packet) in frames.iter().zip(1..) {
        trace.push(
            Origin { packet, ..Origin::default() },
            frame,
            &mut Counted(|_, item| items.push(item)),
        );
    }
    let counts = trace.finish(&mut Counted(|_, item| items.push(item)));
    (items, counts)
}

/// Splits items into accesses and other items, as [`Taken`] contains them.
fn split(items: Vec<Item>) -> (Vec<Access>, Vec<(usize, Item)>) {
    let (mut accesses, mut others) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Event(Event::Access(access)) => accesses.push(access),
            other => others.push((accesses.len(), other)),
        }
    }
    (accesses, others)
}

fn check(frames: &[Vec<u8>]) {
    let (items, counts) = decode_frames(frames);
    let (accesses, others) = split(items);
    let (sink, columns_counts) = as_columns(frames);
    let rows: Vec<Access> = (0..sink.columns.len()).flat_map(|row| sink.columns.get(row)).collect();
    assert_eq!(rows, accesses);
    assert_eq!(sink.others, others);
    assert_eq!(columns_counts, counts);
    let (items, counted) = counted(frames);
    let not_events = others.into_iter().map(|(_, item)| item);
    let not_events: Vec<Item> = not_events.filter(|item| !matches!(item, Item::Event(_))).collect();
    assert_eq!(items, not_events);
    assert_eq!(counted, counts);
    assert_eq!(counts.reads + counts.writes, counts.accesses);
}

fn half() -> impl Strategy<Value = Half> {
    let access = (any::<bool>(), 0u32..31, 0u32..1 << 26).prop_map(|(write, delta, number)| {
        Half::Access { direction: hmtt_format::Direction::from_bit(write), delta, number }
    });
    prop_oneof![
        8 => access,
        1 => (0u32..1 << 25).prop_map(Half::Skip),
        1 => (0u32..1 << 12, 0u32..1 << 13).prop_map(|(segment, skip)| Half::Segment { segment, skip }),
    ]
}

fn words() -> impl Strategy<Value = Vec<u64>> {
    let pair = || {
        (half(), half()).prop_map(|(first, second)| {
            u64::from(first.encode()) << 32 | u64::from(second.encode())
        })
    };
    let fault = WordRecord::Fault { delta: 3, kind: FaultKind::ReadIdle, bank: 1 };
    let any_word = prop_oneof![30 => pair(), 1 => Just(fault.encode().0), 1 => any::<u64>()];
    prop_oneof![
        2 => prop::collection::vec(pair(), 0..=185),
        1 => prop::collection::vec(any_word, 0..=185),
    ]
}

proptest! {
    #[test]
    fn columns_and_counts_equal_those_of_the_items(
        clock in prop_oneof![Just(0u64), (1u64 << 48) - 2000..1 << 48],
        frames in prop::collection::vec((words(), 0u64..400, 0u64..1 << 30), 0..12),
        unit_log2 in prop_oneof![Just(0u8), Just(6), Just(12)],
        lost in prop::option::of(0usize..12),
    ) {
        let mut card = Card::new();
        (card.clock, card.unit_log2) = (clock, unit_log2);
        let mut session = vec![card.info()];
        for (words, accesses, clocks) in frames {
            session.push(card.frame(hmtt_format::frame::FrameKind::Data, &words));
            (card.accesses, card.clock) = (card.accesses + accesses, card.clock + clocks);
        }
        session.push(card.end());
        if let Some(lost) = lost.filter(|lost| *lost < session.len()) {
            session.remove(lost);
        }
        check(&session);
    }
}

#[test]
fn bytes_are_counted_for_lines_and_for_bursts() {
    let mut card = Card::new();
    let mut frames = vec![card.info(), card.data(10).0];
    card.unit_log2 = 12;
    let run = PageRun { number: 3, reads: 5, writes: 2, duration: 9 };
    frames.push(card.records(&[WordRecord::Page { delta: 0, run }], 7, 0));
    frames.push(card.end());
    let (_, counts) = decode_frames(&frames);
    // Lines have 64 bytes; the card's bursts are four words of 8 bytes.
    assert_eq!((counts.accesses, counts.access_bytes), (17, 10 * 64 + 7 * 32));
    check(&frames);
    // Without a report the size of bursts is unknown.
    let (_, counts) = decode_frames(&frames[1..3]);
    assert_eq!((counts.accesses, counts.access_bytes), (17, 10 * 64));
}

#[test]
fn columns_reject_values_that_do_not_fit() {
    let mut card = Card::new();
    let fault = WordRecord::Fault { delta: 3, kind: FaultKind::ReadIdle, bank: 1 };
    let frame = card.records(&[fault], 0, 3);
    let words = hmtt::decode::Frame::parse(&frame).unwrap().body.unwrap().bytes();
    let mut columns = Columns::default();
    assert_eq!(columns.append(words, Cycles(0)), None);
    assert_eq!(columns.append(&words[..9], Cycles(0)), None);
    assert!(columns.is_empty());
}
