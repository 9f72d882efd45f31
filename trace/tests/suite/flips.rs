//! Flips any one bit of one frame, and checks that decoded and reported lost accesses still add up
//! to what the card sent.
//!
//! Guarantees with good frames before and after the damaged one: `accesses + lost_accesses` is the
//! card's own count, except for accesses that altered records of the damaged frame stand for, which
//! are reported ([`Malformation::Excess`]); and from all other frames nothing is decoded that was
//! not sent. The records of the damaged frame itself may be decoded with the wrong clock, address,
//! direction or kind.

use std::collections::HashSet;

use hmtt::decode::{Counts, Item, Malformation, Origin, Wire, decode_frames};
use hmtt_format::frame::{FrameKind, Heartbeat, WORDS_AT};
use hmtt_format::record::{TagSource, WordRecord};
use hmtt_format::{Access, Direction, Event};
use proptest::prelude::*;

use crate::card::Card;

/// Number of bits before the records: MAC header, payload header, sync.
const HEADERS: usize = (WORDS_AT + 16) * 8;

/// Offset of a frame's kind, in the low half of its byte.
const KIND_AT: usize = 14;

/// A frame that the card sends, or a loss on the card.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Data(u64),
    /// Marks, which do not count as accesses.
    Marks,
    Info,
    Beat,
    /// Numbers of records lost on the card, and of accesses among them.
    Lost(u32, u64),
}

/// What a card sent, and the accesses of each frame.
struct Session {
    frames: Vec<Vec<u8>>,
    truth: Vec<Vec<Access>>,
    /// The card's count of accesses before the first frame and after the last.
    counted: (u64, u64),
}

impl Session {
    fn new(mut card: Card, sent: &[Sent]) -> Self {
        let start = card.accesses;
        let (mut frames, mut truth) = (Vec::new(), Vec::new());
        for sent in sent {
            let (frame, accesses) = match *sent {
                Sent::Data(count) => card.data(count),
                Sent::Marks => (marks(&mut card), Vec::new()),
                Sent::Info => (card.info(), Vec::new()),
                Sent::Beat => (beat(&mut card), Vec::new()),
                Sent::Lost(records, accesses) => {
                    card.lost += records;
                    card.accesses += accesses;
                    continue;
                }
            };
            frames.push(frame);
            truth.push(accesses);
        }
        for _ in 0..3 {
            frames.push(card.end());
            truth.push(Vec::new());
        }
        Session { frames, truth, counted: (start, card.accesses) }
    }

    /// Drops frames on the wire, except the end frames.
    fn without(mut self, lost: &[bool]) -> Self {
        let records = self.frames.len() - 3;
        let lost = |at: usize| at < records && lost.get(at) == Some(&true);
        let kept: Vec<usize> = (0..self.frames.len()).filter(|at| !lost(*at)).collect();
        self.frames = kept.iter().map(|at| self.frames[*at].clone()).collect();
        self.truth = kept.iter().map(|at| self.truth[*at].clone()).collect();
        self
    }

    /// Flips a bit of a frame. Returns the counts, or what is wrong with them.
    fn check(&self, at: usize, bit: usize) -> Result<Counts, String> {
        let mut frames = self.frames.clone();
        frames[at][bit / 8] ^= 0x80 >> (bit % 8);
        let (items, counts, cards) = read(&frames);
        let excess_of = |item: &Item| match item {
            Item::Malformed { error: Malformation::Excess(excess), .. } => *excess,
            _ => 0,
        };
        let excess: u64 = items.iter().map(excess_of).sum();
        let sum = counts.accesses + counts.lost_accesses + counts.accesses_before_start;
        let why = |what: &str| {
            let Counts {
                accesses,
                lost_accesses,
                accesses_before_start,
                order,
                malformed_frames,
                ..
            } = &counts;
            Err(format!(
                "frame {at} of {} bit {bit}: {what}: sent {:?}, read {accesses}, lost {lost_accesses}, before \
                 {accesses_before_start}, excess {excess}, malformed {malformed_frames}, {cards} cards, {order:?}",
                frames.len(),
                self.counted
            ))
        };
        // After the last frame nothing shows which kind it had.
        let own = decode_frames([&frames[at]]).1.accesses;
        let excess = excess + if at + 1 == frames.len() { own } else { 0 };
        // A restart reports again what was counted before.
        let expected = match counts.order.restarts {
            0 => sum,
            _ => counts.accesses + counts.lost_accesses + self.counted.0,
        };
        if expected != self.counted.1 + excess {
            return why("sum");
        }
        if counts.frames + counts.foreign_frames != frames.len() as u64 {
            return why("frames");
        }
        if !self.is_true(at, &frames[at], &items) {
            return why("invented");
        }
        Ok(counts)
    }

