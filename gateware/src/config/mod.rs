//! Events to the items the statistics unit records, and commands to settings: the configuration unit
//! (CU).

pub mod config_unit;
pub mod event_intake;
pub mod plan;
pub mod settings;
pub mod steering;

use rust_hdl::prelude::*;

/// What an item is.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ItemKind {
    Nothing,
    /// Time passed.
    Time,
    Access,
    /// A completed software mark.
    Mark,
    Fault,
    Overrun,
}

/// One thing to record, in the order it happened.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Bits 31..0 of the address; mark: register; fault: code * 256 + bank; overrun: accesses missed.
    pub low: Bits<32>,
    /// Bits 39..32 of the address; overrun: faults missed.
    pub high: Bits<8>,
    /// Clocks since the item before.
    pub gap: Bits<16>,
    /// A command is completed: to be carried out once the item has passed.
    pub command: Bit,
    /// What the access found in its row buffer ([`crate::ddr::Verdict`]).
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
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
    /// Hot pages, reuse distances and bank use beside anything else.
    pub analysis: Bit,
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
