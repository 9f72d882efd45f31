//! The configuration unit (CU): turns events into items for the statistics unit, and commands into settings.
//!
//! ```text
//! event_queue -> event_intake -> items -> statistics
//!                     | commands
//!                     v
//!                plan (steps) -> config_unit (carries the steps out) -> settings
//! ```

pub mod config_unit;
pub mod event_intake;
pub mod plan;
pub mod settings;
pub mod steering;

use rust_hdl::prelude::*;

/// Kind of an item.
#[allow(missing_docs)]
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ItemKind {
    Nothing,
    /// Only time passed.
    Time,
    Access,
    /// A completed software mark.
    Mark,
    Fault,
    Overrun,
}

/// An event for the statistics unit, in the order of clocks.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Item {
    /// Kind.
    pub kind: ItemKind,
    /// The access is a WRITE.
    pub write: Bit,
    /// Bits 31..0 of the address. Mark: register. Fault: code * 256 + bank. Overrun: accesses missed.
    pub low: Bits<32>,
    /// Bits 39..32 of the address. Overrun: faults missed.
    pub high: Bits<8>,
    /// Clocks since the item before.
    pub gap: Bits<16>,
    /// The item completes a command, which is carried out when the item has passed.
    pub command: Bit,
    /// State of the row buffer at the access ([`crate::ddr::Verdict`]).
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}

/// The settings that commands change.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Settings {
    /// [`hmtt_format::config::Mode`].
    pub mode: Bits<2>,
    /// Line records name bursts.
    pub burst: Bit,
    /// Frequency slices in addition to line or page records.
    pub frequency: Bit,
    /// Hot pages, reuse distances and bank use in any mode.
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
