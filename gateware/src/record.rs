//! Defines records, which the statistics unit and the analysis pass to the block writer.
//!
//! The configuration unit requests some kinds of records itself, so the kinds are defined apart
//! from the units that make records. `docs/format.md` states how each kind is written into a frame.

#![allow(missing_docs, reason = "LogicStruct derives public methods without documentation")]

use rust_hdl::prelude::*;

/// Kind of a record.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RecordKind {
    /// No record.
    Nothing,
    /// Accesses to one unit, a line or a burst.
    Access,
    /// An access to the tag window.
    Tag,
    /// A completed software mark.
    Mark,
    /// A command that JEDEC forbids in the state of its bank.
    Fault,
    /// Accesses and faults that did not fit the event queue.
    Overrun,
    /// A run of accesses to one page.
    Page,
    /// Time without an access.
    Skip,
    /// READs and WRITEs of a time slice.
    Slice,
    /// One word of the analysis.
    Count,
    /// Two words of the analysis.
    HotPage,
    /// A tick: closes a block that is older than a tick. No word is written for it.
    Tick,
    /// A change of settings: closes the open block. No word is written for it.
    Change,
    /// The capture starts: begins a report.
    Start,
    /// The capture stops: begins the frames of the end.
    Stop,
}

/// A complete record, for the block writer.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Record {
    /// Kind of the record.
    pub kind: RecordKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Low bits of the unit number. Kinds other than Access and Page: bits 25..0 of the value.
    pub number: Bits<26>,
    /// High bits of the unit number. Other kinds: bits 37..26 of the value.
    pub segment: Bits<12>,
    /// Clocks since the last record that has a time.
    pub delta: Bits<25>,
    /// Page: READs.
    pub reads: Bits<12>,
    /// Page: WRITEs.
    pub writes: Bits<12>,
    /// Page: clocks from the first to the last access.
    pub duration: Bits<20>,
}
