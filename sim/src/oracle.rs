//! Checks what a card sends for any commands and settings, by `docs/format.md` only, at the level
//! of events.
//!
//! ```text
//! fuzz::pin_reader  pins                   -> accesses and faults
//! settings          accesses               -> completed commands, and the settings after them
//! model             accesses, faults, run switch -> expected records and reports, accesses for slices and dumps
//! capture           the card's frames      -> their content, including losses
//! exact, slices     without loss: each record and each counter is the expected one
//! losses            with losses: each record is true, each loss is reported, and the counts add up
//! analysis          bounds contain the true counts; counted and skipped accesses add up
//! traffic, case     seed -> hostile commands, switch and settings -> verdict
//! ```
//!
//! Invariant: nothing is taken from the gateware. Where the document allows several results, all of
//! them are accepted: the phase of a new grid of slices, the place of losses, the duration of a
//! dump. The times at which frames are sent and the packing of records into frames are not checked.

use hmtt_format::event::Values;
use hmtt_format::{Event, MemoryDescription};

pub mod analysis;
pub mod capture;
pub mod case;
pub mod due;
pub mod exact;
pub mod losses;
pub mod model;
pub mod runs;
pub mod settings;
pub mod slices;
pub mod traffic;

use capture::Capture;
use due::Due;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of records that the card reports as lost.
    pub lost: u64,
    /// Whether the card reports that it lost a command. The records that it must send after that
    /// are unknown.
    pub lost_command: bool,
    /// Number of dumps of the analysis.
    pub dumps: usize,
}

/// Compares what a card sent with what it had to send.
///
/// # Errors
/// A description of the first difference.
pub fn check(due: &Due, memory: &MemoryDescription, capture: &Capture) -> Result<Verdict, String> {
    let mut verdict = Verdict { lost: capture.lost, ..Verdict::default() };
    if capture.lost_command() {
        verdict.lost_command = true;
        return Ok(verdict);
    }
    if capture.lost == 0 {
        exact::records(due, capture)?;
        slices::check(due, capture, memory)?;
    } else {
        losses::check(due, capture, memory)?;
    }
    verdict.dumps = analysis::check(due, capture)?;
    last(due, capture)?;
    Ok(verdict)
}

/// Compares the state of the state machine in the last report.
fn last(due: &Due, capture: &Capture) -> Result<(), String> {
    let last = capture.elements.iter().rev().find_map(|element| match element {
        capture::Element::Report(report, ..) => Some((report.unreported, report.burst_length)),
        _ => None,
    });
    if last == Some(due.last) {
        Ok(())
    } else {
        let due = due.last;
        Err(format!("unreported faults, burst length: {due:?}, reported: {last:?}"))
    }
}

/// First clock of an event; 0 if it has none.
fn clock(event: &Event) -> u64 {
    event.clock().unwrap_or_default().0
}

/// First clock of a slice, and first clock after it. `tck_ps`: clock period in picoseconds.
fn extent(slice: &Event, tck_ps: u32) -> (u64, u64) {
    let Values { clock, duration, .. } = slice.with_settings(None, Some(tck_ps)).values();
    let clock = clock.unwrap_or_default().0;
    (clock, clock + duration.unwrap_or_default().0)
}
