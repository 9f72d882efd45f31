//! Decodes the words of a frame into records, and encodes records.
//!
//! A 64-bit word is either two 32-bit halves, high half first, or the first word of a record of
//! whole words:
//!
//! ```text
//! half    31 W | 30..26 delta | 25..0 number          an access: delta 0-30 clocks after the last record
//!         31 0 | 30..26 31    | 25 0 | 24..0 clocks   skip: time passed (0 clocks: an empty half)
//!         31 0 | 30..26 31    | 25 1 | 24..13 segment | 12..0 clocks   segment: high number bits
//! word    63 1 | 62..58 31    | 57..54 kind | 53..0 body
//! ```
//!
//! Numbers count units: bursts, lines or pages, as the frame's sync states. A record contains the
//! low [`NUMBER_BITS`] bits of a number, the segment contains its high [`SEGMENT_BITS`] bits.

mod analysis;
mod half;
mod word_record;

pub use analysis::*;
pub use half::*;
pub use word_record::*;

/// Mask of a clock in a frame: 48 bits.
pub const CLOCK_MASK: u64 = (1 << 48) - 1;

/// The first word of a record, from its kind and the rest of its high half.
const fn head(kind: u32, rest: u32) -> u64 {
    ((WORD_ESCAPE | kind << KIND_AT | rest) as u64) << 32
}

/// A decoded word, with the words that follow it in the same record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Two halves, in the order of time.
    Halves(Half, Half),
    /// A record of whole words.
    Record(WordRecord),
}

/// The reason why a word is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordError {
    /// The kind of a record is unknown, or a record of whole words begins in a low half.
    UnknownKind(u8),
    /// The kind of a fault is unknown.
    UnknownFault(u8),
    /// The group of a count is unknown.
    UnknownGroup(u8),
    /// The frame ended before the record's last word.
    WordMissing,
}

impl core::fmt::Display for WordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            WordError::UnknownKind(kind) => write!(f, "unknown record kind {kind}"),
            WordError::UnknownFault(kind) => write!(f, "unknown fault kind {kind}"),
            WordError::UnknownGroup(group) => write!(f, "unknown group of counts {group}"),
            WordError::WordMissing => f.write_str("the last word of a record is missing"),
        }
    }
}

impl core::error::Error for WordError {}

impl Word {
    /// Decodes one word. `next` returns the next word, for records of several words.
    ///
    /// # Errors
    /// [`WordError`] if the kind of the record, its fault or its group of counts is not known, or
    /// if `next` returns `None` before the record's last word.
    #[inline]
    pub fn decode(word: u64, next: impl FnMut() -> Option<u64>) -> Result<Word, WordError> {
        let (first, low) = ((word >> 32) as u32, word as u32);
        if let Some(half) = Half::decode(first) {
            let low =
                Half::decode(low).ok_or(WordError::UnknownKind((low >> KIND_AT & 15) as u8))?;
            return Ok(Word::Halves(half, low));
        }
        WordRecord::decode(word, next).map(Word::Record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;
    use crate::units::Direction;
    use proptest::prelude::*;

    fn direction() -> impl Strategy<Value = Direction> {
        any::<bool>().prop_map(Direction::from_bit)
    }

    fn half() -> impl Strategy<Value = Half> {
        prop_oneof![
            (direction(), 0..=MAX_DELTA, 0u32..1 << NUMBER_BITS)
                .prop_map(|(direction, delta, number)| Half::Access { direction, delta, number }),
            (0..=MAX_SKIP).prop_map(Half::Skip),
            (0u32..1 << SEGMENT_BITS, 0..=MAX_SEGMENT_SKIP)
                .prop_map(|(segment, skip)| Half::Segment { segment, skip }),
        ]
    }

    fn record() -> impl Strategy<Value = WordRecord> {
        let source = prop_oneof![direction().prop_map(TagSource::Window), Just(TagSource::Mark)];
        let run = (
            0u32..1 << NUMBER_BITS,
            prop_oneof![0..=MAX_PAGE_COUNT, 0..=MAX_RUN_COUNT],
            prop_oneof![0..=MAX_PAGE_COUNT, 0..=MAX_RUN_COUNT],
            prop_oneof![0..=MAX_PAGE_DURATION, 0..=MAX_RUN_DURATION],
        )
            .prop_map(|(number, reads, writes, duration)| PageRun {
                number,
                reads,
                writes,
                duration,
            });
        let delta = prop_oneof![0..=MAX_PAGE_DELTA, 0..=MAX_WORD_DELTA];
        prop_oneof![
            (delta.clone(), source, any::<u32>())
                .prop_map(|(delta, source, value)| WordRecord::Tag { delta, source, value }),
            (delta.clone(), 0..FaultKind::ALL.len(), 0u8..64).prop_map(|(delta, kind, bank)| {
                WordRecord::Fault { delta, kind: FaultKind::ALL[kind], bank }
            }),
            (delta, run).prop_map(|(delta, run)| WordRecord::Page { delta, run }),
            (0u8..32, any::<Option<u32>>(), 0..=CLOCK_MASK, any::<u32>(), any::<u32>()).prop_map(
                |(code, partial, start, reads, writes)| WordRecord::Slice {
                    code,
                    partial,
                    start,
                    reads,
                    writes
                }
            ),
            (0u8..64, 0..=CLOCK_MASK)
                .prop_map(|(part, clock)| WordRecord::Interval { part, clock }),
            (any::<u8>(), 0u32..5, 0u16..1024, any::<u32>()).prop_map(
                |(dump, group, index, value)| WordRecord::Count {
                    dump,
                    group: CountGroup::from_code(group).unwrap(),
                    index,
                    value
                }
            ),
            (any::<u8>(), 0u32..1 << PAGE_BITS, any::<u32>(), any::<u32>()).prop_map(
                |(dump, page, count, votes)| WordRecord::HotPage { dump, page, count, votes }
            ),
        ]
    }

    proptest! {
        #[test]
        fn halves_come_back(first in half(), second in half()) {
            let word = u64::from(first.encode()) << 32 | u64::from(second.encode());
            prop_assert_eq!(Word::decode(word, || None), Ok(Word::Halves(first, second)));
        }

        #[test]
        fn word_records_come_back(record in record()) {
            let (first, rest) = record.encode();
            let mut rest = rest.into_iter().flatten();
            prop_assert_eq!(Word::decode(first, || rest.next()), Ok(Word::Record(record)));
            prop_assert_eq!(rest.next(), None);
        }

        #[test]
        fn any_word_reads_or_says_why(word: u64, next: Option<u64>) {
            let _ = Word::decode(word, || next);
        }
    }

    #[test]
    fn a_lone_first_word_is_an_error() {
        let run = PageRun { number: 1, reads: 40, writes: 0, duration: 9 };
        let (first, _) = WordRecord::Page { delta: 0, run }.encode();
        assert_eq!(Word::decode(first, || None), Err(WordError::WordMissing));
    }
}
