//! Items to words of frames: the statistics unit (SU).
//!
//! `traces` cuts each item the way its mode needs it and merges accesses into records; `block_writer`
//! packs records into words and words into blocks, each of which becomes a frame that decodes alone.
//! `frequency` and `totals` count what passes.

pub mod accounts;
pub mod address_views;
pub mod block_writer;
pub mod frequency;
pub mod other_words;
pub mod record_intake;
pub mod report_words;
pub mod slice_words;
pub mod timekeeper;
pub mod totals;
pub mod traces;
pub mod waiting_record;
pub mod word_port;
pub mod word_source;

use rust_hdl::prelude::*;

/// What a record is.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RecordKind {
    Nothing,
    Access,
    /// An access to the tag window.
    Tag,
    /// A completed software mark.
    Mark,
    Fault,
    Overrun,
    Page,
    /// Time that passed, nothing else.
    Skip,
    Slice,
    /// One word of the analysis.
    Count,
    /// Two words of the analysis.
    HotPage,
    Tick,
    Change,
    Start,
    Stop,
}

/// A finished record on its way to the block writer.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Low bits of the unit number. Others than Access and Page: bits 25..0 of the value.
    pub number: Bits<26>,
    /// High bits of the unit number. Others: bits 37..26 of the value.
    pub segment: Bits<12>,
    /// Clocks since the timed record before.
    pub delta: Bits<25>,
    /// Page: READs.
    pub reads: Bits<12>,
    /// Page: WRITEs.
    pub writes: Bits<12>,
    /// Page: clocks from first to last access.
    pub duration: Bits<20>,
}

/// What passes the statistics unit on one clock, whatever is recorded of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Observed {
    /// An access, seen while capturing.
    pub access: Bit,
    /// It is a WRITE.
    pub write: Bit,
    /// It lies in the tag window.
    pub tag: Bit,
    /// A completed software mark.
    pub mark: Bit,
    /// A fault.
    pub fault: Bit,
    /// What the access found in its row buffer.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
    /// Its page, bits 39..12 of the address.
    pub page: Bits<28>,
}

/// Clock of the slot as a report or a slice states it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotClock {
    /// Bits 23..0.
    pub low: Bits<24>,
    /// Bits 47..24.
    pub high: Bits<24>,
}
