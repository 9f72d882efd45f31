//! Defines what a card must send, and the accesses and events from which its records are made.

use std::ops::Range;

use hmtt_format::{Access, Event};

use super::settings::Chosen;
use crate::fuzz::pin_reader::Outcome;

/// An access during a capture.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The access.
    pub access: Access,
    /// The state of the row that the access found.
    pub outcome: Outcome,
    /// Rank * 16 + bank.
    pub bank: u8,
    /// Whether the access is in the tag window.
    pub window: bool,
    /// Whether the analysis was on.
    pub analysed: bool,
}

/// A part of a capture with constant settings, from a start or a change to the next change, or to a
/// stop.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Clock at which the epoch began.
    pub from: u64,
    /// Clock at which the epoch ended.
    pub to: u64,
    /// The settings.
    pub chosen: Chosen,
    /// Clock of the last command that began a new grid of slices since the previous epoch; `None`
    /// if no command did.
    pub fresh_grid: Option<u64>,
    /// Indices of the epoch's bursts.
    pub bursts: Range<usize>,
}

/// An access or event from which a record is made.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// An access outside the tag window.
    Burst(Access),
    /// A tag, mark or fault.
    Other(Event),
}

/// An access or event with its clock and epoch.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Clock of the access or event.
    pub clock: u64,
    /// Index of the epoch.
    pub epoch: usize,
    /// The access or event.
    pub what: What,
}

/// Counters of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of READ bursts.
    pub reads: u64,
    /// Number of WRITE bursts.
    pub writes: u64,
    /// Number of faults.
    pub faults: u32,
    /// Number of tags and marks.
    pub tags: u32,
}

/// A report that the card must send.
#[derive(Clone, Debug)]
pub struct DueReport {
    /// Whether the report ends a capture.
    pub end: bool,
    /// Clock of the event that causes the report.
    pub clock: u64,
    /// Number of records that must be sent before it.
    pub records: usize,
    /// The settings that the report may state. The first ones were in effect when the event
    /// occurred that causes the report.
    pub settings: Vec<Chosen>,
    /// Whether the analysis was on.
    pub analysed: bool,
    /// The counters of the report.
    pub totals: Totals,
}

/// Everything that a card must send, and its causes.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Records, if no record is lost. Slices and records of the analysis are not included.
    pub records: Vec<Event>,
    /// Reports.
    pub reports: Vec<DueReport>,
    /// Parts of the capture with constant settings.
    pub epochs: Vec<Epoch>,
    /// Accesses during captures.
    pub bursts: Vec<Burst>,
    /// Accesses and events from which the records are made.
    pub items: Vec<Item>,
    /// Completed commands, each with its clock.
    pub commands: Vec<(u64, u16)>,
    /// Total number of clocks.
    pub end: u64,
    /// Number of unreported faults and burst length that the last report must state.
    pub last: (u8, Option<u8>),
}
