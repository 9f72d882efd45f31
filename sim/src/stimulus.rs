//! Turns a recording into levels of the card's pins: the recording's clocks with `run` high, then
//! quiet clocks with `run` low until the card has sent all records that it stores.
//!
//! The quiet clocks are DESELECT with the recording's last CKE, so that the card's view of the
//! memory does not change while it drains.

use std::ops::Range;

use hmtt_format::command::MAX_RANKS;
use hmtt_format::{Command, CommandKind, Generation, Pins};

use crate::input::{InputError, Span, Spans};
use crate::schedule::TX_PERIOD_PS;

/// Maximum number of clocks in a [`Drive`], small enough to show progress and to stop in time.
pub const LONGEST_DRIVE: u64 = 4096;
/// Maximum number of quiet clocks in a [`Drive`]. A card that has finished is detected after two of
/// them.
pub const LONGEST_QUIET_DRIVE: u64 = 2048;
/// Minimum number of quiet clocks after which a card that has not finished is an error.
pub const LEAST_QUIET_CLOCKS: u64 = 200_000;
/// Quiet time in picoseconds after which a card that has not finished is an error. A full FIFO of
/// 256 KB takes 2.1 ms at one gigabit.
pub const QUIET_PS: u64 = 3_000_000_000;

/// Consecutive clocks with the same levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Number of clocks, 1 to [`LONGEST_DRIVE`].
    pub clocks: u64,
    /// The command pins.
    pub pins: Pins,
    /// The level of the run switch.
    pub run: bool,
    /// Whether the clocks are part of the recording, not quiet clocks after it.
    pub recorded: bool,
}

/// Counts of the recording so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of clocks.
    pub clocks: u64,
    /// Number of commands other than DESELECT and NOP.
    pub commands: u64,
}

/// Iterates over the drives of a recording and of the quiet clocks after it.
pub struct Stimulus {
    spans: Spans,
    generation: Generation,
    counts: Counts,
    quiet: u64,
    /// CKE of the ranks at the previous clock; `None` before clock 0.
    cke: Option<u8>,
    rest: Option<Drive>,
    recording: bool,
    /// Number of clocks returned so far.
    clocks: u64,
    /// Ranges of recorded clocks with the run switch off.
    off: Vec<Range<u64>>,
}

impl Stimulus {
    /// Creates the stimulus. `tck_ps`: period of the DDR clock in picoseconds.
    pub fn new(spans: Spans, generation: Generation, tck_ps: u32) -> Self {
        let quiet = LEAST_QUIET_CLOCKS.max(QUIET_PS / u64::from(tck_ps.max(1)));
        Stimulus {
            spans,
            generation,
            counts: Counts::default(),
            quiet,
            cke: None,
            rest: None,
            recording: true,
            clocks: 0,
            off: Vec::new(),
        }
    }

    /// Turns the run switch off for these clocks of the recording, which are in order.
    pub fn with_switch_off(mut self, off: Vec<Range<u64>>) -> Self {
        self.off = off;
        self
    }

    /// Lengthens the quiet time for a link with this period of the TX clock.
    pub fn for_link(mut self, tx_period_ps: u32) -> Self {
        self.quiet = self.quiet * u64::from(tx_period_ps) / u64::from(TX_PERIOD_PS);
        self
    }

    /// Counts of the recording so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    fn count(&mut self, span: Span) {
        let before = self.cke.unwrap_or(0);
        let idle = (0..MAX_RANKS).all(|rank| {
            let awake = before >> rank & 1 != 0;
            let command = Command::decode_rank(self.generation, span.pins, rank, awake);
            matches!(command.kind, CommandKind::Deselect | CommandKind::Nop)
        });
        self.cke = Some(span.pins.cke);
        self.counts.clocks += span.clocks;
        self.counts.commands += u64::from(!idle);
    }

    /// Returns the clocks of `drive` that fit in one drive, and keeps the rest.
    fn split(&mut self, drive: Drive) -> Drive {
        let longest = if drive.recorded { LONGEST_DRIVE } else { LONGEST_QUIET_DRIVE };
        let (on, same) = self.switch();
        let clocks = drive.clocks.min(longest).min(same);
        let left = drive.clocks - clocks;
        self.rest = (left > 0).then_some(Drive { clocks: left, ..drive });
        self.clocks += clocks;
        Drive { clocks, run: drive.recorded && on, ..drive }
    }

    /// Returns whether the run switch is on at the next clock of a recording, and for how many
    /// clocks it stays so.
    fn switch(&self) -> (bool, u64) {
        let clock = self.clocks;
        match self.off.iter().find(|off| off.end > clock) {
            Some(off) if off.contains(&clock) => (false, off.end - clock),
            Some(off) => (true, off.start - clock),
            None => (true, u64::MAX),
        }
    }
}

impl Iterator for Stimulus {
    type Item = Result<Drive, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(rest) = self.rest.take() {
            return Some(Ok(self.split(rest)));
        }
        if !self.recording {
            return None;
        }
        match self.spans.next() {
            Some(Ok(span)) => {
                self.count(span);
                let drive =
                    Drive { clocks: span.clocks, pins: span.pins, run: true, recorded: true };
                Some(Ok(self.split(drive)))
            }
            Some(Err(error)) => {
                self.recording = false;
                Some(Err(error))
            }
            None => {
                self.recording = false;
                let pins = Pins { cke: self.cke.unwrap_or(0), ..Pins::DESELECT };
                let drive = Drive { clocks: self.quiet, pins, run: false, recorded: false };
                Some(Ok(self.split(drive)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_switch_is_off_in_the_given_ranges() {
        let spans = [5, 7].map(|clocks| Ok(Span { clocks, pins: Pins::DESELECT }));
        let stimulus = Stimulus::new(Box::new(spans.into_iter()), Generation::Ddr1, 10_000);
        let mut stimulus = stimulus.with_switch_off(vec![0..2, 4..9]);
        let levels: Vec<(u64, bool)> = stimulus
            .by_ref()
            .map(Result::unwrap)
            .take_while(|drive| drive.recorded)
            .map(|drive| (drive.clocks, drive.run))
            .collect();
        assert_eq!(levels, [(2, false), (2, true), (1, false), (4, false), (3, true)]);
        assert!(stimulus.all(|drive| drive.is_ok_and(|drive| !drive.run)));
    }

    #[test]
    fn quiet_clocks_keep_the_last_cke() {
        let low = Pins { cke: 0, ..Pins::DESELECT };
        let read = Pins { cs_n: 0b1110, cas_n: false, ..Pins::DESELECT };
        let spans = [(1, Pins::DESELECT), (1, read), (10_000, low)]
            .map(|(clocks, pins)| Ok(Span { clocks, pins }));
        let mut stimulus = Stimulus::new(Box::new(spans.into_iter()), Generation::Ddr1, 10_000);
        let drives: Vec<_> = stimulus.by_ref().map(Result::unwrap).collect();
        let clocks = |run| -> u64 {
            drives.iter().filter(|drive| drive.run == run).map(|drive| drive.clocks).sum()
        };
        assert_eq!((clocks(true), clocks(false)), (10_002, 300_000));
        assert!(drives.iter().all(|drive| (1..=LONGEST_DRIVE).contains(&drive.clocks)));
        assert!(drives.iter().filter(|drive| !drive.run).all(|drive| drive.pins == low));
        // These are the READ and the power-down entry.
        assert_eq!(stimulus.counts(), Counts { clocks: 10_002, commands: 2 });
    }
}
