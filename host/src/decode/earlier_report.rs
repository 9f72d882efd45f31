//! A card's last report before a file begins to the comment that carries it into the file, and back.
//!
//! A capture in several files goes on in the middle of a session: without the report the records of a
//! later file would not say which memory they are of, nor where the tag window is.

use hmtt_format::Report;
use hmtt_format::frame::{FrameKind, SYNC_WORDS};

use super::frame::Frame;

/// Opens the comment; the hexadecimal bytes of the report's frame follow.
const OPENING: &str = "hmtt report before this file: ";

/// The comment that carries the report of a frame.
pub fn comment(frame: &[u8]) -> String {
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{OPENING}{hex}")
}

/// Whether a comment is meant to carry a report.
pub fn is_comment(text: &str) -> bool {
    text.starts_with(OPENING)
}

/// The report that a comment carries; `None` for other comments, and for what is no report.
pub fn of_comment(text: &str) -> Option<Report> {
    let (pairs, rest) = text.strip_prefix(OPENING)?.trim_end().as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    let body = Frame::parse(&bytes)?.body.ok()?;
    let is_report = rest.is_empty() && matches!(body.kind, FrameKind::Info | FrameKind::End);
    let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
    Report::decode(&words).ok().filter(|_| is_report)
}

/// The report that the last of some comments carries.
pub fn of_comments(comments: &[String]) -> Option<Report> {
    comments.iter().rev().find_map(|comment| of_comment(comment))
}
