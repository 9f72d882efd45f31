//! Tests that a trace states exactly what is missing, and where.

use std::time::Duration;

use hmtt::decode::{CardTrace, Counts, Origin, decode_frames};
use hmtt::table::text::text_of;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{COUNTER_MASK, Heartbeat, SYNC_WORDS, WORD_BYTES, WORDS_AT};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{CLOCK_MASK, PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};

use crate::card::Card;
use crate::wire::on_a_wire;

const HEADING: &str = "# clock R|W physical_byte_address_hex";
const NO_END: &str = "# no end frame: the tail may be missing";

/// Returns the text of a trace without its lines of accesses, the number of those lines, and the
/// counts.
fn comments(frames: &[Vec<u8>]) -> (Vec<String>, usize, Counts) {
    let (lines, counts) = text(frames);
    let (comments, accesses): (Vec<String>, Vec<String>) =
        lines.into_iter().partition(|line| line.starts_with('#'));
    (comments, accesses.len(), counts)
}

fn text(frames: &[Vec<u8>]) -> (Vec<String>, Counts) {
    let (items, counts) = decode_frames(frames);
    assert_eq!(on_a_wire(frames), (items.clone(), counts.clone()), "alone on a wire");
    let lines = text_of(&items).lines().map(String::from).collect();
    (lines, counts)
}

#[test]
fn a_complete_session_has_its_accesses_and_no_gap() {
    let (frames, truth) = Card::new().session(20, 370);
    let (lines, counts) = text(&frames);
    let mut expected = vec![HEADING.to_owned()];
    expected.extend(truth.iter().map(ToString::to_string));
    assert_eq!(lines, expected);
    assert_eq!((counts.accesses, counts.frames, counts.gap_count), (20 * 370, 22, 0));
    assert!(counts.complete_tail && !counts.has_loss());
}

#[test]
fn lost_frames_lose_only_their_accesses() {
    let mut card = Card::new();
    let (mut frames, truth) = card.session(10, 100);
    frames.drain(4..7);
    let after = truth[299].clock;
    let before = truth[599].clock;
    let (comments, accesses, counts) = comments(&frames);
    let gap =
        format!("# gap 3 frames missing, 300 accesses lost between clocks {after} and {before}");
    assert_eq!(comments, [HEADING, &gap]);
    assert_eq!((accesses, counts.order.missing_frames, counts.lost_accesses), (700, 3, 300));
    assert_eq!(counts.gaps[0].first_frame, Some(4));
    assert_eq!((counts.gaps[0].after_packet, counts.gaps[0].before_packet), (Some(4), Some(5)));
    assert!(counts.has_loss());
}

#[test]
fn loss_on_the_card_is_separate_from_loss_on_the_wire() {
    let mut card = Card::new();
    let mut frames = vec![card.info(), card.data(10).0];
    let first = card.clock;
    (card.lost, card.accesses, card.clock) = (7, 14, card.clock + 50);
    let second = card.clock;
    frames.push(card.data(10).0);
    let third = card.clock;
    card.data(5);
    (card.lost, card.accesses) = (9, card.accesses + 3);
    let fourth = card.clock;
    frames.extend([card.data(10).0, card.end()]);
    let (comments, accesses, counts) = comments(&frames);
    let on_card = format!(
        "# gap 7 records lost on the card, 4 accesses lost between clocks {first} and {second}"
    );
    let both = format!(
        "# gap 1 frames missing and 2 records lost on the card, 8 accesses lost between clocks \
         {third} and {fourth}"
    );
    assert_eq!(comments, [HEADING, &on_card, &both]);
    assert_eq!((accesses, counts.card_lost_records, counts.lost_accesses), (30, 9, 12));
}

/// A record that is lost in page mode or in frequency mode can represent many accesses, also if the
/// next frame is one of another mode.
#[test]
fn a_record_lost_before_the_unit_changes_represents_many_accesses() {
    let line_log2 = Card::new().unit_log2;
    for unit_log2 in [UNIT_NONE, PAGE_LOG2] {
        let mut card = Card::new();
        let mut frames = vec![card.info()];
        (card.unit_log2, card.clock) = (unit_log2, 1000);
        frames.push(card.info());
        frames.push(card.records(&[], 0, 0));
        (card.unit_log2, card.lost, card.accesses) = (line_log2, 1, card.accesses + 40);
        card.clock += 500;
        frames.extend([card.info(), card.data(7).0, card.end()]);
        let (comments, accesses, counts) = comments(&frames);
        assert_eq!((counts.malformed_frames, counts.card_lost_records), (0, 1), "{comments:?}");
        assert_eq!((accesses, counts.lost_accesses), (7, 40), "{comments:?}");
    }
}

