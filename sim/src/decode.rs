//! Decodes received frames into events and reports, and checks that each frame continues the one
//! before.
//!
//! The simulated wire loses nothing, so frame counters must be consecutive, and each frame's sync
//! must continue where the frame before ended. Other frames show a flaw of the card. Losses that
//! the card announces are counted and are no flaws. A restart of the counts at 0 is no flaw either,
//! after a heartbeat that reported a loss of the DDR clock.

use hmtt_format::account::{Account, Balance};
use hmtt_format::frame::{
    ACCESSES_MASK, COUNTER_MASK, END_REPEATS, ETHER_TYPE, FrameKind, Heartbeat, LOST_MASK,
    MAC_HEADER_BYTES, PayloadHeader, SOURCE_PREFIX, SYNC_WORDS, Sync, WORD_BYTES, WORDS_AT,
};
use hmtt_format::info::ReportError;
use hmtt_format::{Block, BlockError, Event, FORMAT_VERSION, Report, Tally};

/// A defect of a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Flaw {
    #[error("{0} bytes are too short for a frame of the card")]
    TooShort(usize),
    #[error("EtherType {0:04x} is not the card's")]
    EtherType(u16),
    #[error("source address starts with {0:02x}, not 02")]
    Source(u8),
    #[error("format version {0}, this is {FORMAT_VERSION}")]
    Version(u8),
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    #[error("header states {words} words, but the frame has {bytes} bytes of them")]
    Words { words: u8, bytes: usize },
    #[error("frame counter {got}, expected {expected}")]
    Counter { expected: u64, got: u64 },
    #[error("sync states {got} accesses so far, the frames before contain {expected}")]
    Accesses { expected: u64, got: u64 },
    #[error("sync states {sync} records lost, the header states {header} (16 bits)")]
    Lost { sync: u32, header: u16 },
    #[error(
        "{} bursts on the card, its records stand for {} to {}{}",
        .0.card, .0.least, .0.most, sliced(.0)
    )]
    Bursts(Balance),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error(transparent)]
    Report(#[from] ReportError),
}

fn sliced(balance: &Balance) -> String {
    balance.sliced.map_or_else(String::new, |sliced| format!(", its slices and tags for {sliced}"))
}

/// A flaw and the index of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlawAt {
    /// Index of the frame, from 0.
    pub frame: u64,
    /// The flaw.
    pub flaw: Flaw,
}

/// Counts of decoded frames and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames, including reports.
    pub frames: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Accesses in the records.
    pub accesses: u64,
    /// Records that the card reports as lost.
    pub lost: u64,
    /// Fault records.
    pub faults: u64,
    /// Tag records.
    pub tags: u64,
    /// Flaws of frames.
    pub flaws: u64,
}

/// Number of flaws that are kept; further flaws are only counted.
const FLAWS_KEPT: usize = 20;

/// Decodes a card's frames in order.
#[derive(Debug, Default)]
pub struct Decoder {
    keep: bool,
    events: Vec<Event>,
    flaws: Vec<FlawAt>,
    counts: Counts,
    next_counter: Option<u64>,
    next_accesses: u64,
    last_lost: u32,
    ends: u8,
    /// Losses of the DDR clock, as the last heartbeat counted them.
    losses: u16,
    /// Whether the DDR clock was lost and the card has not restarted its counts since.
    clock_lost: bool,
    report: Option<Report>,
    account: Account,
}

impl Decoder {
    /// Creates a decoder. With `keep_events` the events are kept for a later comparison; otherwise
    /// they are only counted.
    pub fn new(keep_events: bool) -> Self {
        Decoder { keep: keep_events, ..Decoder::default() }
    }

    /// Decodes a frame without its FCS.
    pub fn take(&mut self, frame: &[u8]) {
        if let Err(flaw) = self.decode(frame) {
            self.flaw(flaw);
        }
        self.counts.frames += 1;
    }

    /// Whether the card has sent the last of its [`END_REPEATS`] end frames, and only heartbeats
    /// after it.
    pub const fn finished(&self) -> bool {
        self.ends >= END_REPEATS
    }

