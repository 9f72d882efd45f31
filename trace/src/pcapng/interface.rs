//! What a capture says of an interface: its name, how its timestamps count, what it dropped.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};

use super::InterfaceStatistics;
use super::capture_sums::{Capture, CaptureSums};

/// Resolution that needs no scaling, and the usual one.
const NANOSECONDS: u8 = 9;
/// Resolution of an interface that does not state one.
const MICROSECONDS: u8 = 6;

/// What a capture says of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Interface {
    /// Its name.
    pub name: Option<String>,
    /// Comments its description has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// What was counted there, if the capture was finished; in all captures together.
    pub statistics: Option<InterfaceStatistics>,
    /// The comment of the last statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics_comment: Option<String>,
    /// The comments, to tell new ones.
    #[serde(skip)]
    seen_comments: HashSet<String>,
    #[serde(skip)]
    counted: CaptureSums,
    #[serde(skip)]
    resolution: u8,
    #[serde(skip)]
    offset_seconds: u64,
}

fn entry_bytes(text: &str) -> usize {
    ENTRY_BYTES + text.len()
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Interface { resolution: MICROSECONDS, ..Default::default() };
        for option in &description.options {
            match option {
                InterfaceDescriptionOption::Comment(text) => {
                    interface.comments.push(text.to_string());
                }
                InterfaceDescriptionOption::IfName(name) => interface.name = Some(name.to_string()),
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    interface.resolution = *resolution;
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => {
                    interface.offset_seconds = *seconds;
                }
                _ => {}
            }
        }
        interface.seen_comments = interface.comments.iter().cloned().collect();
        interface
    }

    /// A later section describes it again. Returns the bytes that are kept of that.
    fn merge_later_section(&mut self, later: Interface) -> usize {
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

    /// `if_tsresol`: the top bit tells powers of 2 from powers of 10. `None` when the file states a
    /// time that no clock shows.
    pub(super) fn time(&self, ticks: u64) -> Option<Duration> {
        if self.resolution == NANOSECONDS {
            let seconds = (ticks / 1_000_000_000).checked_add(self.offset_seconds)?;
            return Some(Duration::new(seconds, (ticks % 1_000_000_000) as u32));
        }
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second = if self.resolution & 0x80 == 0 {
            10u64.checked_pow(exponent)?
        } else {
            1u64.checked_shl(exponent)?
        };
        let rest = u128::from(ticks % per_second) * 1_000_000_000 / u128::from(per_second);
        let seconds = (ticks / per_second).checked_add(self.offset_seconds)?;
        Some(Duration::new(seconds, rest as u32))
    }

    /// Takes note of its statistics as of `time`, in a section.
    fn note(&mut self, block: &InterfaceStatisticsBlock<'_>, time: u64, section: u64) {
        let mut capture = Capture::Section(section);
        let mut statistics = InterfaceStatistics::default();
        let mut comment = None;
        for option in &block.options {
            match option {
                InterfaceStatisticsOption::Comment(text) => comment = Some(text),
                InterfaceStatisticsOption::IsbStartTime(start) => {
                    capture = Capture::Started(*start)
                }
                InterfaceStatisticsOption::IsbIfRecv(count) => statistics.received = Some(*count),
                InterfaceStatisticsOption::IsbIfDrop(count) => {
                    statistics.interface_drops = Some(*count);
                }
                InterfaceStatisticsOption::IsbOsDrop(count) => {
                    statistics.kernel_drops = Some(*count);
                }
                _ => {}
            }
        }
        if self.counted.note(capture, time, &statistics) {
            self.statistics = Some(self.counted.total());
            if let Some(comment) = comment {
                self.statistics_comment = Some(comment.to_string());
            }
        }
    }
}

/// Most bytes that names and comments of a capture's interfaces take, with [`ENTRY_BYTES`] for each.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// What an interface or a comment counts for beside its text.
const ENTRY_BYTES: usize = 256;

/// The interfaces of a capture. Those of a new section are numbered anew; the same name is the same one. If a
/// section has several of a name, the first of them is the first of that name in other sections, and so on.
///
/// A description costs the same however many there are, and all of them together no more than
/// [`MAX_KEPT_BYTES`], so that a compressed capture of descriptions does not fill the memory.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    /// Where those of the section are among all.
    section: Vec<usize>,
    /// Sections before it.
    sections: u64,
    named: HashMap<Option<String>, Named>,
    kept_bytes: usize,
}

/// The interfaces of one name.
#[derive(Debug, Default)]
struct Named {
    /// Where they are among all.
    places: Vec<usize>,
    /// How many of them the section has described.
    described: (u64, usize),
}

impl Interfaces {
    pub fn all(&self) -> &[Interface] {
        &self.all
    }

    /// Where the interface that the section gives this number is among all; beyond them if it is not
    /// described.
    pub fn index(&self, number: usize) -> usize {
        self.section.get(number).copied().unwrap_or(self.all.len())
    }

    /// A section begins.
    pub fn section(&mut self) {
        self.section.clear();
        self.sections += 1;
    }

    /// The section describes its next interface.
    ///
    /// # Errors
    /// The descriptions are too long.
    pub fn describe(
        &mut self,
        description: &InterfaceDescriptionBlock<'_>,
    ) -> Result<(), &'static str> {
        let new = Interface::new(description);
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
        match self.kept_bytes <= MAX_KEPT_BYTES {
            true => Ok(()),
            false => Err("the names and comments of interfaces take more than 64 MiB"),
        }
    }

    /// The section states what was counted. Its times are two words, high one first, in either byte
    /// order; the block library reads them as one 64-bit integer.
    pub fn note(&mut self, block: &InterfaceStatisticsBlock<'_>, big_endian: bool) {
        let index = self.index(block.interface_id as usize);
        if let Some(interface) = self.all.get_mut(index) {
            let time = block.timestamp;
            let time = if big_endian { time } else { time.rotate_left(32) };
            interface.note(block, time, self.sections);
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
    }
}