#[test]
fn a_lost_tail_is_reported_with_the_end_frame() {
    let (mut frames, truth) = Card::new().session(5, 100);
    frames.remove(5);
    let (after, before) = (truth[399].clock, truth[499].clock);
    let gap =
        format!("# gap 1 frames missing, 100 accesses lost between clocks {after} and {before}");
    assert_eq!(comments(&frames).0, [HEADING, &gap]);
}

#[test]
fn a_missing_end_and_a_missing_start_are_reported() {
    let (frames, truth) = Card::new().session(5, 100);
    let (comments, accesses, counts) = comments(&frames[2..4]);
    let start = format!("# gap at start: 100 accesses before clock {}", truth[99].clock);
    assert_eq!(comments, [HEADING, &start, NO_END]);
    assert_eq!((accesses, counts.accesses_before_start, counts.lost_accesses), (200, 100, 0));
    assert!(!counts.complete_tail && !counts.has_loss());
}

#[test]
fn a_restarted_card_opens_a_new_session() {
    let (first, _) = Card::new().session(100, 3);
    let (second, _) = Card::new().session(4, 10);
    let frames = [&first[..90], &second[..]].concat();
    let (comments, accesses, counts) = comments(&frames);
    assert_eq!(comments, [HEADING, NO_END, "# card restarted"]);
    assert_eq!(
        (accesses, counts.order.restarts, counts.order.duplicate_frames),
        (89 * 3 + 40, 1, 0)
    );
    assert!(!counts.has_loss());
}

#[test]
fn a_short_session_may_be_followed_by_an_equal_one() {
    let (session, _) = Card::new().session(2, 10);
    let (comments, accesses, counts) = comments(&[&session[..], &session[..]].concat());
    assert_eq!(comments, [HEADING, "# card restarted"]);
    assert_eq!((accesses, counts.order.restarts, counts.order.duplicate_frames), (40, 1, 0));
}

#[test]
fn counts_that_go_back_are_a_restart() {
    let mut card = Card::new();
    let mut frames = vec![card.info(), card.data(10).0];
    (card.accesses, card.clock) = (0, 0);
    frames.extend([card.data(10).0, card.end()]);
    let (comments, accesses, counts) = comments(&frames);
    // The first part has no end frame.
    assert_eq!(comments, [HEADING, NO_END, "# card restarted"]);
    assert_eq!((accesses, counts.order.restarts, counts.lost_accesses), (20, 1, 0));
}

#[test]
fn the_frame_counter_wraps_in_order() {
    let mut card = Card::new();
    card.counter = COUNTER_MASK - 2;
    let (frames, truth) = card.session(8, 10);
    let (lines, counts) = text(&frames);
    assert_eq!(lines.len(), truth.len() + 1);
    assert_eq!((counts.order.restarts, counts.order.missing_frames, counts.gap_count), (0, 0, 0));
}

#[test]
fn clocks_continue_after_48_bits_wrap() {
    let mut card = Card::new();
    card.clock = CLOCK_MASK - 500;
    let (mut frames, truth) = card.session(8, 100);
    frames.remove(5);
    let (comments, accesses, _) = comments(&frames);
    let (after, before) = (truth[399].clock, truth[499].clock);
    assert!(after.0 > CLOCK_MASK && accesses == 700);
    let gap =
        format!("# gap 1 frames missing, 100 accesses lost between clocks {after} and {before}");
    assert_eq!(comments, [HEADING, &gap]);
}

#[test]
fn an_unreadable_frame_is_not_missing() {
    let (mut frames, truth) = Card::new().session(5, 100);
    frames[2][14] ^= 0xf0;
    let (comments, accesses, counts) = comments(&frames);
    let (after, before) = (truth[99].clock, truth[199].clock);
    let gap =
        format!("# gap 1 malformed frames, 100 accesses lost between clocks {after} and {before}");
    assert_eq!(comments, [HEADING, &gap]);
    assert_eq!((accesses, counts.malformed_frames, counts.order.missing_frames), (400, 1, 0));
}

#[test]
fn an_invalid_word_loses_only_the_rest_of_its_frame() {
    let (mut frames, truth) = Card::new().session(3, 100);
    let bad = WORDS_AT + (usize::from(SYNC_WORDS) + 10) * WORD_BYTES;
    frames[2][bad..bad + WORD_BYTES].fill(0xff);
    let (comments, accesses, _) = comments(&frames);
    let (after, before) = (truth[119].clock, truth[199].clock);
    let gap =
        format!("# gap 1 malformed frames, 80 accesses lost between clocks {after} and {before}");
    assert_eq!(comments, [HEADING, &gap]);
    assert_eq!(accesses, 220);
}

