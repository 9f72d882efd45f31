//! Reduces a card's report to the description that is stored with a table.

use hmtt_format::Report;
use hmtt_format::config::Granularity;
use hmtt_format::config::Mode;
use serde::{Deserialize, Serialize};

/// Description of a card: the units that are needed to interpret the numbers of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Clock period in picoseconds: a clock multiplied by it is a time.
    pub tck_ps: u32,
    /// Number of bytes that the address of a row stands for: of a page, a line or a burst.
    pub unit_bytes: u32,
    /// Version of the wire format that the card sends.
    pub format_version: u8,
    /// Digest of the card's memory description, hexadecimal.
    pub digest: String,
}

/// log2 of the bytes of a page.
const PAGE_LOG2: u32 = hmtt_format::memory::PAGE_LOG2 as u32;

impl From<&Report> for Card {
    fn from(report: &Report) -> Self {
        let memory = &report.memory;
        let burst_bytes = u32::from(memory.burst_length) << memory.bus_log2;
        let line_bytes = 1u32.checked_shl(memory.line_log2.into()).unwrap_or(0);
        Card {
            tck_ps: memory.tck_ps,
            unit_bytes: match (report.mode, report.granularity) {
                (Mode::Page, _) => 1 << PAGE_LOG2,
                (_, Granularity::Line) => line_bytes,
                (_, Granularity::Burst) => burst_bytes,
            },
            format_version: report.version,
            digest: format!("{:016x}", report.digest),
        }
    }
}
