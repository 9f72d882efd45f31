//! Stores what a capture states about its interfaces: names, comments, timestamp resolutions and
//! statistics.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::InterfaceStatistics;
use super::block::{FIELDS_AT, Fields};
use super::capture_sums::{Capture, CaptureSums};
use super::options::COMMENT;

/// Bytes of a description's fields: link type, a reserved word, and the largest captured length of
/// a packet.
const DESCRIPTION_FIELDS: usize = 8;
/// Bytes of a statistics block's fields: the interface's number and a timestamp.
const STATISTICS_FIELDS: usize = 12;
/// Byte offset of a statistics block's timestamp.
const STATISTICS_TIME_AT: usize = FIELDS_AT + 4;
/// Code of a description's option with the name of the interface.
const IF_NAME: u16 = 2;
/// Code of a description's option with the resolution of timestamps.
const IF_TSRESOL: u16 = 9;
/// Code of a description's option with the seconds that are added to timestamps.
const IF_TSOFFSET: u16 = 14;
/// Code of a statistics block's option with the start time of the capture.
const ISB_STARTTIME: u16 = 2;
/// Code of a statistics block's option with the number of frames that arrived.
const ISB_IFRECV: u16 = 4;
/// Code of a statistics block's option with the number of frames that the interface dropped.
const ISB_IFDROP: u16 = 5;
/// Code of a statistics block's option with the number of frames that the kernel dropped.
const ISB_OSDROP: u16 = 7;
/// `if_tsresol` of nanoseconds, which needs no scaling.
const NANOSECONDS: u8 = 9;
/// `if_tsresol` of an interface that does not state one: microseconds.
const MICROSECONDS: u8 = 6;

/// An interface of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Interface {
    /// Name of the interface (`if_name`).
    pub name: Option<String>,
    /// Comments in the interface's descriptions. Comments that later sections repeat are stored
    /// once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// Counts of the interface, added up over all captures; `None` if no capture was finished.
    pub statistics: Option<InterfaceStatistics>,
    /// Comment of the latest statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics_comment: Option<String>,
    /// All comments so far, by which repeated comments are recognised.
    #[serde(skip)]
    seen_comments: HashSet<String>,
    #[serde(skip)]
    counted: CaptureSums,
    /// Link type of the packets.
    #[serde(skip)]
    pub link_type: u16,
    #[serde(skip)]
    resolution: u8,
    #[serde(skip)]
    offset_seconds: i64,
}

fn entry_bytes(text: &str) -> usize {
    ENTRY_BYTES + text.len()
}

impl Interface {
    /// Parses an Interface Description Block.
    fn parse(fields: Fields, block: &[u8]) -> Result<Self, &'static str> {
        let link_type = fields.u16(block, FIELDS_AT);
        let mut interface = Interface { link_type, resolution: MICROSECONDS, ..Default::default() };
        for option in fields.options(block, DESCRIPTION_FIELDS)? {
            let option = option?;
            match option.code {
                COMMENT => interface.comments.push(option.text()),
                IF_NAME => interface.name = Some(option.text()),
                IF_TSRESOL => {
                    let [value] = option.array().ok_or("its if_tsresol is not 1 byte long")?;
                    interface.resolution = value;
                }
                IF_TSOFFSET => {
                    let value = option.array().ok_or("its if_tsoffset is not 8 bytes long")?;
                    interface.offset_seconds = fields.u64(value).cast_signed();
                }
                _ => {}
            }
        }
        interface.seen_comments = interface.comments.iter().cloned().collect();
        Ok(interface)
    }

    /// Merges the description from a later section. Returns the growth of the kept texts in bytes.
    fn merge_later_section(&mut self, later: Interface) -> usize {
        self.link_type = later.link_type;
        (self.resolution, self.offset_seconds) = (later.resolution, later.offset_seconds);
        let mut kept = 0;
        for comment in later.comments {
            if self.seen_comments.insert(comment.clone()) {
                kept += entry_bytes(&comment);
                self.comments.push(comment);
            }
        }
        kept
    }

    fn kept_bytes(&self) -> usize {
        let texts = self.comments.iter().chain(&self.name);
        ENTRY_BYTES + texts.map(|text| entry_bytes(text)).sum::<usize>()
    }

    /// Converts a timestamp in ticks to the time since the Unix epoch. If the top bit of
    /// `if_tsresol` is set, the resolution is a power of 2 instead of a power of 10. Returns `None`
    /// if the time cannot be represented.
    pub(super) fn time(&self, ticks: u64) -> Option<Duration> {
        if self.resolution == NANOSECONDS {
            let seconds = (ticks / 1_000_000_000).checked_add_signed(self.offset_seconds)?;
            return Some(Duration::new(seconds, (ticks % 1_000_000_000) as u32));
        }
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second = if self.resolution & 0x80 == 0 {
            10u64.checked_pow(exponent)?
        } else {
            1u64.checked_shl(exponent)?
        };
        let rest = u128::from(ticks % per_second) * 1_000_000_000 / u128::from(per_second);
        let seconds = (ticks / per_second).checked_add_signed(self.offset_seconds)?;
        Some(Duration::new(seconds, rest as u32))
    }

    /// Adds a statistics block. `section`: number of its section. If the option of a count has a
    /// wrong length, the count is not known.
    fn note(&mut self, fields: Fields, block: &[u8], section: u64) -> Result<(), &'static str> {
        let mut capture = Capture::Section(section);
        let mut statistics = InterfaceStatistics::default();
        let mut comment = None;
        for option in fields.options(block, STATISTICS_FIELDS)? {
            let option = option?;
            let count = || option.array().map(|bytes| fields.u64(bytes));
            match option.code {
                COMMENT => comment = Some(option),
                ISB_STARTTIME if option.value.len() == size_of::<u64>() => {
                    capture = Capture::Started(fields.time(option.value, 0));
                }
                ISB_IFRECV => statistics.received_frames = count(),
                ISB_IFDROP => statistics.interface_dropped_frames = count(),
                ISB_OSDROP => statistics.kernel_dropped_frames = count(),
                _ => {}
            }
        }
        let time = fields.time(block, STATISTICS_TIME_AT);
        if self.counted.note(capture, time, &statistics) {
            self.statistics = Some(self.counted.total());
            if let Some(comment) = comment {
                self.statistics_comment = Some(comment.text());
            }
        }
        Ok(())
    }
}