    /// Counts of the frames so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The first flaws, in order.
    pub fn flaws(&self) -> &[FlawAt] {
        &self.flaws
    }

    /// The latest report.
    pub const fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns all events, if they were kept.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    fn flaw(&mut self, flaw: Flaw) {
        self.counts.flaws += 1;
        if self.flaws.len() < FLAWS_KEPT {
            self.flaws.push(FlawAt { frame: self.counts.frames, flaw });
        }
    }

    fn decode(&mut self, frame: &[u8]) -> Result<(), Flaw> {
        let (counter, header) = envelope(frame)?;
        let expected = self.next_counter.replace(counter + 1 & COUNTER_MASK);
        if let Some(expected) = expected.filter(|expected| *expected != counter) {
            self.flaw(Flaw::Counter { expected, got: counter });
        }
        let kind = FrameKind::from_code(header.kind).ok_or(Flaw::Kind(header.kind))?;
        let bytes = &frame[WORDS_AT..];
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        let short = Flaw::Words { words: header.words, bytes: bytes.len() };
        let words = words.get(..header.words.into()).ok_or_else(|| short.clone())?;
        let words: Vec<u64> = words.iter().map(|word| u64::from_be_bytes(*word)).collect();
        match kind {
            FrameKind::Data => {
                self.ends = 0;
                self.data(&words, header)
            }
            // A heartbeat has no sync and carries no counts of accesses.
            FrameKind::Heartbeat => {
                let (first, _) = words.split_first_chunk().ok_or(short)?;
                let losses = Heartbeat::decode(*first).losses;
                self.clock_lost |= losses != self.losses;
                self.losses = losses;
                Ok(())
            }
            FrameKind::Info | FrameKind::End => {
                let ends = self.ends.saturating_add(1);
                self.ends = if kind == FrameKind::End { ends } else { 0 };
                let sync = Block::new(words.iter().copied())?.sync();
                if self.clock_lost
                    && kind == FrameKind::Info
                    && (sync.accesses, sync.lost) == (0, 0)
                {
                    self.restart();
                }
                self.sync(sync, header);
                let report = Report::decode(&words[usize::from(SYNC_WORDS)..])?;
                let balance = self.account.report(&report, kind == FrameKind::End);
                self.report = Some(report);
                match balance.filter(|balance| !balance.holds()) {
                    Some(balance) => Err(Flaw::Bursts(balance)),
                    None => Ok(()),
                }
            }
        }
    }

    fn data(&mut self, words: &[u64], header: PayloadHeader) -> Result<(), Flaw> {
        let mut block = Block::new(words.iter().copied())?;
        self.sync(block.sync(), header);
        let mut tally = Tally::new(block.sync());
        for event in block.by_ref() {
            let event = event?;
            tally.note(&event);
            self.counts.records += 1;
            match event {
                Event::Fault { .. } => self.counts.faults += 1,
                Event::Tag { .. } | Event::Mark { .. } => self.counts.tags += 1,
                _ => {}
            }
            if self.keep {
                self.events.push(event);
            }
        }
        self.account.data(&tally);
        self.counts.accesses += block.accesses();
        self.next_accesses = self.next_accesses + block.accesses() & ACCESSES_MASK;
        Ok(())
    }

    /// Resets the expected counts, since the card counts from 0 again. The records that it held
    /// when it lost its clock are unknown.
    fn restart(&mut self) {
        (self.clock_lost, self.next_accesses, self.last_lost) = (false, 0, 0);
        self.account = Account::default();
    }

    /// Compares a sync with the counts of the frames before it.
    fn sync(&mut self, sync: Sync, header: PayloadHeader) {
        let lost = sync.lost.wrapping_sub(self.last_lost) & LOST_MASK;
        self.last_lost = sync.lost;
        self.counts.lost += u64::from(lost);
        if lost == 0 && sync.accesses != self.next_accesses {
            self.flaw(Flaw::Accesses { expected: self.next_accesses, got: sync.accesses });
        }
        let missing = sync.accesses.wrapping_sub(self.next_accesses) & ACCESSES_MASK;
        self.account.gap(missing, lost, 0);
        self.next_accesses = sync.accesses;
        if sync.lost as u16 != header.lost {
            self.flaw(Flaw::Lost { sync: sync.lost, header: header.lost });
        }
    }
}

