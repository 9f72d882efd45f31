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
/// and hold as many accesses and records as that word says; all records of one run must decode to the
/// same when they follow each other in one block.
pub fn tell(words: &[FramedWord], unit_log2: u8) -> Vec<Told> {
    let mut told = Vec::new();
    let mut run: Vec<u64> = Vec::new();
    let mut run_events = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.kind {
            WordKind::Data => {
                assert!(word.first, "a record begins with its first word: {word:?}");
                let mut record = vec![word.high.to_u64() << 32 | word.low.to_u64()];
                for left in (0..word.more.to_u64()).rev() {
                    let next = words.next().expect("a record's last word");
                    assert!(next.kind == WordKind::Data && !next.first, "{next:?} in a record");
                    assert_eq!(next.more.to_u64(), left, "words that follow");
                    record.push(next.high.to_u64() << 32 | next.low.to_u64());
                }
                if run.is_empty() {
                    run.extend(sync(word, unit_log2));
                }
                run.extend(&record);
                let events = alone(word, unit_log2, &record);
                run_events.extend(events.iter().copied());
                told.extend(events.into_iter().map(Told::Event));
            }
            WordKind::Overrun => {
                told.push(Told::Overrun(word.accesses.to_u64(), word.records.to_u64()));
            }
            kind => {
                told.push(Told::Steer(kind, clock_of(word)));
                if kind == WordKind::Start {
                    together(&mut run, &mut run_events);
                }
            }
        }
    }
    together(&mut run, &mut run_events);
    told
}

fn sync(word: &FramedWord, unit_log2: u8) -> [u64; 2] {
    let (clock, segment) = (clock_of(word), word.segment.to_u64() as u32);
    Sync { clock, unit_log2, segment, accesses: 0, lost: 0 }.encode()
}

fn alone(word: &FramedWord, unit_log2: u8, record: &[u64]) -> Vec<Event> {
    let words = sync(word, unit_log2).into_iter().chain(record.iter().copied());
    let mut block = Block::new(words).expect("a sync");
    let events: Vec<Event> = block.by_ref().map(|event| event.expect("a record")).collect();
    assert_eq!(block.accesses(), word.accesses.to_u64(), "accesses of {word:?}");
    assert_eq!(events.len() as u64, word.records.to_u64(), "records of {word:?}");
    events
}

fn together(run: &mut Vec<u64>, events: &mut Vec<Event>) {
    if !run.is_empty() {
        let block = Block::new(run.drain(..)).expect("a sync");
        let read: Vec<Event> = block.map(|event| event.expect("a record")).collect();
        assert_eq!(&read, events, "the records in one block");
    }
    events.clear();
}
