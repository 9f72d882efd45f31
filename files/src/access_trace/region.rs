//! Describes the region of a thread's instructions to which a recording was limited.
//!
//! Instructions of executed blocks are counted as the thread executes them, from 0 on. A repeated
//! string instruction counts once. An instruction that a signal or fault interrupts counts when it
//! is executed to its end. The first and the last block in the file may be parts of blocks of the
//! program.
//!
//! Example: with `skip` 1000 and `count` 50, the region consists of the instructions 1000 to 1049.

use std::string::String;

use super::take;

/// The requested region of a thread, and the instructions that were recorded.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 8 | number of the thread in the system |
/// | 8 | 8 | how many instructions were to be skipped |
/// | 16 | 8 | how many of the following instructions were to be recorded; all ones: all |
/// | 24 | 8 | how many were skipped |
/// | 32 | 8 | how many were recorded |
/// | 40 | 8 | address of the instruction that the thread executed after the region; all ones if it is not known |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedRegion {
    /// Number of the thread in the system. Nothing was to be recorded of other threads.
    pub thread: u32,
    /// How many instructions were to be skipped.
    pub skip: u64,
    /// How many of the following instructions were to be recorded; `None` for all.
    pub count: Option<u64>,
    /// How many instructions were skipped. This is less than `skip` only if the thread executed no
    /// more instructions.
    pub skipped: u64,
    /// How many instructions were recorded.
    pub recorded: u64,
    /// Address of the instruction that the thread executed after the region, if it is known. It
    /// shows whether a branch at the end of the region was taken.
    pub next: Option<u64>,
}

impl RecordedRegion {
    /// Bytes of the description.
    pub const BYTES: usize = 48;

    /// The description in bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let RecordedRegion { thread, skip, count, skipped, recorded, next } = self;
        let [count, next] = [count, next].map(|number| number.unwrap_or(u64::MAX));
        let mut bytes = [0; Self::BYTES];
        let numbers = [thread.into(), skip, count, skipped, recorded, next];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes
    }

    /// Parses a description; `None` if the bytes are not a valid one.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut number = || Some(u64::from_le_bytes(*take::<8>(&mut bytes)?));
        let thread = u32::try_from(number()?).ok()?;
        let [skip, count, skipped] = [number()?, number()?, number()?];
        let [recorded, next] = [number()?, number()?];
        let [count, next] = [count, next].map(|number| (number != u64::MAX).then_some(number));
        let region = RecordedRegion { thread, skip, count, skipped, recorded, next };
        bytes.is_empty().then_some(region)
    }

    /// Whether all instructions of the region were recorded. A region without an end is complete if
    /// at least one instruction was recorded.
    pub fn is_complete(&self) -> bool {
        self.skipped == self.skip && self.recorded >= self.count.unwrap_or(1)
    }

    /// The request, as a clause of a sentence.
    pub fn request_text(&self) -> String {
        let RecordedRegion { thread, skip, count, .. } = *self;
        match count {
            Some(count) => std::format!(
                "only a region was to be recorded: {count} instructions of thread {thread} behind its first {skip}"
            ),
            None => std::format!(
                "only a region was to be recorded: all instructions of thread {thread} behind its first {skip}"
            ),
        }
    }

    /// The instructions of the region that are missing, as a clause of a sentence; `None` if none
    /// are missing.
    pub fn missing_text(&self) -> Option<String> {
        let RecordedRegion { skip, count, skipped, recorded, .. } = *self;
        if self.is_complete() {
            return None;
        }
        if recorded == 0 {
            return Some(std::format!(
                "no instruction of the region was recorded: the thread has executed {skipped} instructions, and {skip} were to be skipped"
            ));
        }
        let count = count.unwrap_or(u64::MAX);
        Some(std::format!("{recorded} of the {count} instructions of the region were recorded"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_parsed_as_they_were_written() {
        for count in [None, Some(0), Some(u64::MAX - 1)] {
            let (skip, skipped, recorded, next) = (2, 3, 4, count.map(|_| 5));
            let region = RecordedRegion { thread: 1, skip, count, skipped, recorded, next };
            assert_eq!(RecordedRegion::parse(&region.to_bytes()), Some(region));
        }
        let bytes = RecordedRegion::default().to_bytes();
        assert_eq!(RecordedRegion::parse(&bytes[1..]), None);
        assert_eq!(RecordedRegion::parse(&[&bytes[..], &[0]].concat()), None);
        let mut other = bytes;
        other[4] = 1;
        assert_eq!(RecordedRegion::parse(&other), None);
    }

    #[test]
    fn what_is_missing_is_stated() {
        let region = |count, skipped, recorded| RecordedRegion {
            thread: 1,
            skip: 5,
            count,
            skipped,
            recorded,
            next: None,
        };
        for complete in [region(Some(3), 5, 3), region(None, 5, 1)] {
            assert_eq!((complete.is_complete(), complete.missing_text()), (true, None));
        }
        for (missing, text) in [
            (region(Some(3), 4, 0), "executed 4 instructions, and 5 were to be skipped"),
            (region(Some(3), 5, 2), "2 of the 3 instructions of the region were recorded"),
            (region(None, 5, 0), "executed 5 instructions, and 5 were to be skipped"),
        ] {
            assert!(missing.missing_text().unwrap().ends_with(text), "{missing:?}");
        }
    }
}
