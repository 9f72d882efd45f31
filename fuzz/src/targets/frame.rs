//! Compares the parser of Ethernet frames with a model of the document.

use hmtt::decode::Frame;
use hmtt::decode::frame::Body;
use hmtt_format::Report;
use hmtt_format::info::{DYNAMIC_WORDS, MAX_STATIC_WORDS, StaticWords};

/// Kind and words of a frame as the document defines them; `None` if the frame cannot be read.
type Plain = Option<(u8, Vec<u64>)>;

/// Parses a frame by the offsets in the document's table.
fn plain(bytes: &[u8]) -> Option<(u64, Plain)> {
    let header = bytes.get(..14)?;
    if header[..7] != *b"\x02HMTT\x00\x02" || header[12..] != [0x88, 0xb5] {
        return None;
    }
    let counter = header[7..12].iter().fold(0, |counter, byte| counter * 256 + u64::from(*byte));
    Some((counter, plain_words(bytes)))
}

fn plain_words(bytes: &[u8]) -> Plain {
    let (first, count) = (*bytes.get(14)?, usize::from(*bytes.get(15)?));
    let words = bytes.get(18..18 + 8 * count)?;
    if first / 16 != 3 || first % 16 > 3 || !(2..=187).contains(&count) {
        return None;
    }
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let words: Vec<u64> = words.chunks(8).map(word).collect();
    let is_beat =
        count == 2 && bytes[16..18] == [0, 0] && words[0] << 1 >> 17 == 0 && words[1] >> 48 == 0;
    let is_damaged = match first % 16 {
        0 => is_report(&words),
        3 => !is_beat,
        _ => false,
    };
    (!is_damaged).then_some((first % 16, words))
}

/// Whether the words of a frame are a report with the digest of its memory description. The numbers
/// of words are taken from the document's table.
fn is_report(words: &[u64]) -> bool {
    if !(12..=2 + DYNAMIC_WORDS + MAX_STATIC_WORDS).contains(&words.len()) || words[2] >> 56 != 3 {
        return false;
    }
    let bytes = words[8..].iter().flat_map(|word| word.to_be_bytes());
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, hash) == words[7]
}

/// Compares both parsers, and decodes the content of the frame.
pub fn check(bytes: &[u8]) {
    let frame = Frame::parse(bytes);
    let read = frame.map(|frame| {
        let body = frame.body.ok();
        (frame.counter, body.map(|body| (body.kind as u8, body.words().collect::<Vec<u64>>())))
    });
    let plain = plain(bytes);
    assert_eq!(read, plain);
    if let Some(body) = frame.and_then(|frame| frame.body.ok()) {
        content(&body);
    }
    // The words are also parsed as a report, because few inputs have the header of one.
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
    report(&words.collect::<Vec<u64>>());
}

fn content(body: &Body<'_>) {
    let words: Vec<u64> = body.words().collect();
    match (body.sync(), body.heartbeat()) {
        (Some(sync), None) => {
            assert_eq!(sync.encode()[..], words[..2]);
            report(&words[2..]);
        }
        (None, Some(heartbeat)) => {
            let stated = [words[0] & (1 << 63 | 0xffff), words[1] & ((1 << 48) - 1)];
            assert_eq!(heartbeat.encode(), stated);
        }
        both => panic!("a frame has a sync or is a heartbeat: {both:?}"),
    }
}

/// Checks that a report has the same content after it was encoded again.
fn report(words: &[u64]) {
    let Ok(report) = Report::decode(words) else { return };
    let memory = StaticWords::new(&report.memory);
    let again = [&report.encode_dynamic()[..], memory.as_slice()].concat();
    assert_eq!(Report::decode(&again), Ok(report));
}
