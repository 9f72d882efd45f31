//! Parses the bytes of one frame into its counter, kind and words.
//!
//! A frame that no card sent is [`None`]. A card's frame that cannot be read keeps its counter, so
//! that it is not counted as missing. All offsets are defined in [`hmtt_format::frame`].

use std::time::Duration;

use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::{
    COUNTER_BITS, DESTINATION, ETHER_TYPE, FrameKind, Heartbeat, MAX_WORDS, PAYLOAD_HEADER_BYTES,
    PayloadHeader, SOURCE_PREFIX, SYNC_WORDS, Sync, WORD_BYTES, WORDS_AT,
};
use hmtt_format::info::is_report;
use nom::IResult;
use nom::Parser;
use nom::bytes::complete::{tag, take};

use crate::identity::LinkId;

/// The place of a frame in its capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the frame in the capture, from 1, as Wireshark counts.
    pub packet: u64,
    /// Byte offset of the frame's block in the capture file; 0 for a live capture.
    pub offset: u64,
    /// Arrival time since the Unix epoch, if it is known.
    pub time: Option<Duration>,
    /// The link on which the frame arrived, assigned by the receiver or the capture's reader.
    pub link: LinkId,
}

/// Why a card's frame could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame ends within the payload header.
    #[error("frame ends within its payload header")]
    HeaderTruncated,
    /// The frame has a format version that this reader does not know. Holds the version.
    #[error("format version {0} is not known (this reader knows {FORMAT_VERSION})")]
    Version(u8),
    /// The frame has a kind that this format version does not define. Holds the code of the kind.
    #[error("frame kind {0} is not known")]
    Kind(u8),
    /// The kind is data, but the words are a report's.
    #[error("a report in a data frame: its kind is damaged")]
    ReportAsData,
    /// The header states a word count that no frame can have. Holds the count.
    #[error("{0} words stated, a frame has {SYNC_WORDS} to {MAX_WORDS}")]
    WordCount(u8),
    /// The kind is heartbeat, but the frame has bits that a heartbeat does not have.
    #[error("a heartbeat with other content")]
    Heartbeat,
    /// The frame ends before the words that the header states.
    #[error("{stated} words stated, only {present} present")]
    Truncated {
        /// 64-bit words that the header states.
        stated: u8,
        /// Whole 64-bit words that are present.
        present: usize,
    },
}

/// A card's frame.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// # let mut reader = hmtt::pcapng::PcapngReader::from_reader(CAPTURE)?;
/// # let frame = reader.next_packet()?.unwrap().bytes.to_vec();
/// use hmtt_format::frame::FrameKind;
///
/// let frame = hmtt::decode::Frame::parse(&frame).expect("the addresses are a card's");
/// let body = frame.body.expect("it can be read");
/// assert_eq!((frame.counter, body.kind, body.words().len()), (1, FrameKind::Data, 6));
/// assert_eq!(body.sync().map(|sync| sync.unit_log2), Some(6));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Frame counter, modulo 2^[`COUNTER_BITS`].
    pub counter: u64,
    /// Kind and words of the frame, or the reason why they cannot be read.
    pub body: Result<Body<'a>, FrameError>,
}

/// Kind and words of a readable frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// Data, info, end or heartbeat.
    pub kind: FrameKind,
    words: &'a [u8],
}

impl<'a> Body<'a> {
    /// The words as bytes, big-endian, 8 bytes each, without padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.words
    }

    /// The 64-bit words. They begin with the sync, except in heartbeats.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + Clone + use<'a> {
        self.words.chunks_exact(WORD_BYTES).map(|word| {
            let mut bytes = [0; WORD_BYTES];
            bytes.copy_from_slice(word);
            u64::from_be_bytes(bytes)
        })
    }
}

impl Body<'_> {
    /// The sync, which states the card's counts before this frame; `None` for heartbeats.
    pub fn sync(&self) -> Option<Sync> {
        let mut words = self.words();
        let first = [words.next()?, words.next()?];
        (self.kind != FrameKind::Heartbeat).then(|| Sync::decode(first))
    }

    /// The content of a heartbeat; `None` for other kinds.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        let mut words = self.words();
        let first = [words.next()?, words.next()?];
        (self.kind == FrameKind::Heartbeat).then(|| Heartbeat::decode(first))
    }
}

impl<'a> Frame<'a> {
    /// Parses a frame, given without FCS. Returns `None` if destination, source prefix or EtherType
    /// differ from a card's.
    pub fn parse(bytes: &'a [u8]) -> Option<Frame<'a>> {
        #[cfg(test)]
        tests::note_parsed();
        let (payload, counter) = mac_header(bytes).ok()?;
        Some(Frame { counter, body: body(payload) })
    }

    /// Whether this is the first frame of a session: a report with counter 0, or a heartbeat if the
    /// DDR clock did not run.
    pub fn opens_session(&self) -> bool {
        self.counter == 0 && matches!(self.kind(), Some(FrameKind::Info | FrameKind::Heartbeat))
    }

    /// The sync, if the frame can be read and is no heartbeat.
    pub fn sync(&self) -> Option<Sync> {
        self.body.ok()?.sync()
    }

    /// The kind, if the frame can be read.
    pub fn kind(&self) -> Option<FrameKind> {
        self.body.ok().map(|body| body.kind)
    }
}

/// The result of [`Frame::parse`] without the bytes. Restores the frame from the same bytes without
/// parsing them again.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLayout {
    counter: u64,
    /// Kind of the frame, and length of its words in bytes.
    body: Result<(FrameKind, usize), FrameError>,
}

