//! Magic access sequences to settings, tags and the items the statistics unit records: the
//! configuration unit (CU).

pub mod config_unit;
pub mod sequence;
pub mod settings;

use rust_hdl::prelude::*;

/// What an item asks of the statistics unit.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ItemKind {
    Nothing,
    Access,
    WindowTag,
    Mark,
    Fault,
    Tick,
    Slice,
    Start,
    Stop,
    Change,
    Overrun,
}

/// One thing to record or do, in the order it happened.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Bits 39..32 of the address; overrun: faults missed.
    pub high: Bits<8>,
    /// Bits 31..0 of the address; mark: register; fault: code * 256 + bank; overrun: accesses missed.
    pub low: Bits<32>,
    /// Low 32 bits of the clock.
    pub clock: Bits<32>,
    /// Clock bits 47..32.
    pub clock_high: Bits<16>,
}

/// The settings software can change, and what follows from them.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Settings {
    /// [`hmtt_format::config::Mode`].
    pub mode: Bits<2>,
    /// Line records name bursts.
    pub burst: Bit,
    /// Frequency slices beside line or page records.
    pub frequency: Bit,
    /// Time slice code.
    pub slice: Bits<5>,
    /// Words after which a frame is sent.
    pub threshold: Bits<8>,
    /// The tag window is on.
    pub tag: Bit,
    /// Tag window base, bits 31..0.
    pub tag_low: Bits<32>,
    /// Tag window base, bits 39..32.
    pub tag_high: Bits<8>,
}
