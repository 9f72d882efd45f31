//! Tests that `Trace` returns what the decoder returns for a capture's frames, in every way of
//! reading.

use std::cell::Cell;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::rc::Rc;

use hmtt::decode::{Item, decode_frames};
use hmtt::merge::{Merge, Options};
use hmtt::pcapng::ReadError;
use hmtt::{CardId, LinkId, Trace};
use hmtt_format::{Access, Event};
use hmtt_test_support::clocks::{self, STEADY};

use crate::card::Card;
use crate::{capture, capture_file};

/// Returns a session of twenty frames, of which the eighth was lost.
fn session_with_a_gap() -> Vec<Vec<u8>> {
    let (mut frames, _) = Card::new().session(20, 300);
    frames.remove(8);
    frames
}

fn open(bytes: Vec<u8>) -> Trace<Cursor<Vec<u8>>> {
    Trace::from_reader(Cursor::new(bytes)).expect("a capture")
}

fn access(item: &Item) -> Option<Access> {
    if let Item::Event(Event::Access(access)) = item { Some(*access) } else { None }
}

/// Removes the position in the file from gaps, because frames alone do not have it.
fn without_places(items: Vec<Item>) -> Vec<Item> {
    let clear = |item| match item {
        Item::Gap(gap) => {
            Item::Gap(Box::new(hmtt::decode::Gap { after_time: None, before_time: None, ..*gap }))
        }
        other => other,
    };
    items.into_iter().map(clear).collect()
}

#[test]
fn items_equal_those_of_the_decoder() {
    let frames = session_with_a_gap();
    let expected = without_places(decode_frames(&frames).0);
    let mut trace = open(capture(&frames));
    let items: Result<Vec<(CardId, Item)>, ReadError> = trace.items().collect();
    let (cards, items): (Vec<_>, Vec<_>) = items.unwrap().into_iter().unzip();
    assert!(cards.iter().all(|card| *card == CardId(0)));
    assert_eq!(without_places(items), expected);
    assert!(expected.iter().any(|item| matches!(item, Item::Gap(_))), "the capture has a gap");
}

#[test]
fn accesses_and_batches_equal_those_of_the_items() {
    let bytes = capture(&session_with_a_gap());
    let items = open(bytes.clone()).items().map(|next| next.unwrap().1).collect::<Vec<_>>();
    let expected: Vec<Access> = items.iter().filter_map(access).collect();
    assert_eq!(expected.len(), 19 * 300);
    let one_by_one: Vec<Access> = open(bytes.clone()).accesses().map(Result::unwrap).collect();
    assert_eq!(one_by_one, expected);
    let (mut trace, mut batched, mut others) = (open(bytes), Vec::new(), Vec::new());
    while let Some(batch) = trace.next_batch().unwrap() {
        batched.extend(batch.accesses.iter());
        assert_eq!(batch.interface.and_then(|interface| interface.name.as_deref()), Some("veth1"));
        others.extend(batch.item);
    }
    assert_eq!(batched, expected);
    let rest: Vec<Item> = items.into_iter().filter(|item| access(item).is_none()).collect();
    assert_eq!(others, rest);
}

#[test]
fn a_reader_may_change_the_way_of_reading_within_a_batch() {
    let bytes = capture(&session_with_a_gap());
    let expected: Vec<Access> = open(bytes.clone()).accesses().map(Result::unwrap).collect();
    let mut trace = open(bytes);
    let mut accesses: Vec<Access> = trace.accesses().take(10).map(Result::unwrap).collect();
    let batch = trace.next_batch().unwrap().expect("more follows");
    accesses.extend(batch.accesses.iter());
    accesses.extend(trace.items().filter_map(|next| access(&next.unwrap().1)));
    assert_eq!(accesses, expected);
}

#[test]
fn counts_are_complete_wherever_the_reader_stopped() {
    let frames = session_with_a_gap();
    let expected = decode_frames(&frames).1;
    for count in [0, 1, 500, usize::MAX] {
        let mut trace = open(capture(&frames));
        assert_eq!(trace.accesses().take(count).filter(Result::is_err).count(), 0);
        let counts = trace.counts().unwrap().sum();
        assert_eq!((counts.accesses, counts.lost_accesses), (19 * 300, 300), "{count} taken");
        assert_eq!(counts.order.missing_frames, expected.order.missing_frames);
        assert!(counts.has_loss());
    }
}

#[test]
fn one_card_of_two_can_be_chosen() {
    let mut frames = Vec::new();
    let (first, first_truth) = Card::new().session(5, 20);
    let (second, second_truth) = Card { counter: 1 << 30, ..Card::new() }.session(5, 30);
    for (first_frame, second_frame) in first.into_iter().zip(second) {
        frames.extend([first_frame, second_frame]);
    }
    let mut trace = open(capture(&frames)).only(CardId(1));
    let accesses: Vec<Access> = trace.accesses().map(Result::unwrap).collect();
    assert_eq!(accesses, second_truth);
    let counts = trace.counts().unwrap();
    assert_eq!(counts.cards[0].counts.accesses, first_truth.len() as u64);
}

