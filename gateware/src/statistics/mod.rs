//! Items to words of frames: the statistics unit (SU).
//!
//! `unit` hands each access to line, page and frequency traces and puts what they finish in order;
//! `packer` turns records into words; `framer` turns words into blocks, each of which becomes a frame
//! that decodes alone.

pub mod address_views;
pub mod counters;
pub mod framer;
pub mod frequency;
pub mod line_trace;
pub mod packer;
pub mod page_trace;
pub mod report_words;
pub mod unit;
pub mod word_records;

use rust_hdl::prelude::*;

/// What a record is.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RecordKind {
    Nothing,
    Access,
    Tag,
    Fault,
    Page,
    Slice,
    Tick,
    Change,
    Start,
    Stop,
    Overrun,
}

/// A finished record on its way to the packer.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Tag: it is a mark. Slice: it is partial. Tick: let the time catch up.
    pub flag: Bit,
    /// High bits of the unit number.
    pub segment: Bits<12>,
    /// Low bits of the unit number.
    pub number: Bits<26>,
    /// Tag: offset or register. Fault: code * 256 + bank. Slice: low bits of its first clock.
    /// Overrun: accesses.
    pub value: Bits<32>,
    /// Page and Slice: READs. Overrun: faults.
    pub reads: Bits<32>,
    /// Page and Slice: WRITEs.
    pub writes: Bits<32>,
    /// Page: clocks from first to last access. Slice: its clocks.
    pub duration: Bits<32>,
    /// Slice: high bits of its first clock.
    pub start_high: Bits<16>,
    /// Clocks since the timed record before.
    pub delta: Bits<32>,
    /// Low 32 bits of its clock.
    pub clock: Bits<32>,
    /// Clock bits 47..32.
    pub clock_high: Bits<16>,
}

/// What a word asks of the framer.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum WordKind {
    Nothing,
    Data,
    Tick,
    Change,
    Start,
    Stop,
    Overrun,
}

/// A word on its way to the framer, with the state the records before it have led to.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FramedWord {
    /// What it is.
    pub kind: WordKind,
    /// It opens a record (or is a pair of halves).
    pub first: Bit,
    /// Words of the same record that follow.
    pub more: Bits<2>,
    /// Bits 63..32.
    pub high: Bits<32>,
    /// Bits 31..0.
    pub low: Bits<32>,
    /// Accesses in its record or halves.
    pub accesses: Bits<32>,
    /// Records it holds or opens; overrun: faults lost.
    pub records: Bits<8>,
    /// Segment before the word.
    pub segment: Bits<12>,
    /// Clock before the word, low 32 bits.
    pub clock: Bits<32>,
    /// Clock before the word, bits 47..32.
    pub clock_high: Bits<16>,
}