#[test]
fn every_kind_of_record_has_its_line() {
    let mut card = Card::new();
    card.clock = 1000;
    let read = TagSource::Window(Direction::Read);
    let write = TagSource::Window(Direction::Write);
    let unknown_base = WordRecord::Tag { delta: 1, source: read, value: 0x10 };
    let mut frames = vec![card.records(&[unknown_base], 1, 1)];
    card.tag_window = Some(0x4000_0000);
    frames.push(card.info());
    let run = PageRun { number: 0x12, reads: 3, writes: 40, duration: 99 };
    let slice = |partial| WordRecord::Slice { code: 0, partial, start: 1000, reads: 5, writes: 6 };
    let records = [
        WordRecord::Tag { delta: 1, source: write, value: 0x18 },
        WordRecord::Tag { delta: 1, source: TagSource::Mark, value: 0x60 },
        WordRecord::Tag { delta: 1, source: TagSource::Mark, value: 0x61 },
        WordRecord::Tag { delta: 1, source: TagSource::Mark, value: 0x105 },
        WordRecord::Fault { delta: 2, kind: FaultKind::ReadIdle, bank: 17 },
    ];
    frames.push(card.records(&records, 1, 6));
    card.unit_log2 = 12;
    frames.push(card.records(
        &[WordRecord::Page { delta: 7, run }, slice(None), slice(Some(42))],
        43,
        7,
    ));
    frames.push(card.end());
    let (lines, _) = text(&frames);
    let expected = [
        HEADING,
        "# tag 1001 R 10",
        "# tag 1002 W 18",
        "1002 W 40000018",
        "# mark 1003 60 kernel_enter",
        "# mark 1004 61 kernel_exit",
        "# mark 1005 105 free 5",
        "# fault 1007 read_idle 17",
        "1014 P 12000 3 40 99",
        "1000 F 100 5 6",
        "1000 F 42 5 6 partial",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn heartbeats_report_the_clock_and_are_in_no_gap() {
    let mut card = Card::new();
    let beat = |running, losses| Heartbeat { running, losses, transmit_clocks: 1_000_000 };
    let ddr_clock = |what: &str, losses: u16| {
        format!(
            "# DDR clock {what} at 8.000 ms of the transmit clock (losses since power-on: {losses})"
        )
    };
    let mut frames = vec![card.heartbeat(beat(false, 1)), card.heartbeat(beat(true, 1))];
    frames.push(card.info());
    frames.push(card.data(100).0);
    frames.push(card.heartbeat(beat(true, 1)));
    // This heartbeat is lost. The next one contains its information.
    let lost = card.heartbeat(beat(false, 2));
    frames.push(card.heartbeat(beat(true, 3)));
    frames.push(card.data(100).0);
    frames.push(card.end());
    frames.push(card.heartbeat(beat(true, 3)));
    let (comments, accesses, counts) = comments(&frames);
    let expected = [
        HEADING.to_owned(),
        ddr_clock("lost", 1),
        ddr_clock("found again", 1),
        ddr_clock("lost and found again", 3),
    ];
    assert_eq!(comments[..4], expected);
    assert!(comments[4].starts_with("# gap 1 frames missing, 0 accesses lost"), "{comments:?}");
    assert_eq!((comments.len(), accesses), (5, 200));
    assert_eq!((counts.heartbeats, counts.ddr_clock_losses, counts.ends), (5, 3, 1));
    assert!(counts.complete_tail, "a heartbeat after the end frame loses no tail");
    assert_eq!(lost.len(), frames[0].len());
}

#[test]
fn a_gap_lies_between_the_arrivals_of_the_frames_around_it() {
    let (mut frames, _) = Card::new().session(6, 10);
    frames.drain(3..5);
    frames.truncate(4);
    let mut trace = CardTrace::default();
    let arrival = |packet: u64| Some(Duration::from_millis(packet * packet));
    for (frame, packet) in frames.iter().zip(1..) {
        let origin = Origin { packet, time: arrival(packet), ..Origin::default() };
        trace.push(origin, frame, &mut |_, _| {});
    }
    trace.push(Origin { packet: 9, ..Origin::default() }, &[], &mut |_, _| {});
    let gap = trace.finish(&mut |_, _| {}).gaps[0];
    assert_eq!((gap.after_packet, gap.before_packet), (Some(3), Some(4)));
    assert_eq!((gap.after_time, gap.before_time), (arrival(3), arrival(4)));
}
