//! Tests frames that were truncated, extended, altered or sent by other devices: they are counted
//! and left out, and all other frames are decoded as if these had been lost.

mod cut;

use hmtt::decode::{Counts, FrameError, Item, Malformation, Origin, Wire};
use hmtt_format::frame::{FrameKind, MAX_FRAME_BYTES, MAX_WORDS, SYNC_WORDS, WORD_BYTES, WORDS_AT};
use hmtt_format::record::{Half, PageRun, TagSource, WordRecord};
use hmtt_format::{Access, Direction, Event, FORMAT_VERSION, FaultKind};

use crate::card::Card;

/// Index of the frame that is damaged, number of frames, and accesses per frame.
const DAMAGED: usize = 4;
const FRAMES: usize = 8;
const ACCESSES: usize = 40;

/// A session, and the accesses of all frames except the damaged one.
struct Session {
    frames: Vec<Vec<u8>>,
    truth: Vec<Access>,
    others: Vec<Access>,
}

impl Session {
    fn new() -> Self {
        let (frames, truth) = Card::new().session(FRAMES, ACCESSES as u64);
        let mut others = truth.clone();
        others.drain((DAMAGED - 1) * ACCESSES..DAMAGED * ACCESSES);
        Session { frames, truth, others }
    }

    fn damaged(&self) -> &[u8] {
        &self.frames[DAMAGED]
    }

    /// Decodes the session with this frame in place of the damaged one.
    fn with(&self, frame: Vec<u8>) -> Read {
        let mut frames = self.frames.clone();
        frames[DAMAGED] = frame;
        Read::new(&frames)
    }
}

/// The decoded content of a wire.
struct Read {
    items: Vec<Item>,
    counts: Counts,
}

impl Read {
    fn new(frames: &[Vec<u8>]) -> Self {
        let (mut wire, mut items) = (Wire::default(), Vec::new());
        let mut sink = |_, item| items.push(item);
        for (frame, packet) in frames.iter().zip(1..) {
            wire.push(Origin { packet, ..Origin::default() }, frame, &mut sink);
        }
        let counts = wire.finish(&mut sink).sum();
        assert_eq!(counts.frames + counts.foreign_frames, frames.len() as u64);
        Read { items, counts }
    }

    fn accesses(&self) -> Vec<Access> {
        let access = |item: &Item| match item {
            Item::Event(Event::Access(access)) => Some(*access),
            _ => None,
        };
        self.items.iter().filter_map(access).collect()
    }

    fn errors(&self) -> Vec<Malformation> {
        let error = |item: &Item| match item {
            Item::Malformed { error, .. } => Some(*error),
            _ => None,
        };
        self.items.iter().filter_map(error).collect()
    }

    /// Whether only the damaged frame is missing, with the number of its accesses.
    fn is_without_one(&self, session: &Session) -> bool {
        let Counts { order, foreign_frames, malformed_frames, lost_accesses, .. } = self.counts;
        self.accesses() == session.others
            && lost_accesses == ACCESSES as u64
            && order.missing_frames == foreign_frames
            && foreign_frames + malformed_frames == 1
            && order.restarts == 0
    }
}

#[test]
fn a_truncated_frame_is_counted_and_left_out() {
    let session = Session::new();
    for length in 0..session.damaged().len() {
        let read = session.with(session.damaged()[..length].to_vec());
        assert!(read.is_without_one(&session), "cut to {length}: {:?}", read.counts);
        // Destination, source and EtherType make it a card's frame.
        assert_eq!(read.counts.malformed_frames, u64::from(length >= 14), "cut to {length}");
    }
}

#[test]
fn bytes_after_the_words_of_a_frame_are_ignored() {
    let session = Session::new();
    for extra in [1, 4, 46, MAX_FRAME_BYTES, 9000] {
        let read = session.with([session.damaged(), &vec![0xa5; extra]].concat());
        assert_eq!(read.accesses(), session.truth, "{extra} bytes more");
        assert!(!read.counts.has_loss());
    }
}

