//! Writes a card's last report as a pcapng interface comment, and reads it back.
//!
//! In a capture of several files, a later file begins in the middle of a session. Without the
//! card's last report, a reader of that file would not know the geometry of the memory or where the
//! tag window is.

use hmtt_format::frame::{FrameKind, MAX_FRAME_BYTES, PayloadHeader, SYNC_WORDS, Sync, encode};
use hmtt_format::info::StaticWords;
use hmtt_format::{FORMAT_VERSION, Report};

use super::frame::Frame;

/// Prefix of the comment; the bytes of the report's frame follow in hexadecimal.
const OPENING: &str = "hmtt report before this file: ";

/// The comment that carries the report of a frame. `frame`: the bytes of an info or end frame,
/// without FCS.
pub fn comment_from_frame(frame: &[u8]) -> String {
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{OPENING}{hex}")
}

/// The comment that carries `report`, as an info frame whose counter and counts are 0.
pub fn comment_from_report(report: &Report) -> String {
    let sync = Sync { clock: 0, unit_log2: 0, segment: 0, accesses: 0, lost: 0 }.encode();
    let memory = StaticWords::new(&report.memory);
    let words = [&sync[..], &report.encode_dynamic(), memory.as_slice()].concat();
    let (kind, count) = (FrameKind::Info as u8, words.len() as u8);
    let header = PayloadHeader { version: FORMAT_VERSION, kind, words: count, lost: 0 };
    let mut buffer = [0; MAX_FRAME_BYTES];
    let length = encode(&mut buffer, 0, header, &words);
    comment_from_frame(&buffer[..length])
}

/// Whether a comment begins with the prefix of comments that carry a report. The report may be
/// invalid.
pub fn is_comment(text: &str) -> bool {
    text.starts_with(OPENING)
}

/// The report that a comment carries; `None` for other comments, and for bytes that are no valid
/// report.
pub fn from_comment(text: &str) -> Option<Report> {
    let (pairs, rest) = text.strip_prefix(OPENING)?.trim_end().as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    let body = Frame::parse(&bytes)?.body.ok()?;
    let is_report = rest.is_empty() && matches!(body.kind, FrameKind::Info | FrameKind::End);
    let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
    Report::decode(&words).ok().filter(|_| is_report)
}

/// The report in the last comment that carries a valid report; `None` if there is no such comment.
pub fn from_comments(comments: &[String]) -> Option<Report> {
    comments.iter().rev().find_map(|comment| from_comment(comment))
}
