//! What a capture says of an interface: its name, how its timestamps count, what it dropped.

mod counted;

use std::time::Duration;

use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};

use super::InterfaceStatistics;
use counted::{Capture, Counted};

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
    #[serde(skip)]
    counted: Counted,
    #[serde(skip)]
    resolution: u8,
    #[serde(skip)]
    offset_seconds: u64,
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
        interface
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

/// The interfaces of a capture. Those of a new section are numbered anew; the same name is the same one.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    all: Vec<Interface>,
    /// Where those of the section are among all.
    section: Vec<usize>,
    /// Sections before it.
    sections: u64,
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
    pub fn describe(&mut self, description: &InterfaceDescriptionBlock<'_>) {
        let new = Interface::new(description);
        let known = self.all.iter().position(|known| known.name == new.name);
        let index = match known.filter(|index| !self.section.contains(index)) {
            Some(index) => {
                let known = &mut self.all[index];
                let Interface { comments, resolution, offset_seconds, .. } = new;
                let unsaid = comments.into_iter().filter(|text| !known.comments.contains(text));
                let unsaid: Vec<String> = unsaid.collect();
                known.comments.extend(unsaid);
                (known.resolution, known.offset_seconds) = (resolution, offset_seconds);
                index
            }
            None => {
                self.all.push(new);
                self.all.len() - 1
            }
        };
        self.section.push(index);
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