#[test]
fn an_impossible_word_count_is_rejected() {
    let session = Session::new();
    let jumbo = [session.damaged(), &[0; 9000]].concat();
    for words in (0..SYNC_WORDS).chain(MAX_WORDS + 1..=u8::MAX) {
        let mut frame = jumbo.clone();
        frame[15] = words;
        let read = session.with(frame);
        assert!(read.is_without_one(&session), "{words} words: {:?}", read.counts);
        assert_eq!(read.errors(), [FrameError::WordCount(words).into()]);
    }
}

#[test]
fn frames_of_other_versions_and_kinds_are_rejected() {
    let session = Session::new();
    let with_first = |first: u8| {
        let mut frame = session.damaged().to_vec();
        frame[14] = first;
        session.with(frame)
    };
    for version in (0..16).filter(|version| *version != FORMAT_VERSION) {
        let read = with_first(version << 4);
        assert!(read.is_without_one(&session), "version {version}: {:?}", read.counts);
        assert_eq!(read.errors(), [FrameError::Version(version).into()]);
    }
    for kind in 4..16 {
        let read = with_first(FORMAT_VERSION << 4 | kind);
        assert!(read.is_without_one(&session), "kind {kind}: {:?}", read.counts);
        assert_eq!(read.errors(), [FrameError::Kind(kind).into()]);
    }
}

#[test]
fn frames_of_other_ethertypes_are_counted_as_foreign() {
    let session = Session::new();
    // IPv4, ARP, VLAN, IPv6, the other experimental EtherType, a length, and each bit of ours
    // flipped.
    let others = [0x0800, 0x0806, 0x8100, 0x86dd, 0x88b6, 46];
    let bits = (0..16).map(|bit| 0x88b5 ^ 1 << bit);
    for ether_type in others.into_iter().chain(bits) {
        let mut frame = session.damaged().to_vec();
        frame[12..14].copy_from_slice(&u16::to_be_bytes(ether_type));
        let mut frames = session.frames.clone();
        frames.insert(DAMAGED, frame.clone());
        let beside = Read::new(&frames);
        assert_eq!(beside.accesses(), session.truth, "{ether_type:04x}");
        assert!(!beside.counts.has_loss() && beside.counts.foreign_frames == 1);
        let instead = session.with(frame);
        assert!(instead.is_without_one(&session), "{ether_type:04x}: {:?}", instead.counts);
        assert_eq!(instead.counts.foreign_frames, 1);
    }
}

/// Returns the frame with one bit flipped.
fn flipped(frame: &[u8], bit: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[bit / 8] ^= 0x80 >> (bit % 8);
    frame
}

/// Whether all of `accesses` are among `candidates`, in order.
fn are_within(accesses: &[Access], candidates: &[Access]) -> bool {
    let mut candidates = candidates.iter();
    accesses.iter().all(|access| candidates.any(|other| other == access))
}

#[test]
fn flipping_any_bit_of_a_frame_keeps_the_other_frames() {
    let session = Session::new();
    for bit in 0..session.damaged().len() * 8 {
        let read = session.with(flipped(session.damaged(), bit));
        let Counts { accesses, lost_accesses, order, .. } = read.counts;
        let total = session.truth.len() as u64;
        let counted = (accesses, lost_accesses, order.restarts);
        match bit / 8 {
            // Addresses and EtherType.
            0..7 | 12..14 => assert!(read.is_without_one(&session), "bit {bit}"),
            // Frame counter, version, kind, and a word count beyond the length: nothing is decoded.
            // A smaller word count: fewer records. Counts in the sync: a gap before the frame, or
            // nothing is decoded.
            7..12 | 14 | 15 | 26..34 => {
                assert_eq!((accesses + lost_accesses, order.restarts), (total, 0), "bit {bit}")
            }
            // The header field is repeated in the sync.
            16 | 17 => assert_eq!(read.accesses(), session.truth, "bit {bit}"),
            // Segment and unit in the sync: addresses may be wrong, the number of accesses is
            // known.
            18 | 19 => assert_eq!(counted, (total, 0, 0), "bit {bit}"),
            // Clock in the sync: those of the frames around contradict it.
            20..26 => assert!(read.is_without_one(&session), "bit {bit}: {:?}", read.counts),
            // Direction, delta and number of an access.
            _ => assert_eq!(counted, (total, 0, 0), "bit {bit}"),
        }
        assert!(are_within(&session.others, &read.accesses()), "bit {bit}: {:?}", read.counts);
    }
}

