//! Counts of a replay, as text and as JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// The counts of one replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Clocks of the recording.
    pub clocks: u64,
    /// Commands of the recording other than DESELECT and NOP.
    pub commands: u64,
    /// Accesses in the card's records.
    pub accesses: u64,
    /// Frames received.
    pub frames: u64,
    /// Records in these frames.
    pub records: u64,
    /// Records that the card reports as lost.
    #[serde(rename = "card_lost_records")]
    pub lost_records: u64,
    /// Protocol faults the card recorded.
    #[serde(rename = "faults")]
    pub protocol_faults: u64,
    /// Tags and marks the card recorded.
    pub tags: u64,
    /// Violations of IEEE 802.3 on the card's GMII.
    pub link_violations: u64,
    /// Frames that cannot be decoded or do not continue the frames before.
    pub frame_flaws: u64,
    /// Largest number of 64-bit words in the card's FIFO, not counting blocks that are being
    /// written.
    pub fifo_peak_words: u64,
    /// Clocks simulated per second of real time.
    pub clocks_per_second: u64,
}

impl Summary {
    /// Sets the speed from the duration of the run.
    pub fn took(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        if seconds > 0.0 {
            self.clocks_per_second = (self.clocks as f64 / seconds) as u64;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} clocks, {} commands -> {} accesses in {} records, {} frames",
            self.clocks, self.commands, self.accesses, self.records, self.frames
        )?;
        writeln!(
            f,
            "lost on the card {}, protocol faults {}, tags {}, link violations {}, frame flaws {}",
            self.lost_records,
            self.protocol_faults,
            self.tags,
            self.link_violations,
            self.frame_flaws
        )?;
        write!(f, "{} clocks/s", self.clocks_per_second)
    }
}
