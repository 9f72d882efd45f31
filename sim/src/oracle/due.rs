//! What a card must send, and what it is made of.

use std::ops::Range;

use hmtt_format::{Access, Event};

use super::settings::Chosen;
use crate::fuzz::pin_reader::Outcome;

/// An access while the capture ran.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The access.
    pub access: Access,
    /// What it found of its row.
    pub outcome: Outcome,
    /// Rank * 16 + bank.
    pub bank: u8,
    /// It is of the tag window.
    pub window: bool,
    /// The analysis was on.
    pub analysed: bool,
}

/// A stretch under one setting, from a start or change to the next, or to a stop.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Clock at which it began.
    pub from: u64,
    /// Clock at which it was cut.
    pub to: u64,
    /// What was in force.
    pub chosen: Chosen,
    /// Clock of the last command that began a new grid of slices, if one came since the epoch before.
    pub fresh_grid: Option<u64>,
    /// Its bursts.
    pub bursts: Range<usize>,
}

/// What is recorded of one clock.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// An access outside the tag window.
    Burst(Access),
    /// A tag, mark or fault.
    Other(Event),
}

/// One of the things that records are made of.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// When.
    pub clock: u64,
    /// Number of its epoch.
    pub epoch: usize,
    /// What.
    pub what: What,
}

/// Counters of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// READ bursts.
    pub reads: u64,
    /// WRITE bursts.
    pub writes: u64,
    /// Faults.
    pub faults: u32,
    /// Tags and marks.
    pub tags: u32,
}

/// A report that is due.
#[derive(Clone, Debug)]
pub struct DueReport {
    /// It ends a capture.
    pub end: bool,
    /// Clock of its cause.
    pub clock: u64,
    /// Records due before it.
    pub records: usize,
    /// What may be in force; the first is what was at its cause.
    pub settings: Vec<Chosen>,
    /// The analysis was on.
    pub analysed: bool,
    /// The counters.
    pub totals: Totals,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Records but slices and those of the analysis, if nothing is lost.
    pub records: Vec<Event>,
    /// Reports.
    pub reports: Vec<DueReport>,
    /// Stretches under one setting.
    pub epochs: Vec<Epoch>,
    /// Accesses while the capture ran.
    pub bursts: Vec<Burst>,
    /// What records are made of.
    pub items: Vec<Item>,
    /// Completed commands, each with its clock.
    pub commands: Vec<(u64, u16)>,
    /// Clocks in all.
    pub end: u64,
    /// Faults that the last report must say were not reported, and the burst length in force.
    pub last: (u8, Option<u8>),
}
