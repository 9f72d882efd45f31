//! Decodes the DDR command pins into accesses with physical addresses, faults and commands of the
//! card.
//!
//! ```text
//! pins -> command_buffer (DCBU) -> bank_table, state_machine (DSMU) -> event_source -> event_queue -> config
//!                                                   address_matrix, sequence --^
//! ```

pub mod address_matrix;
pub mod bank_table;
pub mod command_buffer;
pub mod event_ports;
pub mod event_queue;
pub mod event_source;
pub mod sequence;
mod signals;
pub mod state_machine;

use rust_hdl::prelude::*;

pub use signals::{SlotCommand, SlotEvent, Verdict};

/// Clock edges from the sample of the pins to the verdict on it.
pub const VERDICT_LATENCY: u64 = 7;

/// Bits of the bank address in `rank * 16 + bank`.
pub const BANK_BITS: u64 = 4;
/// Place of the code in [`SlotEvent::low`] of a fault.
pub const FAULT_CODE_AT: u64 = 8;

/// Command pins of the slot, as the card sees them.
#[derive(Clone, Debug, Default, LogicInterface)]
pub struct DdrPins {
    /// Clock enable pins, rank 0 lowest; a pin that ranks share drives the bits of all of them.
    pub cke: Signal<In, Bits<4>>,
    /// Chip select pins, rank 0 lowest; absent pins are tied high.
    pub cs_n: Signal<In, Bits<4>>,
    /// ACTIVATE pin (DDR4; tied high elsewhere).
    pub act_n: Signal<In, Bit>,
    /// Row address strobe pin.
    pub ras_n: Signal<In, Bit>,
    /// Column address strobe pin.
    pub cas_n: Signal<In, Bit>,
    /// Write enable pin.
    pub we_n: Signal<In, Bit>,
    /// Bank address pins; absent pins are tied low.
    pub ba: Signal<In, Bits<4>>,
    /// Address pins; absent pins are tied low.
    pub a: Signal<In, Bits<18>>,
}

/// Kinds of commands that the state machine distinguishes (command truth tables of JESD79, -2, -3
/// and -4).
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CommandCode {
    /// DESELECT, NOP or power-down entry, which change no bank.
    NoCommand,
    /// ACTIVATE: opens a row of a bank.
    Activate,
    /// READ, with or without auto-precharge (A10).
    Read,
    /// WRITE, with or without auto-precharge (A10).
    Write,
    /// PRECHARGE of one bank (A10 low).
    Precharge,
    /// PRECHARGE of all banks (A10 high).
    PrechargeAll,
    /// REFRESH; self-refresh entry of the ranks whose CKE falls.
    Refresh,
    /// MODE REGISTER SET.
    ModeRegisterSet,
    /// BURST TERMINATE (DDR1).
    BurstTerminate,
    /// ZQ CALIBRATION (DDR3 and DDR4).
    ZqCalibration,
    /// Levels that the truth table does not define.
    Reserved,
}
