//! Declares the values that pass between the configuration unit, its blocks and the units behind
//! it. Each struct is one signal.

#![allow(missing_docs, reason = "LogicStruct derives public methods without documentation")]

use rust_hdl::prelude::*;

use super::ItemKind;
use crate::record::RecordKind;

/// An event for the statistics unit, in the order of clocks.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Item {
    /// Kind of the item.
    pub kind: ItemKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Bits 31..0 of the address. Mark: register. Fault: code * 256 + bank. Overrun: accesses
    /// missed.
    pub low: Bits<32>,
    /// Bits 39..32 of the address. Overrun: faults missed.
    pub high: Bits<8>,
    /// Clocks since the item before.
    pub gap: Bits<16>,
    /// The item completes a command, which is carried out after the item has passed.
    pub command: Bit,
    /// State of the row buffer at the access ([`crate::ddr::Verdict`]).
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}

/// The settings that commands change.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Settings {
    /// Mode in force, a [`hmtt_format::config::Mode`].
    pub mode: Bits<2>,
    /// Unit of line records: a burst if high, else a line.
    pub burst: Bit,
    /// Time slices are recorded in addition to line or page records.
    pub frequency: Bit,
    /// The analysis is on, whatever the mode.
    pub analysis: Bit,
    /// Code of the length of time slices, see [`hmtt_format::config::slice_clocks`].
    pub slice: Bits<5>,
    /// Words of 64 bits after which a data frame is sent.
    pub threshold: Bits<8>,
    /// The tag window is on.
    pub tag: Bit,
    /// Tag window base, bits 31..0.
    pub tag_low: Bits<32>,
    /// Tag window base, bits 39..32.
    pub tag_high: Bits<8>,
}

/// State of the statistics unit, the analysis and the block writer.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Progress {
    /// No item is on its way to the traces.
    pub drained: Bit,
    /// A record waits.
    pub waiting: Bit,
    /// No access can be added to the waiting record.
    pub stale: Bit,
    /// A long time has passed since the last record, and none waits.
    pub silent: Bit,
    /// The slice has an access.
    pub counted: Bit,
    /// The block writer can take a record on this clock.
    pub free: Bit,
    /// The block writer has no record and no open block.
    pub idle: Bit,
    /// No dump of the analysis is in progress or requested.
    pub dumped: Bit,
    /// An interval of the analysis has ended, and no dump is in progress.
    pub interval: Bit,
}

/// Requests of the configuration unit, each for one clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Requests {
    /// Pass the waiting record on.
    pub flush: Bit,
    /// Pass a record of this kind on.
    pub record_kind: RecordKind,
    /// Begin a slice now.
    pub restart_slice: Bit,
    /// Restart the time since the last record.
    pub restart_time: Bit,
    /// Begin a dump of the next part of the analysis.
    pub dump: Bit,
    /// With `dump`: the dump has all tables.
    pub dump_all: Bit,
}

/// Steps of a request.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Steps {
    /// Pass the waiting record on.
    pub flush: Bit,
    /// Pass the waiting record on if no access can be added to it.
    pub flush_stale: Bit,
    /// Record a long silence.
    pub record_silence: Bit,
    /// End the slice.
    pub end_slice: Bit,
    /// Request a dump of the analysis.
    pub dump: Bit,
    /// Pass a record of this kind to the block writer.
    pub record_kind: RecordKind,
    /// Wait until all records are framed.
    pub await_idle: Bit,
    /// Carry out the command.
    pub apply: Bit,
    /// Start the capture.
    pub resume: Bit,
}
