//! The statistics unit (SU): turns items into records, and records into words of frames.
//!
//! ```text
//! config -> traces, waiting_record -> record_intake, block_writer -> word_port, word_source -> fifo
//!                  frequency, totals (counts) -> slice_words, report_words, other_words --^
//! ```
//!
//! `traces` merges accesses into records as the mode in force requires. `block_writer` packs records into words and
//! words into blocks. Each block becomes a frame that can be decoded without the frames before it.

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
pub mod word_request;
pub mod word_source;

use rust_hdl::prelude::*;

/// The item that passes the statistics unit in one clock, whether it is recorded or not.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Observed {
    /// An access during a capture.
    pub access: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// The access is in the tag window.
    pub tag: Bit,
    /// A completed software mark.
    pub mark: Bit,
    /// A fault.
    pub fault: Bit,
    /// State of the row buffer at the access.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
    /// Page of the access, bits 39..12 of the address.
    pub page: Bits<28>,
}

/// What a slice record states of a time slice.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SliceCounts {
    /// The slice is shorter than the slice length; two clocks late.
    pub partial: Bit,
    /// First clock of the slice.
    pub first: SlotClock,
    /// READs of the slice.
    pub reads: Bits<32>,
    /// WRITEs of the slice.
    pub writes: Bits<32>,
    /// Clocks from the begin of the slice to the last item.
    pub length: Bits<32>,
}

impl SlotClock {
    /// Bits of `low`.
    pub const LOW_BITS: u32 = 24;
}

/// Clock of the slot, as reports and slices state it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotClock {
    /// Bits 23..0.
    pub low: Bits<24>,
    /// Bits 47..24.
    pub high: Bits<24>,
}
