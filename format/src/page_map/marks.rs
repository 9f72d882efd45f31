//! Marks to the card at the begin and at the end of a snapshot, by which a capture states when the
//! snapshot was taken.
//!
//! ```text
//! 8 digits of the snapshot's number, the highest first: marks e0 to ef    then f0: it begins, or f1: it has ended
//! ```
//!
//! Numbers count from a random one on, so that two recordings during one capture are not confused.
//! The last mark is the one whose time counts.

/// The mark of the digit 0. That of the digit 15 is 15 more.
pub const MARK_DIGIT_FIRST: u8 = 0xe0;
/// The mark behind the digits of a snapshot that begins.
pub const MARK_BEGIN: u8 = 0xf0;
/// The mark behind the digits of a snapshot that has ended.
pub const MARK_END: u8 = 0xf1;
/// Digits of a number, of 4 bits each.
const DIGITS: u32 = u32::BITS / 4;

/// The begin or the end of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotMark {
    /// Number of the snapshot, [`Snapshot::mark`](super::Snapshot::mark).
    pub number: u32,
    /// Whether it has ended. Otherwise it begins.
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

    /// The marks for free use that state it, in order.
    ///
    /// ```
    /// use hmtt_format::page_map::SnapshotMark;
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
    /// Takes the next mark for free use. Returns what it completes.
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

    /// Marks may be missing here.
    pub fn lose(&mut self) {
        *self = SnapshotMarks::default();
    }
}
