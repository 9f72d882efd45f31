//! Builds the most expensive captures.

use hmtt_format::frame::{FrameKind, Heartbeat};
use hmtt_format::record::{CountGroup, TagSource, WordRecord};

use super::{Input, Shape, is_linear, repeated};
use crate::card::Card;

const MIB: usize = 1 << 20;

/// Returns a shape of the commands that read a capture.
const fn shape(name: &'static str, command: &'static str, input: Input) -> Shape {
    Shape { name, command, extension: "pcapng", input, size: MIB / 2, memory: 16, beside: None }
}

fn block(kind: u32, body: &[u8], bytes: &mut Vec<u8>) {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (body.len() + padding + 12) as u32;
    bytes.extend(kind.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
    bytes.extend(&[0; 4][..padding]);
    bytes.extend(length.to_le_bytes());
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let padding = value.len().next_multiple_of(4) - value.len();
    let mut option = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    option.extend(value);
    option.extend(&[0; 4][..padding]);
    option
}

pub(super) fn section(bytes: &mut Vec<u8>) {
    let fields = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    block(0x0a0d_0d0a, &fields, bytes);
}

/// The end of options.
const END: [u8; 4] = [0; 4];

pub(super) fn interface(options: &[u8], bytes: &mut Vec<u8>) {
    block(1, &[&[1, 0, 0, 0, 0, 0, 0, 0], options, &END].concat(), bytes);
}

pub(super) fn packet(interface: u32, number: u64, frame: &[u8], bytes: &mut Vec<u8>) {
    let length = frame.len() as u32;
    let words = [interface, (number >> 32) as u32, number as u32, length, length];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(frame);
    block(6, &body, bytes);
}

/// Returns a section with one interface, then parts with a counter.
fn capture(size: usize, mut part: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut begin = Vec::new();
    section(&mut begin);
    interface(&option(2, b"eth1"), &mut begin);
    [begin, repeated(size, |count, bytes| part(count, bytes))].concat()
}

fn interfaces(size: usize) -> Vec<u8> {
    capture(size, |count, bytes| interface(&option(2, format!("{count:08}").as_bytes()), bytes))
}

fn unnamed_interfaces(size: usize) -> Vec<u8> {
    capture(size, |_, bytes| interface(&[], bytes))
}

/// Describes the same interface in each section, with another comment.
fn comments(size: usize) -> Vec<u8> {
    repeated(size, |count, bytes| {
        section(bytes);
        let comment = option(1, format!("{count:08}").as_bytes());
        interface(&[option(2, b"eth1"), comment].concat(), bytes);
    })
}

/// Builds statistics of captures that started at different times.
fn statistics(size: usize) -> Vec<u8> {
    capture(size, |count, bytes| {
        let start = option(2, &count.rotate_left(32).to_le_bytes());
        let drops = option(7, &count.to_le_bytes());
        block(5, &[&[0; 12], &start[..], &drops, &END].concat(), bytes);
    })
}

/// Builds descriptions of the maximum length of a block.
fn long_options(size: usize) -> Vec<u8> {
    capture(size, |count, bytes| {
        let text = |number: u64| format!("{:08}", count << 12 | number);
        let comments = (0..4096).map(|number| option(1, text(number).as_bytes()));
        interface(&comments.collect::<Vec<_>>().concat(), bytes);
    })
}

/// Puts each card on its own interface.
fn cards(size: usize) -> Vec<u8> {
    let mut begin = Vec::new();
    section(&mut begin);
    let parts = repeated(size, |count, bytes| {
        interface(&option(2, format!("{count:08}").as_bytes()), bytes);
        packet(count as u32, count, &Card::new().data(2).0, bytes);
    });
    [begin, parts].concat()
}

/// Puts cards on one wire, each of which sends a few frames.
fn many_cards(size: usize) -> Vec<u8> {
    capture(size, |count, bytes| {
        let mut card = Card::new();
        card.counter = count * 1_000_003 % (1 << 39);
        card.clock = count * 7_000_003 % (1 << 47);
        packet(0, count, &card.data(2).0, bytes);
    })
}

fn accesses(size: usize) -> Vec<u8> {
    let mut card = Card::new();
    capture(size, |count, bytes| packet(0, count, &card.data(300).0, bytes))
}

fn compressed(size: usize) -> Vec<u8> {
    zstd::encode_all(&accesses(size * 2)[..], 1).unwrap()
}

fn restarts(size: usize) -> Vec<u8> {
    capture(size, |count, bytes| {
        let mut card = Card::new();
        let heartbeat = card.heartbeat(Heartbeat::default());
        packet(0, count, &heartbeat, bytes);
        for _ in 0..4 {
            card.clock += 1000;
            packet(0, count, &card.data(2).0, bytes);
        }
    })
}

/// Builds marks of all registers, all at the same clock.
fn marks(size: usize) -> Vec<u8> {
    let mut card = Card::new();
    capture(size, |count, bytes| {
        let mark = |value| WordRecord::Tag { delta: 0, source: TagSource::Mark, value };
        let marks: Vec<WordRecord> = (0..180).map(|mark_at| mark(0x100 + mark_at)).collect();
        packet(0, count, &card.records(&marks, 0, 0), bytes);
    })
}

/// Leaves out every second frame, so that each loss is a separate gap.
fn gaps(size: usize) -> Vec<u8> {
    let mut card = Card::new();
    capture(size, |count, bytes| {
        let (frame, _) = card.data(2);
        if !count.is_multiple_of(2) {
            packet(0, count, &frame, bytes);
        }
    })
}

/// Alternates between the frames of two cards.
fn alternating(size: usize) -> Vec<u8> {
    let mut cards = [Card::new(), Card { clock: 1 << 40, counter: 1 << 30, ..Card::new() }];
    let mut begin = Vec::new();
    section(&mut begin);
    for name in ["a", "b"] {
        interface(&option(2, name.repeat(1 << 15).as_bytes()), &mut begin);
    }
    let frames = repeated(size, |count, bytes| {
        let at = (count % 2) as usize;
        packet(at as u32, count, &cards[at].data(2).0, bytes);
    });
    [begin, frames].concat()
}

fn malformed(size: usize) -> Vec<u8> {
    let mut card = Card::new();
    capture(size, |count, bytes| packet(0, count, &card.frame(FrameKind::Data, &[u64::MAX]), bytes))
}

/// Builds counts of the card's analysis, all in different dumps.
fn dumps(size: usize) -> Vec<u8> {
    let mut card = Card::new();
    capture(size, |count, bytes| {
        let dump = count as u8;
        let mut records: Vec<WordRecord> = (0..80)
            .map(|index| WordRecord::Count { dump, group: CountGroup::Reuse, index, value: 1 })
            .collect();
        let page = |page| WordRecord::HotPage { dump, page, count: 2, votes: 3 };
        records.extend((0..40).map(|at| page(count as u32 * 40 + at)));
        packet(0, count, &card.records(&records, 0, 0), bytes);
    })
}

/// Builds frames of the maximum described size with few bytes.
fn fragments(size: usize) -> Vec<u8> {
    let frame = Card::new().data(300).0;
    capture(size, |count, bytes| packet(0, count, &frame[..20], bytes))
}

const INPUTS: [(&str, Input); 14] = [
    ("interfaces", interfaces),
    ("unnamed-interfaces", unnamed_interfaces),
    ("comments", comments),
    ("statistics", statistics),
    ("long-options", long_options),
    ("cards", cards),
    ("many_cards", many_cards),
    ("accesses", accesses),
    ("restarts", restarts),
    ("marks", marks),
    ("gaps", gaps),
    ("turns", alternating),
    ("malformed", malformed),
    ("fragments", fragments),
];

/// Checks all inputs with one command. Those that need the most memory per byte have a higher
/// limit.
fn all_are_linear(verb: &str, command: &'static str) {
    for (name, input) in INPUTS {
        let name: &'static str = format!("{verb}-{name}").leak();
        let memory = match name.rsplit_once('-') {
            _ if name.contains("interfaces") || name.contains("comments") => 64,
            Some((_, "cards" | "options" | "restarts" | "statistics")) => 64,
            _ => 16,
        };
        is_linear(&Shape { memory, ..shape(name, command, input) });
    }
}

#[test]
fn info_is_linear() {
    all_are_linear("info", "info IN");
}

#[test]
fn decode_is_linear() {
    all_are_linear("decode", "decode --format csv IN");
}

#[test]
fn merge_is_linear() {
    all_are_linear("merge", "merge --format csv IN IN");
}

#[test]
fn parquet_is_written_in_linear_time() {
    for (name, input) in [("parquet-restarts", restarts as Input), ("parquet-cards", cards)] {
        is_linear(&Shape {
            memory: 256,
            size: MIB / 4,
            ..shape(name, "convert --to parquet IN OUT", input)
        });
    }
}

#[test]
fn compressed_captures_and_analyses_are_read_in_linear_time() {
    is_linear(&Shape { extension: "pcapng.zst", ..shape("zstd", "decode IN", compressed) });
    is_linear(&shape("analysis-dumps", "analysis IN", dumps));
    is_linear(&shape("analysis-accesses", "analysis IN", accesses));
}