#[test]
fn items_before_damage_are_returned_before_the_error() {
    let frames = session_with_a_gap();
    let mut bytes = capture(&frames);
    let whole = open(bytes.clone()).accesses().count();
    // A length in the middle of the file is made invalid.
    let middle = bytes.len() / 2;
    let payload: &[u8] = &frames[10][..14];
    let at = middle
        + bytes[middle..].windows(14).position(|bytes| bytes[12..] == payload[12..]).unwrap();
    bytes[at - 24..at - 20].copy_from_slice(&[3, 0, 0, 0]);
    let path = capture_file("front-door-damaged", &[]);
    std::fs::write(&path, &bytes).unwrap();
    let mut trace = Trace::open(&path).unwrap();
    let results: Vec<Result<Access, ReadError>> = trace.accesses().collect();
    let good = results.iter().filter(|result| result.is_ok()).count();
    assert!(0 < good && good < whole, "{good} of {whole}");
    assert!(matches!(results.last(), Some(Err(ReadError::Damaged { .. }))));
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
}

#[test]
fn compressed_captures_can_be_read_from_any_reader() {
    let bytes = capture(&session_with_a_gap());
    let compressed = zstd::encode_all(&bytes[..], 1).unwrap();
    let plain: Vec<Access> = open(bytes).accesses().map(Result::unwrap).collect();
    let unpacked: Vec<Access> = open(compressed).accesses().map(Result::unwrap).collect();
    assert_eq!(unpacked, plain);
}

/// A reader that borrows its bytes, cannot be sent to another thread, and returns few bytes at
/// once.
struct Borrowed<'a>(Rc<Cell<&'a [u8]>>);

impl Read for Borrowed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.0.get();
        let count = buffer.len().min(1000);
        let read = rest.read(&mut buffer[..count])?;
        self.0.set(rest);
        Ok(read)
    }
}

#[test]
fn a_reader_may_be_borrowed_and_of_one_thread() {
    let bytes = capture(&session_with_a_gap());
    let rest = Rc::new(Cell::new(&bytes[..]));
    let mut trace = Trace::from_reader(Borrowed(rest.clone())).unwrap();
    let accesses: Vec<Access> = trace.accesses().map(Result::unwrap).collect();
    let expected: Vec<Access> = open(bytes.clone()).accesses().map(Result::unwrap).collect();
    assert_eq!(accesses, expected);
    assert!(rest.get().is_empty());
}

#[test]
fn a_trace_of_files_can_be_sent_to_a_thread() {
    let path = capture_file("sent-to-a-thread", &session_with_a_gap());
    let mut trace = Trace::open(&path).unwrap();
    let read = std::thread::spawn(move || trace.accesses().filter(Result::is_ok).count());
    assert_eq!(read.join().unwrap(), 19 * 300);
}

/// Writes captures of two cards with different clocks, the second of which has lost a frame.
fn two_captures(name: &str) -> [PathBuf; 2] {
    let steady = clocks::capture(&format!("{name}-a"), STEADY, true);
    [steady, capture_file(&format!("{name}-b"), &session_with_a_gap())]
}

#[test]
fn a_merged_trace_has_the_items_of_a_merge_with_the_cards_of_all_captures() {
    let paths = two_captures("open-merged");
    let merge = Merge::survey(&paths, &Options::default()).unwrap();
    let sources: Vec<CardId> = merge.sessions().map(|(session, _)| session.source).collect();
    let mut expected = Vec::new();
    let kept = merge.run(|session, item| {
        expected.push((sources[session], item));
        true
    });
    kept.unwrap();
    let items: Result<Vec<_>, ReadError> = Trace::merged(&paths).unwrap().items().collect();
    assert!(items.unwrap() == expected);
    let accesses: Vec<Access> =
        Trace::merged(&paths).unwrap().accesses().map(Result::unwrap).collect();
    let of_items = expected.iter().filter_map(|(_, item)| access(item));
    assert!(of_items.eq(accesses.iter().copied()));
    assert!(accesses.is_sorted_by_key(|access| access.clock));
    let second = Trace::merged(&paths).unwrap().only(CardId(1)).accesses().count();
    assert_eq!(second, 19 * 300);
}

#[test]
fn a_merged_trace_has_the_counts_and_interfaces_of_all_captures() {
    let paths = two_captures("counts-merged");
    let mut alone = paths.each_ref().map(|path| Trace::open(path).unwrap());
    let alone = alone.each_mut().map(|trace| trace.counts().unwrap().clone());
    let mut trace = Trace::merged(&paths).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = trace.next_batch().unwrap() {
        let interface = batch.interface.and_then(|interface| interface.name.clone());
        batches.push((batch.card, interface));
    }
    let names: Vec<_> = trace.interfaces().iter().map(|interface| interface.name.clone()).collect();
    assert_eq!(names.len(), 2);
    for (card, interface) in batches {
        assert_eq!(interface, names[card.0]);
    }
    let counts = trace.counts().unwrap();
    assert_eq!(counts.cards.len(), 2);
    for (card, alone) in counts.cards.iter().zip(&alone) {
        assert_eq!(card.counts, alone.cards[0].counts);
    }
    assert_eq!(
        counts.cards.iter().map(|card| card.link).collect::<Vec<_>>(),
        [LinkId(0), LinkId(1)]
    );
}

#[test]
fn a_capture_that_cannot_be_read_is_named_by_a_merged_trace() {
    let [first, second] = two_captures("unread-merged");
    let merge = Merge::survey(&[first, second.clone()], &Options::default()).unwrap();
    let mut bytes = std::fs::read(&second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xff);
    std::fs::write(&second, bytes).unwrap();
    let mut trace = Trace::from_merge(&merge).unwrap();
    let errors: Vec<ReadError> = trace.accesses().filter_map(Result::err).collect();
    assert!(
        matches!(&errors[..], [ReadError::Capture { path, .. }] if *path == second),
        "{errors:?}"
    );
}