    /// Whether all decoded accesses, except those of the damaged frame, were sent in this order.
    fn is_true(&self, at: usize, damaged: &[u8], items: &[Item]) -> bool {
        let place = |access: &Access| (access.address, access.direction == Direction::Write);
        let own: HashSet<_> = accesses(&decode_frames([damaged]).0).iter().map(place).collect();
        let others = self.truth.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others = others.flat_map(|(_, truth)| truth);
        let decoded = accesses(items);
        let mut decoded = decoded.iter().filter(|access| !own.contains(&place(access)));
        decoded.all(|access| others.any(|other| other == access))
    }
}

fn accesses(items: &[Item]) -> Vec<Access> {
    let access = |item: &Item| match item {
        Item::Event(Event::Access(access)) => Some(*access),
        _ => None,
    };
    items.iter().filter_map(access).collect()
}

fn read(frames: &[Vec<u8>]) -> (Vec<Item>, Counts, usize) {
    let (mut wire, mut items) = (Wire::default(), Vec::new());
    let mut sink = |_, item| items.push(item);
    for (frame, packet) in frames.iter().zip(1..) {
        wire.push(Origin { packet, ..Origin::default() }, frame, &mut sink);
    }
    let counts = wire.finish(&mut sink);
    (items, counts.sum(), counts.cards.len())
}

fn marks(card: &mut Card) -> Vec<u8> {
    let mark = WordRecord::Tag { delta: 1, source: TagSource::Mark, value: 0x60 };
    card.records(&[mark; 5], 0, 5)
}

fn beat(card: &mut Card) -> Vec<u8> {
    let transmit_clocks = 1_000_000 + card.counter;
    card.heartbeat(Heartbeat { running: true, losses: 0, transmit_clocks })
}

/// Returns a card that has been running for a while.
fn card() -> Card {
    Card { counter: 1000, accesses: 5000, clock: 1 << 30, lost: 3, ..Card::new() }
}

const MIXED: [Sent; 14] = [
    Sent::Info,
    Sent::Data(20),
    Sent::Data(1),
    Sent::Marks,
    Sent::Data(31),
    Sent::Beat,
    Sent::Data(17),
    Sent::Info,
    Sent::Marks,
    Sent::Lost(4, 3),
    Sent::Data(40),
    Sent::Data(9),
    Sent::Info,
    Sent::Data(12),
];

/// Kinds of the frames with counts among these.
fn kinds<'a>(frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let kinds = frames.into_iter().map(|frame| frame[KIND_AT] & 15);
    kinds.filter(|kind| *kind != FrameKind::Heartbeat as u8).collect()
}

#[test]
fn a_flipped_bit_of_a_clock_shifts_no_frame_and_is_reported() {
    const SENT: [Sent; 12] = [
        Sent::Info,
        Sent::Data(20),
        Sent::Data(1),
        Sent::Marks,
        Sent::Data(31),
        Sent::Beat,
        Sent::Data(17),
        Sent::Data(40),
        Sent::Info,
        Sent::Data(9),
        Sent::Data(12),
        Sent::Data(30),
    ];
    let session = Session::new(card(), &SENT);
    let whole = accesses(&read(&session.frames).0);
    for at in 0..session.frames.len() {
        // Nothing bounds the clock of the first data frame.
        const DATA: u8 = FrameKind::Data as u8;
        let is_data = session.frames[at][KIND_AT] & 15 == DATA;
        if !is_data || !kinds(&session.frames[..at]).contains(&DATA) {
            continue;
        }
        let is_before_data = kinds(&session.frames[at + 1..]).first() == Some(&DATA);
        for bit in 16..64 {
            let mut frames = session.frames.clone();
            frames[at][WORDS_AT + bit / 8] ^= 0x80 >> (bit % 8);
            let (items, counts, cards) = read(&frames);
            let place = format!("frame {at} bit {bit}: {counts:?}");
            assert_ne!(counts.malformed_frames + counts.foreign_frames, 0, "{place}");
            assert_eq!((cards, counts.order.restarts), (1, 0), "{place}");
            // A report after the frame only bounds its clock.
            if is_before_data {
                let decoded = accesses(&items);
                assert!(decoded.iter().all(|access| whole.contains(access)), "{place}");
                let own = session.truth[at].len() as u64;
                assert_eq!(
                    (decoded.len() as u64, counts.lost_accesses),
                    (whole.len() as u64 - own, own)
                );
            }
        }
    }
}

