//! What a capture says of an interface: its name, how its timestamps count, what it dropped.

use std::time::Duration;

use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};

use super::InterfaceStatistics;

/// Resolution of an interface that does not state one.
const MICROSECONDS: u8 = 6;

/// What a capture says of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Interface {
    /// Its name.
    pub name: Option<String>,
    /// What was counted there, if the capture was finished.
    pub statistics: Option<InterfaceStatistics>,
    #[serde(skip)]
    resolution: u8,
    #[serde(skip)]
    offset_seconds: u64,
}

impl Interface {
    pub(super) fn new(description: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Interface { resolution: MICROSECONDS, ..Default::default() };
        for option in &description.options {
            match option {
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

    /// Takes note of its statistics.
    pub(super) fn note(&mut self, block: &InterfaceStatisticsBlock<'_>) {
        let statistics = self.statistics.get_or_insert_default();
        for option in &block.options {
            match option {
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
