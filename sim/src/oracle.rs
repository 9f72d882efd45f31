//! What a card must send for any commands and settings, by `docs/format.md` alone, at the level of events.
//!
//! ```text
//! fuzz::pin_reader  pins                   -> accesses and faults
//! settings          accesses               -> completed commands, and what they set
//! model             those, the run switch  -> records, reports, and what slices and dumps count
//! capture           the card's frames      -> what they say, losses among it
//! exact, slices     without loss: all as due, record by record, counter by counter
//! losses            with losses: all true, nothing lost silently, and the counts add up
//! analysis          bounds contain the truth; what is counted and skipped adds up
//! traffic, case     seed -> hostile commands, switch and settings -> verdict
//! ```
//!
//! Knows nothing of the gateware. Where the document leaves freedom, everything that it allows is right:
//! the phase of a new grid of slices, what is lost, how long a dump takes. Not checked: when frames are
//! sent, and how records are packed into them.

use hmtt_format::{Event, MemoryDescription};

use crate::truth::compare::Shown;

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

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records the card says it lost.
    pub lost: u64,
    /// The card says it lost a command: what came after cannot be known.
    pub lost_command: bool,
    /// Dumps of the analysis.
    pub dumps: usize,
}

/// Compares what a card sent with what was due.
///
/// # Errors
/// The first thing that is wrong.
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

/// What the last report says of the state machine.
fn last(due: &Due, capture: &Capture) -> Result<(), String> {
    let last = capture.said.iter().rev().find_map(|said| match said {
        capture::Said::Report(report, ..) => Some((report.unreported, report.burst_length)),
        _ => None,
    });
    match last == Some(due.last) {
        true => Ok(()),
        false => {
            let due = due.last;
            Err(format!("unreported faults, burst length: {due:?}, reported: {last:?}"))
        }
    }
}

/// An event as a line.
fn shown(event: &Event) -> String {
    Shown(event).to_string()
}

/// First clock of an event; 0 where it has none.
fn clock(event: &Event) -> u64 {
    match event {
        Event::Access(access) => access.clock.0,
        Event::Tag { clock, .. }
        | Event::Fault { clock, .. }
        | Event::Page { clock, .. }
        | Event::Slice { clock, .. }
        | Event::Interval { clock, .. } => clock.0,
        Event::Count { .. } | Event::HotPage { .. } => 0,
    }
}
