//! Reads a card's frames: records of three kinds in their order, reports and losses.
//!
//! Only the functions of the format are used to decode them. Frames that do not follow one another
//! are rejected.

use hmtt_format::frame::{
    ACCESSES_MASK, COUNTER_MASK, FrameKind, LOST_MASK, PayloadHeader, SYNC_WORDS, WORD_BYTES,
    WORDS_AT,
};
use hmtt_format::{Block, Event, FaultKind, Report};

/// A loss that a sync states, since the previous sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Number of records.
    pub records: u64,
    /// Number of accesses.
    pub accesses: u64,
}

/// An element of a frame.
#[derive(Clone, Debug)]
pub enum Element {
    /// A loss before the next element.
    Lost(Loss),
    /// An access, tag, mark, fault or page run.
    Record(Event),
    /// A slice, and whether its frame has no numbers of units. If so, the accesses of the slice
    /// count as accesses of the frame.
    Slice(Event, bool),
    /// A record of the analysis.
    Analysis(Event),
    /// A report, the clock of its sync, and whether it ends a capture.
    Report(Box<Report>, u64, bool),
}

/// The content of a capture.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// All elements, in their order.
    pub elements: Vec<Element>,
    /// Number of lost records.
    pub lost: u64,
    /// Accesses of all records, including lost ones.
    pub accesses: u64,
}

impl Capture {
    /// Reads all frames of a card since power-on, without FCS.
    ///
    /// # Errors
    /// A description of the error, with the number of the frame.
    pub fn read(frames: &[Vec<u8>]) -> Result<Capture, String> {
        let mut reader = Reader { capture: Capture::default(), lost: 0, reached: 0 };
        for (number, frame) in frames.iter().enumerate() {
            reader.frame(number as u64, frame).map_err(|what| format!("frame {number}: {what}"))?;
        }
        reader.capture.accesses = reader.reached;
        Ok(reader.capture)
    }

    /// Whether the card reports that it lost a command.
    pub fn lost_command(&self) -> bool {
        let lost =
            |event: &Event| matches!(event, Event::Fault { kind: FaultKind::CommandLost, .. });
        self.elements.iter().any(|element| matches!(element, Element::Record(event) if lost(event)))
    }
}

struct Reader {
    capture: Capture,
    lost: u32,
    /// Accesses that the next sync must state.
    reached: u64,
}

impl Reader {
    fn frame(&mut self, number: u64, frame: &[u8]) -> Result<(), String> {
        let (head, rest) = frame.split_at_checked(WORDS_AT).ok_or("too short")?;
        let counter = head[7..12].iter().fold(0, |counter, byte| counter << 8 | u64::from(*byte));
        if counter != number & COUNTER_MASK {
            return Err(format!("counter {counter}"));
        }
        let header = PayloadHeader::decode([head[14], head[15], head[16], head[17]]);
        let words = rest.as_chunks::<WORD_BYTES>().0.get(..header.words.into());
        let words = words.ok_or("words are missing")?.iter().map(|word| u64::from_be_bytes(*word));
        let kind = FrameKind::from_code(header.kind).ok_or("unknown kind")?;
        if kind == FrameKind::Heartbeat {
            return Ok(());
        }
        let mut block = Block::new(words.clone()).map_err(|error| error.to_string())?;
        let sync = block.sync();
        let loss = Loss {
            records: (sync.lost.wrapping_sub(self.lost) & LOST_MASK).into(),
            accesses: sync.accesses.wrapping_sub(self.reached) & ACCESSES_MASK,
        };
        if loss.records == 0 && loss.accesses != 0 {
            return Err(format!("{} accesses are missing, no record is lost", loss.accesses));
        }
        if loss.records != 0 {
            self.capture.elements.push(Element::Lost(loss));
        }
        (self.lost, self.reached) = (sync.lost, sync.accesses);
        self.capture.lost += loss.records;
        if kind != FrameKind::Data {
            let words: Vec<u64> = words.skip(usize::from(SYNC_WORDS)).collect();
            let report = Report::decode(&words).map_err(|error| error.to_string())?;
            let end = kind == FrameKind::End;
            self.capture.elements.push(Element::Report(Box::new(report), sync.clock, end));
            return Ok(());
        }
        for event in block.by_ref() {
            let event = event.map_err(|error| error.to_string())?;
            self.capture.elements.push(match event {
                Event::Access(_)
                | Event::Tag { .. }
                | Event::Mark { .. }
                | Event::Fault { .. }
                | Event::Page { .. } => Element::Record(event),
                Event::Slice { .. } => Element::Slice(event, sync.has_no_numbers()),
                Event::Interval { .. } | Event::Count { .. } | Event::HotPage { .. } => {
                    Element::Analysis(event)
                }
            });
        }
        self.reached = self.reached + block.accesses() & ACCESSES_MASK;
        Ok(())
    }
}