/// Parses the frame counter and payload header of a frame.
fn envelope(frame: &[u8]) -> Result<(u64, PayloadHeader), Flaw> {
    let Some((head, _)) = frame.split_first_chunk::<WORDS_AT>() else {
        return Err(Flaw::TooShort(frame.len()));
    };
    if head[6] != SOURCE_PREFIX {
        return Err(Flaw::Source(head[6]));
    }
    let counter = head[7..12].iter().fold(0, |counter, byte| counter << 8 | u64::from(*byte));
    let ether_type = u16::from_be_bytes([head[12], head[13]]);
    if ether_type != ETHER_TYPE {
        return Err(Flaw::EtherType(ether_type));
    }
    let [.., a, b, c, d] = *head;
    const { assert!(WORDS_AT - MAC_HEADER_BYTES == 4) };
    let header = PayloadHeader::decode([a, b, c, d]);
    if header.version != FORMAT_VERSION {
        return Err(Flaw::Version(header.version));
    }
    Ok((counter, header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_format::Direction;
    use hmtt_format::frame::{MAX_FRAME_BYTES, encode};
    use hmtt_format::record::Half;
    use proptest::prelude::*;

    fn data(counter: u64, accesses: u64, lost: u32) -> Vec<u8> {
        let sync = Sync { clock: 5, unit_log2: 6, segment: 0, accesses, lost };
        let read = Half::Access { direction: Direction::Read, delta: 1, number: 2 };
        let word = u64::from(read.encode()) << 32 | u64::from(read.encode());
        let [first, second] = sync.encode();
        let mut buffer = [0; MAX_FRAME_BYTES];
        let header =
            PayloadHeader { version: FORMAT_VERSION, kind: 0, words: 3, lost: lost as u16 };
        let length = encode(&mut buffer, counter, header, &[first, second, word]);
        buffer[..length].to_vec()
    }

    fn flaws(frames: &[Vec<u8>]) -> (Counts, Vec<Flaw>) {
        let mut decoder = Decoder::new(false);
        frames.iter().for_each(|frame| decoder.take(frame));
        (decoder.counts(), decoder.flaws().iter().map(|at| at.flaw.clone()).collect())
    }

    #[test]
    fn consecutive_frames_have_no_flaw() {
        let (counts, flaws) = flaws(&[data(9, 0, 0), data(10, 2, 0), data(11, 4, 0)]);
        assert_eq!(flaws, []);
        assert_eq!((counts.frames, counts.records, counts.accesses), (3, 6, 6));
    }

    #[test]
    fn announced_losses_are_counted_and_no_flaw() {
        let (counts, flaws) = flaws(&[data(0, 0, 0), data(1, 12, 10)]);
        assert_eq!((counts.lost, flaws), (10, vec![]));
    }

    #[test]
    fn counters_and_syncs_that_do_not_continue_are_flaws() {
        let (_, reported) = flaws(&[data(0, 0, 0), data(2, 2, 0), data(3, 5, 0)]);
        assert_eq!(reported[0], Flaw::Counter { expected: 1, got: 2 });
        assert_eq!(reported[1], Flaw::Accesses { expected: 4, got: 5 });
        let mut cut = data(0, 0, 0);
        cut.truncate(40);
        assert_eq!(flaws(&[cut]).1, [Flaw::Words { words: 3, bytes: 22 }]);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_flawed(frame in prop::collection::vec(any::<u8>(), 0..200)) {
            Decoder::new(true).take(&frame);
            let mut ours = data(0, 0, 0);
            let length = ours.len().min(frame.len());
            ours[WORDS_AT - 4..length.max(WORDS_AT - 4)]
                .iter_mut()
                .zip(&frame)
                .for_each(|(to, from)| *to ^= from);
            Decoder::new(true).take(&ours);
        }
    }
}