#[test]
fn altered_clocks_of_records_are_reported() {
    let session = Session::new(card(), &[Sent::Data(20), Sent::Data(9), Sent::Data(12)]);
    let mut frames = session.frames.clone();
    // A bit of the first access's delta.
    frames[1][WORDS_AT + 16] ^= 0x10;
    let (items, counts, _) = read(&frames);
    let damaged = |item: &Item| match item {
        Item::Malformed { origin, error: Malformation::EndClock } => Some(origin.packet),
        _ => None,
    };
    assert_eq!(items.iter().filter_map(damaged).collect::<Vec<_>>(), [2]);
    assert_eq!((counts.malformed_frames, counts.accesses, counts.lost_accesses), (1, 41, 0));
}

#[test]
fn a_pause_without_records_is_no_damage() {
    let mut card = card();
    let mut frames = vec![card.info(), card.data(3).0];
    for pause in [1 << 24, 1 << 25, 1 << 40] {
        card.clock += pause;
        frames.extend([card.data(5).0, card.info()]);
        card.clock += pause;
        frames.extend([card.data(5).0, card.data(4).0]);
    }
    frames.push(card.end());
    let (_, counts, cards) = read(&frames);
    assert_eq!((counts.malformed_frames, counts.lost_accesses, cards), (0, 0, 1));
}

#[test]
fn a_report_with_a_damaged_kind_is_not_read_as_records() {
    let session = Session::new(
        card(),
        &[Sent::Data(20), Sent::Info, Sent::Lost(9, 9), Sent::Data(30), Sent::Data(5)],
    );
    let mut frames = session.frames.clone();
    frames[1][KIND_AT] ^= FrameKind::Info as u8;
    let (items, counts, cards) = read(&frames);
    let whole = accesses(&read(&session.frames).0);
    assert_eq!(accesses(&items), whole);
    assert_eq!((counts.malformed_frames, counts.order.restarts, cards), (1, 0, 1));
    assert_eq!(counts.lost_accesses, 9);
}

#[test]
fn flipping_any_bit_of_any_kind_of_frame_keeps_the_counts() {
    let mut bad = Vec::new();
    for start in [card(), Card::new()] {
        let session = Session::new(start, &MIXED);
        for at in 0..session.frames.len() {
            for bit in 0..session.frames[at].len() * 8 {
                bad.extend(session.check(at, bit).err());
            }
        }
    }
    assert!(bad.is_empty(), "{} of them:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn flipping_any_bit_of_a_long_session_keeps_the_counts() {
    let session = Session::new(card(), &[&[Sent::Info][..], &[Sent::Data(7); 200]].concat());
    let mut bad = Vec::new();
    for at in [0, 1, 2, 100, 140, 197, 199, 200, 201, 202, 203] {
        for bit in 0..session.frames[at].len() * 8 {
            bad.extend(session.check(at, bit).err());
        }
    }
    assert!(bad.is_empty(), "{} of them:\n{}", bad.len(), bad.join("\n"));
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        8 => (1..60u64).prop_map(Sent::Data),
        2 => Just(Sent::Marks),
        1 => Just(Sent::Info),
        1 => Just(Sent::Beat),
        1 => (1..5u32).prop_flat_map(|lost| (Just(lost), 0..=u64::from(lost)))
            .prop_map(|(lost, accesses)| Sent::Lost(lost, accesses)),
    ]
}

proptest! {
    #[test]
    fn flipping_a_bit_of_a_lossy_capture_keeps_the_counts(
        sent in prop::collection::vec(sent(), 6..150),
        lost in prop::collection::vec(prop::bool::weighted(0.1), 150),
        at: prop::sample::Index,
        bit in 0..HEADERS,
        kept in 0..20u64,
    ) {
        let mut start = card();
        start.counter += kept;
        let contents: Vec<Sent> = [&[Sent::Info, Sent::Data(5)][..], &sent].concat();
        let lost = [&[false, false][..], &lost].concat();
        let session = Session::new(start, &contents).without(&lost);
        // There is a good frame before and after the damaged one.
        let at = 1 + at.index(session.frames.len() - 2);
        if let Err(what) = session.check(at, bit) {
            return Err(TestCaseError::fail(what));
        }
    }
}
