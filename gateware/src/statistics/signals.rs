//! Declares the values that pass between the blocks of the statistics unit, and to the analysis.
//! Each struct is one signal.

#![allow(missing_docs, reason = "LogicStruct derives public methods without documentation")]

use rust_hdl::prelude::*;

use super::word_source::Source;
use crate::record::RecordKind;

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

/// The values that a slice record states.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SliceCounts {
    /// The length of the slice differs from the length that its code selects; two clocks late.
    pub partial: Bit,
    /// First clock of the slice.
    pub first: SlotClock,
    /// READs of the slice.
    pub reads: Bits<32>,
    /// WRITEs of the slice.
    pub writes: Bits<32>,
    /// Clocks from the start of the slice to the last item.
    pub length: Bits<32>,
}

/// Clock of the slot, as reports and slices state it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotClock {
    /// Bits 23..0 of the clock.
    pub low: Bits<24>,
    /// Bits 47..24 of the clock.
    pub high: Bits<24>,
}

impl SlotClock {
    /// Number of bits of `low`.
    pub const LOW_BITS: u32 = 24;
}

/// Totals of all captures since power-on.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Totals {
    /// Number of READs, bits 31..0.
    pub reads: Bits<32>,
    /// Number of READs, bits 63..32.
    pub reads_high: Bits<32>,
    /// Number of WRITEs, bits 31..0.
    pub writes: Bits<32>,
    /// Number of WRITEs, bits 63..32.
    pub writes_high: Bits<32>,
    /// Number of faults.
    pub faults: Bits<32>,
    /// Number of tags and marks.
    pub tags: Bits<32>,
    /// Number of faults that could not be reported; stops at 255.
    pub unreported: Bits<8>,
    /// log2 of the burst length in force; 0: on the fly.
    pub burst: Bits<2>,
}

/// The next item, as far as the waiting record needs it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct NextItem {
    /// The access is a WRITE.
    pub write: Bit,
    /// Burst within its line, as one bit.
    pub part: Bits<8>,
    /// More clocks than any merge window passed since the item before.
    pub gap_overflows: Bit,
    /// The clocks since the item before are within the merge window.
    pub in_merge_window: Bit,
    /// Clocks since the item before, bits 7..0.
    pub gap_low: Bits<8>,
}

/// An item after the comparison with the access before it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ComparedItem {
    /// Kind of the record that the item becomes.
    pub kind: RecordKind,
    /// The item becomes a record; it is not only time.
    pub is_item: Bit,
    /// The item is an access that is traced.
    pub mergeable: Bit,
    /// The item is an access to the same unit as the access before.
    pub same: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// Number of the record ([`crate::record::Record::number`]).
    pub number: Bits<26>,
    /// Segment of the record ([`crate::record::Record::segment`]).
    pub segment: Bits<12>,
    /// Burst within its line, as one bit.
    pub part: Bits<8>,
    /// Clocks since the item before.
    pub gap: Bits<16>,
}

/// The words and halves that the block writer has to write for a record.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Needs {
    /// There is a record.
    pub known: Bit,
    /// A half with its time must be written first.
    pub skip: Bit,
    /// A half with its segment must be written first.
    pub segment: Bit,
    /// The record takes whole words, and no half first.
    pub word: Bit,
    /// The record takes one word and nothing else.
    pub single: Bit,
    /// Source of the first word, or `Half`.
    pub source: Source,
    /// The record takes more than one word.
    pub more: Bit,
    /// The record belongs into a data frame.
    pub data: Bit,
    /// The record is a tick.
    pub tick: Bit,
    /// The delta of the record counts as time.
    pub timed: Bit,
}

/// The values that a sync and a descriptor state about their block.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Heading {
    /// [`hmtt_format::frame::FrameKind`].
    pub kind: Bits<4>,
    /// log2 of the unit's bytes.
    pub unit: Bits<4>,
    /// Segment before the first record.
    pub segment: Bits<12>,
    /// Bits 23..0 of the clock before the first record.
    pub clock_low: Bits<24>,
    /// Bits 47..24 of that clock.
    pub clock_high: Bits<24>,
    /// Records that were lost before.
    pub lost: Bits<24>,
    /// Accesses before, bits 19..0.
    pub accesses_low: Bits<20>,
    /// Accesses before, bits 39..20.
    pub accesses_high: Bits<20>,
}