impl FrameLayout {
    pub fn new(frame: &Frame<'_>) -> Self {
        let body = frame.body.map(|body| (body.kind, body.words.len()));
        FrameLayout { counter: frame.counter, body }
    }

    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// The frame in the bytes that were parsed.
    pub fn frame<'a>(&self, bytes: &'a [u8]) -> Frame<'a> {
        let words = |length: usize| bytes.get(WORDS_AT..WORDS_AT + length).unwrap_or_default();
        let body = self.body.map(|(kind, length)| Body { kind, words: words(length) });
        Frame { counter: self.counter, body }
    }
}

fn mac_header(input: &[u8]) -> IResult<&[u8], u64> {
    let counter_bytes = (COUNTER_BITS / u8::BITS) as usize;
    let (input, (_, _, counter, _)) = (
        tag(&DESTINATION[..]),
        tag(&[SOURCE_PREFIX][..]),
        take(counter_bytes),
        tag(&ETHER_TYPE.to_be_bytes()[..]),
    )
        .parse(input)?;
    let counter = counter.iter().fold(0, |value, byte| value << u8::BITS | u64::from(*byte));
    Ok((input, counter))
}

fn payload_header(input: &[u8]) -> IResult<&[u8], PayloadHeader> {
    let (input, bytes) = take(PAYLOAD_HEADER_BYTES)(input)?;
    let mut header = [0; PAYLOAD_HEADER_BYTES];
    header.copy_from_slice(bytes);
    Ok((input, PayloadHeader::decode(header)))
}

fn body(payload: &[u8]) -> Result<Body<'_>, FrameError> {
    let (words, header) =
        payload_header(payload).map_err(|_: nom::Err<_>| FrameError::HeaderTruncated)?;
    if header.version != FORMAT_VERSION {
        return Err(FrameError::Version(header.version));
    }
    let kind = FrameKind::from_code(header.kind).ok_or(FrameError::Kind(header.kind))?;
    if !(SYNC_WORDS..=MAX_WORDS).contains(&header.words) {
        return Err(FrameError::WordCount(header.words));
    }
    let words = words
        .get(..usize::from(header.words) * WORD_BYTES)
        .ok_or(FrameError::Truncated { stated: header.words, present: words.len() / WORD_BYTES })?;
    if kind == FrameKind::Data && is_report(&words[usize::from(SYNC_WORDS) * WORD_BYTES..]) {
        return Err(FrameError::ReportAsData);
    }
    let body = Body { kind, words };
    match body.heartbeat() {
        Some(heartbeat) if header.lost != 0 || !body.words().eq(heartbeat.encode()) => {
            Err(FrameError::Heartbeat)
        }
        _ => Ok(body),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;
    use hmtt_format::frame::{MAX_FRAME_BYTES, encode};

    thread_local! {
        static PARSED: Cell<u64> = const { Cell::new(0) };
    }

    pub fn note_parsed() {
        PARSED.set(PARSED.get() + 1);
    }

    /// Returns the number of frames that were parsed in this thread.
    pub fn parsed() -> u64 {
        PARSED.get()
    }

    fn bytes(header: PayloadHeader, words: &[u64]) -> Vec<u8> {
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = encode(&mut buffer, 0x12_3456_789a, header, words);
        buffer[..length].to_vec()
    }

    const HEADER: PayloadHeader =
        PayloadHeader { version: FORMAT_VERSION, kind: 0, words: 3, lost: 0 };

    #[test]
    fn a_parsed_frame_has_no_padding() {
        let bytes = bytes(HEADER, &[1, 2, 3]);
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!(frame.counter, 0x12_3456_789a);
        assert!(frame.body.unwrap().words().eq([1, 2, 3]));
    }

    #[test]
    fn frames_of_others_are_foreign() {
        for at in [0, 6, 12] {
            let mut bytes = bytes(HEADER, &[1, 2, 3]);
            bytes[at] ^= 1;
            assert_eq!(Frame::parse(&bytes), None, "byte {at}");
        }
        assert_eq!(Frame::parse(&[]), None);
    }

    #[test]
    fn unreadable_frames_keep_their_counter_and_state_the_reason() {
        let reason = |header, cut: usize| {
            let bytes = bytes(header, &[0; 20]);
            let frame = Frame::parse(&bytes[..bytes.len() - cut]).unwrap();
            assert_eq!(frame.counter, 0x12_3456_789a);
            frame.body.unwrap_err()
        };
        let header = PayloadHeader { words: 20, ..HEADER };
        assert_eq!(reason(PayloadHeader { version: 9, ..header }, 0), FrameError::Version(9));
        assert_eq!(reason(PayloadHeader { kind: 7, ..header }, 0), FrameError::Kind(7));
        assert_eq!(reason(PayloadHeader { words: 1, ..header }, 0), FrameError::WordCount(1));
        assert_eq!(reason(PayloadHeader { words: 188, ..header }, 0), FrameError::WordCount(188));
        let truncated = FrameError::Truncated { stated: 20, present: 19 };
        assert_eq!(reason(header, 1), truncated);
        assert_eq!(reason(header, 20 * WORD_BYTES + 1), FrameError::HeaderTruncated);
    }
}
