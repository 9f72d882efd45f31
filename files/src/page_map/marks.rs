//! Encodes the begin and the end of a snapshot as marks to the card, so that a capture contains the
//! time of the snapshot.
//!
//! ```text
//! 8 digits of the snapshot's number, the highest first: marks e0 to ef    then f0: it begins, or f1: it has ended
//! ```
//!
//! Snapshots are numbered from a random number on, so that two recordings during one capture can be
//! told apart. The time of the snapshot's begin or end is the time of the last mark.

/// The mark of the digit 0. The marks of the digits 1 to 15 follow.
pub const MARK_DIGIT_FIRST: u8 = 0xe0;
/// The mark that follows the digits when a snapshot begins.
pub const MARK_BEGIN: u8 = 0xf0;
/// The mark that follows the digits when a snapshot has ended.
pub const MARK_END: u8 = 0xf1;
/// Digits of a number, of 4 bits each.
const DIGITS: u32 = u32::BITS / 4;

/// The begin or the end of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotMark {
    /// Number of the snapshot, [`Snapshot::mark`](super::Snapshot::mark).
    pub number: u32,
    /// Whether the snapshot has ended; otherwise it begins.
    pub is_end: bool,
}

impl SnapshotMark {
    /// The begin of a snapshot.
    pub const fn begin(number: u32) -> Self {
        SnapshotMark { number, is_end: false }
    }

    /// The end of a snapshot.
    pub const fn end(number: u32) -> Self {
        SnapshotMark { number, is_end: true }
    }

    /// The marks for free use that encode this begin or end, in order.
    ///
    /// ```
    /// use hmtt_files::page_map::SnapshotMark;
    ///
    /// let marks: Vec<u8> = SnapshotMark::end(0x12ab).marks().collect();
    /// assert_eq!(marks, [0xe0, 0xe0, 0xe0, 0xe0, 0xe1, 0xe2, 0xea, 0xeb, 0xf1]);
    /// ```
    pub fn marks(self) -> impl Iterator<Item = u8> {
        let digit = move |at: u32| MARK_DIGIT_FIRST + (self.number >> (4 * at) & 0xf) as u8;
        let last = if self.is_end { MARK_END } else { MARK_BEGIN };
        (0..DIGITS).rev().map(digit).chain([last])
    }
}

/// Finds begins and ends of snapshots among the marks of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotMarks {
    number: u32,
    digits: u32,
}

impl SnapshotMarks {
    /// Takes the next mark for free use. Returns the begin or end that this mark completes.
    pub fn mark(&mut self, mark: u8) -> Option<SnapshotMark> {
        let SnapshotMarks { number, digits } = *self;
        self.lose();
        match mark {
            MARK_DIGIT_FIRST..MARK_BEGIN => {
                let digit = u32::from(mark - MARK_DIGIT_FIRST);
                *self =
                    SnapshotMarks { number: number << 4 | digit, digits: digits.saturating_add(1) };
                None
            }
            MARK_BEGIN | MARK_END if digits == DIGITS => {
                Some(SnapshotMark { number, is_end: mark == MARK_END })
            }
            _ => None,
        }
    }

    /// Discards the digits so far, because marks may be missing here.
    pub fn lose(&mut self) {
        *self = SnapshotMarks::default();
    }
}
