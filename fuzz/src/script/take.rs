//! Takes numbers and records from the bytes of a script.

use hmtt_format::record::{PageRun, TagSource, WordRecord};
use hmtt_format::{Direction, FaultKind};

/// Bytes that are taken from the front.
pub struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes { left: bytes }
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(*first)
    }

    /// Takes a number of `count` bytes.
    pub fn number(&mut self, count: usize) -> Option<u64> {
        (0..count).try_fold(0, |number, _| Some(number << 8 | u64::from(self.byte()?)))
    }

    /// Takes a sequence of bytes. Its first byte is its length.
    pub fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte().unwrap_or_default()).min(self.left.len());
        let (some, left) = self.left.split_at(count);
        self.left = left;
        some
    }

    /// Returns all remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        self.left
    }

    /// Takes a record that a card could send.
    pub fn record(&mut self) -> Option<WordRecord> {
        let kind = self.byte()?;
        let delta = self.number(usize::from(kind >> 7) + 1)? as u32;
        let count = |bytes: &mut Self| bytes.number(2).map(|count| count as u32);
        Some(match kind & 7 {
            0 => WordRecord::Tag { delta, source: TagSource::Mark, value: count(self)? },
            1 => {
                let source = TagSource::Window(Direction::from_bit(delta & 1 == 1));
                WordRecord::Tag { delta, source, value: count(self)? }
            }
            2 => {
                let kind = FaultKind::ALL[usize::from(self.byte()?) % FaultKind::ALL.len()];
                WordRecord::Fault { delta, kind, bank: 3 }
            }
            3..5 => {
                let run = PageRun {
                    number: count(self)?,
                    reads: count(self)?,
                    writes: u32::from(self.byte()?),
                    duration: count(self)?,
                };
                WordRecord::Page { delta, run }
            }
            5 => WordRecord::Interval { part: kind >> 3, clock: self.number(6)? },
            _ => WordRecord::Slice {
                code: kind >> 3,
                partial: (kind & 1 == 1).then_some(delta),
                start: self.number(6)?,
                reads: count(self)?,
                writes: count(self)?,
            },
        })
    }
}

/// Returns the number of accesses that a record stands for, and its distance in clocks from the
/// record before.
pub fn amount(record: &WordRecord, has_no_numbers: bool) -> (u64, u64) {
    match *record {
        WordRecord::Tag { delta, source: TagSource::Mark, .. } => (0, delta.into()),
        WordRecord::Tag { delta, .. } => (1, delta.into()),
        WordRecord::Fault { delta, .. } => (0, delta.into()),
        WordRecord::Page { delta, run } => {
            (u64::from(run.reads) + u64::from(run.writes), delta.into())
        }
        WordRecord::Slice { reads, writes, .. } if has_no_numbers => {
            (u64::from(reads) + u64::from(writes), 0)
        }
        _ => (0, 0),
    }
}
