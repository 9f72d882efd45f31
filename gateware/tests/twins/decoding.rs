//! Words for the framer to events: each record read alone, from the state it says precedes it.

use gateware::statistics::{FramedWord, WordKind};
use hmtt_format::block::{Block, Event};
use hmtt_format::frame::Sync;

/// What came out of the packer, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A record.
    Event(Event),
    /// A word that steers the framer, and its clock.
    Steer(WordKind, u64),
    /// Accesses and faults that were missed.
    Overrun(u64, u64),
}

/// The clock a word states.
pub fn clock_of(word: &FramedWord) -> u64 {
    word.clock_high.to_u64() << 32 | word.clock.to_u64()
}

/// Reads all words. Each record must decode alone from the clock and segment its first word carries,
/// hold as many accesses and records as that word says, and lead to the clock the next one carries; all
/// records since a start must decode to the same when they follow each other in one block.
pub fn tell(words: &[FramedWord], unit_log2: u8) -> Vec<Told> {
    let mut told = Vec::new();
    let mut run = Run { unit_log2, words: Vec::new(), events: Vec::new(), clock: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.kind {
            WordKind::Data => {
                let record = record(word, &mut words);
                told.extend(run.read(word, &record).into_iter().map(Told::Event));
            }
            WordKind::Overrun => {
                told.push(Told::Overrun(word.accesses.to_u64(), word.records.to_u64()));
            }
            kind => {
                told.push(Told::Steer(kind, clock_of(word)));
                if kind == WordKind::Start {
                    run.end();
                    run.clock = Some(clock_of(word));
                }
            }
        }
    }
    run.end();
    told
}

/// The words of one record.
fn record<'a>(word: &FramedWord, rest: &mut impl Iterator<Item = &'a FramedWord>) -> Vec<u64> {
    let whole = |word: &FramedWord| word.high.to_u64() << 32 | word.low.to_u64();
    assert!(word.first, "a record begins with its first word: {word:?}");
    let mut record = vec![whole(word)];
    for left in (0..word.more.to_u64()).rev() {
        let next = rest.next().expect("a record's last word");
        assert!(next.kind == WordKind::Data && !next.first, "{next:?} in a record");
        assert_eq!(next.more.to_u64(), left, "words that follow");
        record.push(whole(next));
    }
    record
}

/// The records since a start.
struct Run {
    unit_log2: u8,
    words: Vec<u64>,
    events: Vec<Event>,
    clock: Option<u64>,
}

impl Run {
    /// Reads a record from the state its first word carries.
    fn read(&mut self, word: &FramedWord, record: &[u64]) -> Vec<Event> {
        let (clock, segment) = (clock_of(word), word.segment.to_u64() as u32);
        assert_eq!(clock, self.clock.unwrap_or(clock), "clock before {word:?}");
        let sync = Sync { clock, unit_log2: self.unit_log2, segment, accesses: 0, lost: 0 };
        let mut block =
            Block::new(sync.encode().into_iter().chain(record.iter().copied())).expect("a sync");
        let events: Vec<Event> = block.by_ref().map(|event| event.expect("a record")).collect();
        assert_eq!(block.accesses(), word.accesses.to_u64(), "accesses of {word:?}");
        assert_eq!(events.len() as u64, word.records.to_u64(), "records of {word:?}");
        if self.words.is_empty() {
            self.words.extend(sync.encode());
        }
        self.words.extend(record);
        self.events.extend(&events);
        self.clock = Some(block.clock().0);
        events
    }

    /// Reads all records as one block.
    fn end(&mut self) {
        if !self.words.is_empty() {
            let block = Block::new(self.words.drain(..)).expect("a sync");
            let read: Vec<Event> = block.map(|event| event.expect("a record")).collect();
            assert!(read == self.events, "the records differ when they follow each other");
        }
        self.events.clear();
    }
}
