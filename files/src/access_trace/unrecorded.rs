//! Counts what ran natively without a request, so that its accesses are missing in a trace.

use std::string::String;
use std::vec::Vec;

use super::take;

/// How a recorded process continued without being recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuation {
    /// The process ended while it was recorded, or recording stopped on request.
    #[default]
    None,
    /// The process continued natively: it did something that a code cache cannot do, or it could
    /// not be followed any longer.
    Natively,
    /// The process executed another program.
    Replaced,
}

/// Counts of what ran natively without a request.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 8 | how often threads came to code that ran natively |
/// | 8 | 8 | threads that ran natively, because there were too many |
/// | 16 | 8 | child processes |
/// | 24 | 8 | the [`Continuation`]: 0 for none, 1 if the process continued natively, 2 if it executed another program |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Number of times that threads came to code that ran natively.
    pub native_code: u64,
    /// Number of threads that ran natively, because there were too many threads.
    pub native_threads: u32,
    /// Child processes, which are not recorded. They do not count as a loss.
    pub children: u64,
    /// How the process continued after it was recorded.
    pub continuation: Continuation,
}

impl Unrecorded {
    /// Bytes of the description.
    pub const BYTES: usize = 32;

    /// The description in bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let Unrecorded { native_code, native_threads, children, continuation } = self;
        let continuation = match continuation {
            Continuation::None => 0,
            Continuation::Natively => 1,
            Continuation::Replaced => 2,
        };
        let mut bytes = [0; Self::BYTES];
        let numbers = [native_code, native_threads.into(), children, continuation];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes
    }

    /// Parses a description; `None` if the bytes are not a valid one.
    pub fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut number = || Some(u64::from_le_bytes(*take::<8>(&mut bytes)?));
        let [native_code, native_threads, children] = [number()?, number()?, number()?];
        let native_threads = u32::try_from(native_threads).ok()?;
        let continuation = match number()? {
            0 => Continuation::None,
            1 => Continuation::Natively,
            2 => Continuation::Replaced,
            _ => return None,
        };
        let unrecorded = Unrecorded { native_code, native_threads, children, continuation };
        bytes.is_empty().then_some(unrecorded)
    }

    /// Adds the counts of a later part of the recording. Its continuation replaces the earlier one,
    /// unless it is [`Continuation::None`].
    pub fn add(&mut self, later: Self) {
        self.native_code = self.native_code.saturating_add(later.native_code);
        self.native_threads = self.native_threads.saturating_add(later.native_threads);
        self.children = self.children.saturating_add(later.children);
        if later.continuation != Continuation::None {
            self.continuation = later.continuation;
        }
    }

    /// Whether accesses of the process itself are missing.
    pub fn has_loss(&self) -> bool {
        Unrecorded { children: 0, ..*self } != Unrecorded::default()
    }

    /// Describes the losses of the process itself, one clause for each reason.
    pub fn missing(&self) -> Vec<String> {
        let Unrecorded { native_code, native_threads, continuation, .. } = *self;
        let mut messages = Vec::new();
        match continuation {
            Continuation::None => {}
            Continuation::Natively => {
                messages.push(
                    "the program went on natively before its end, without being recorded".into(),
                );
            }
            Continuation::Replaced => {
                messages.push(
                    "the program has executed another one, whose accesses are not recorded".into(),
                );
            }
        }
        if native_code > 0 {
            messages.push(std::format!(
                "threads came {native_code} times to code that ran natively, whose accesses are missing"
            ));
        }
        if native_threads > 0 {
            messages.push(std::format!(
                "{native_threads} threads were too many, and their accesses are missing"
            ));
        }
        messages
    }

    /// A clause about child processes, which are not recorded; `None` if there were none.
    pub fn children_text(&self) -> Option<String> {
        match self.children {
            0 => None,
            1 => Some("1 child process ran natively, and is not recorded".into()),
            many => Some(std::format!("{many} child processes ran natively, and are not recorded")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_parsed_as_they_were_written() {
        for continuation in [Continuation::None, Continuation::Natively, Continuation::Replaced] {
            let unrecorded =
                Unrecorded { native_code: 1, native_threads: 2, children: 3, continuation };
            assert_eq!(Unrecorded::parse(&unrecorded.to_bytes()), Some(unrecorded));
        }
        let bytes = Unrecorded::default().to_bytes();
        assert_eq!(Unrecorded::parse(&bytes[1..]), None);
        assert_eq!(Unrecorded::parse(&[&bytes[..], &[0]].concat()), None);
        let mut other = bytes;
        other[24] = 3;
        assert_eq!(Unrecorded::parse(&other), None);
    }

    #[test]
    fn children_are_no_loss() {
        let mut unrecorded = Unrecorded { children: 2, ..Unrecorded::default() };
        assert!(!unrecorded.has_loss() && unrecorded.missing().is_empty());
        unrecorded.add(Unrecorded { native_code: 4, children: u64::MAX, ..Unrecorded::default() });
        assert!(unrecorded.has_loss());
        assert_eq!(
            (unrecorded.missing().len(), unrecorded.native_code, unrecorded.children),
            (1, 4, u64::MAX)
        );
        let continuation = Continuation::Replaced;
        unrecorded.add(Unrecorded { continuation, ..Unrecorded::default() });
        unrecorded.add(Unrecorded::default());
        assert_eq!(
            (unrecorded.continuation, unrecorded.missing().len()),
            (Continuation::Replaced, 2)
        );
    }
}
