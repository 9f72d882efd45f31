//! Compares the decoder of records with a model, up to the first invalid record, for all ways to
//! read a frame.

use hmtt::decode::Columns;
use hmtt_format::{Access, Block, BlockError, Cycles, Event, Tally};

use crate::plain::{self, Reading};

/// Maximum number of words in a frame. An error's index has no meaning beyond it.
const MAX_WORDS: usize = 187;

/// Compares all ways to read a frame's words with the model.
pub fn check(bytes: &[u8]) {
    let words: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
    let Ok(mut block) = Block::new(words.iter().copied()) else {
        assert!(words.len() < 2);
        assert_eq!(Tally::of(bytes), Err(BlockError::NoSync));
        return;
    };
    let plain = plain::read(&words);
    let (mut events, mut error) = (Vec::new(), None);
    for event in block.by_ref() {
        assert_eq!(error, None, "nothing comes after an error");
        match event {
            Ok(event) => events.push(event),
            Err(BlockError::Word { index, .. }) => error = Some(usize::from(index)),
            Err(BlockError::NoSync) => panic!("there was a sync"),
        }
    }
    assert_eq!(block.next(), None);
    assert_eq!(error.is_some(), plain.error.is_some());
    let error = if words.len() <= MAX_WORDS { error } else { plain.error };
    let (clock, segment, counted) = (block.clock().0, block.segment(), block.accesses());
    assert_eq!(Reading { events, clock, segment, counted, error }, plain);
    tally(bytes, &plain);
    columns(bytes, &plain);
}

fn tally(bytes: &[u8], plain: &Reading) {
    let tally = Tally::of(bytes).expect("there is a sync");
    assert_eq!((tally.records, tally.accesses), (plain.events.len() as u64, plain.counted));
    assert_eq!((tally.clock, tally.segment), (Cycles(plain.clock), plain.segment));
    assert_eq!(tally.reads + tally.writes, tally.accesses);
    assert_eq!(tally.error.is_some(), plain.error.is_some());
    if let Some(fast) = Tally::of_halves(bytes) {
        assert_eq!(fast, tally);
    }
}

fn columns(bytes: &[u8], plain: &Reading) {
    let mut columns = Columns::default();
    let clock = u64::from_be_bytes(bytes[..8].try_into().expect("a word")) & ((1 << 48) - 1);
    let whole = &bytes[..bytes.len() / 8 * 8];
    let Some(_) = columns.append(whole, Cycles(clock)) else {
        return assert_eq!(columns, Columns::default());
    };
    let read: Vec<Option<Access>> = (0..columns.len()).map(|row| columns.get(row)).collect();
    let expected: Vec<Option<Access>> = plain
        .events
        .iter()
        .map(|event| match event {
            Event::Access(access) => Some(*access),
            _ => None,
        })
        .collect();
    assert_eq!(read, expected);
}