/// Maximum number of bytes that the names and comments of all interfaces may take, including
/// [`ENTRY_BYTES`] for each interface and each comment.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// Bytes that an interface or a comment counts in addition to its text.
const ENTRY_BYTES: usize = 256;

/// The interfaces of a capture, in all of its sections. Each section numbers its interfaces from 0.
/// Interfaces with the same name in different sections are one interface. If a section has several
/// interfaces with the same name, the N-th of them is the same interface as the N-th with this name
/// in another section.
///
/// The work for one description does not depend on the number of descriptions. All descriptions
/// together keep at most [`MAX_KEPT_BYTES`], so that a compressed capture full of descriptions does
/// not exhaust the memory.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    /// Indices into `all`, by an interface's number in the current section.
    section: Vec<usize>,
    /// Number of sections before the current one.
    sections: u64,
    named: HashMap<Option<String>, Named>,
    kept_bytes: usize,
}

/// The interfaces with one name.
#[derive(Debug, Default)]
struct Named {
    /// Indices into [`Interfaces::all`].
    places: Vec<usize>,
    /// Number of the last section that described such an interface, and the number of such
    /// interfaces that it has described.
    described: (u64, usize),
}

impl Interfaces {
    pub fn all(&self) -> &[Interface] {
        &self.all
    }

    /// Index into [`Interfaces::all`] of the interface with this number in the current section. If
    /// the section does not describe the interface, the index is beyond the end.
    pub fn index(&self, number: usize) -> usize {
        self.section.get(number).copied().unwrap_or(self.all.len())
    }

    /// Begins a section.
    pub fn section(&mut self) {
        self.section.clear();
        self.sections += 1;
    }

    /// Adds the only interface of a classic pcap file, whose ticks are nanoseconds.
    pub fn classic(&mut self, link_type: u16) {
        self.section.push(self.all.len());
        self.all.push(Interface { link_type, resolution: NANOSECONDS, ..Interface::default() });
    }

    /// Adds the description of the next interface in the section.
    ///
    /// # Errors
    /// The reason as a text, if the block is invalid or the descriptions exceed [`MAX_KEPT_BYTES`].
    pub fn describe(&mut self, fields: Fields, block: &[u8]) -> Result<(), &'static str> {
        let new = Interface::parse(fields, block)?;
        let named = self.named.entry(new.name.clone()).or_default();
        if named.described.0 != self.sections {
            named.described = (self.sections, 0);
        }
        let index = match named.places.get(named.described.1) {
            Some(index) => {
                let known = &mut self.all[*index];
                self.kept_bytes += known.merge_later_section(new);
                *index
            }
            None => {
                let index = self.all.len();
                named.places.push(index);
                self.kept_bytes += new.kept_bytes();
                self.all.push(new);
                index
            }
        };
        named.described.1 += 1;
        self.section.push(index);
        if self.kept_bytes <= MAX_KEPT_BYTES {
            Ok(())
        } else {
            Err("the names and comments of interfaces take more than 64 MiB")
        }
    }

    /// Adds a statistics block in the section.
    ///
    /// # Errors
    /// The reason as a text, if the block is invalid.
    pub fn note(&mut self, fields: Fields, block: &[u8]) -> Result<(), &'static str> {
        fields.options(block, STATISTICS_FIELDS)?;
        let index = self.index(fields.u32(block, FIELDS_AT) as usize);
        match self.all.get_mut(index) {
            Some(interface) => interface.note(fields, block, self.sections),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_stated_resolution() {
        let time = |resolution, ticks| {
            Interface { resolution, offset_seconds: 10, ..Default::default() }.time(ticks)
        };
        assert_eq!(time(9, 1_500_000_001), Some(Duration::new(11, 500_000_001)));
        assert_eq!(time(MICROSECONDS, 1_500_001), Some(Duration::new(11, 500_001_000)));
        assert_eq!(time(0, 3), Some(Duration::new(13, 0)));
        assert_eq!(time(0x80 | 1, 3), Some(Duration::new(11, 500_000_000)));
        assert_eq!(time(0x80 | 64, 3), None);
        assert_eq!(time(20, 3), None);
        assert_eq!(time(0, u64::MAX), None);
        let early = Interface { resolution: 9, offset_seconds: -3, ..Default::default() };
        assert_eq!(early.time(5_000_000_007), Some(Duration::new(2, 7)));
        assert_eq!(early.time(0), None, "before the Unix epoch");
    }
}