/// Builds records of every kind, and half words that differ from another kind in one bit.
fn mixed(card: &mut Card) -> Vec<u8> {
    let direction = Direction::Write;
    let access = |delta| Half::Access { direction, delta, number: 0x155_5555 }.encode();
    let mut halves: Vec<u32> = [15, 23, 27, 29, 30, 0].map(access).to_vec();
    halves.extend([Half::Skip(0x5555).encode(), Half::Segment { segment: 5, skip: 3 }.encode()]);
    let run = |reads| PageRun { number: 7, reads, writes: 3, duration: 9 };
    let records = [
        WordRecord::Tag { delta: 1, source: TagSource::Mark, value: 0x60 },
        WordRecord::Fault { delta: 1, kind: FaultKind::ReadIdle, bank: 3 },
        WordRecord::Page { delta: 1, run: run(3) },
        WordRecord::Page { delta: 1, run: run(300) },
        WordRecord::Slice { code: 9, partial: Some(7), start: 50, reads: 1, writes: 2 },
        WordRecord::Interval { part: 3, clock: 50 },
        WordRecord::HotPage { dump: 1, page: 5, count: 3, votes: 4 },
    ];
    let mut words: Vec<u64> =
        halves.chunks(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect();
    for record in records {
        let (first, rest) = record.encode();
        words.extend(std::iter::once(first).chain(rest.into_iter().flatten()));
    }
    let frame = card.frame(FrameKind::Data, &words);
    card.accesses += 6 + 3 + 3 + 300 + 3;
    card.clock += 1000;
    frame
}

#[test]
fn flipping_any_bit_of_a_record_keeps_the_other_records() {
    let mut card = Card::new();
    let mut frames = vec![card.info()];
    let (before, mut others) = card.data(20);
    let mixed = mixed(&mut card);
    let after = [card.data(20), card.data(20)];
    others.extend(after.iter().flat_map(|(_, truth)| truth));
    let produced = card.accesses;
    frames.extend([before, mixed.clone()]);
    frames.extend(after.into_iter().map(|(frame, _)| frame));
    frames.push(card.end());
    let whole = Read::new(&frames);
    assert_eq!((whole.counts.accesses, whole.counts.lost_accesses), (produced, 0));
    let first = (WORDS_AT + usize::from(SYNC_WORDS) * WORD_BYTES) * 8;
    for bit in first..mixed.len() * 8 {
        frames[2] = flipped(&mixed, bit);
        let read = Read::new(&frames);
        let Counts { accesses, lost_accesses, malformed_frames, order, .. } = read.counts;
        assert!(are_within(&others, &read.accesses()), "bit {bit}: {:?}", read.counts);
        assert_eq!(order.missing_frames, 0, "bit {bit}");
        assert!(malformed_frames <= 1, "bit {bit}");
        // Records that became more accesses are detected when the next frame's count is lower.
        let excess = read.errors().into_iter().map(|error| match error {
            Malformation::Excess(excess) => excess,
            _ => 0,
        });
        let (counted, sent) = (accesses + lost_accesses, produced + excess.sum::<u64>());
        assert_eq!((counted, order.restarts), (sent, 0), "bit {bit}: {:?}", read.counts);
    }
}
