//! Decodes the DDR command pins into accesses with physical addresses, faults and commands of the card.
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
pub mod state_machine;

use rust_hdl::prelude::*;

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

/// Kinds of commands that the state machine distinguishes. DESELECT, NOP and power-down entry are `Quiet`.
#[allow(missing_docs)] // the names are JEDEC's
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CommandCode {
    Quiet,
    Activate,
    Read,
    Write,
    Precharge,
    PrechargeAll,
    /// For ranks whose CKE falls: self-refresh entry.
    Refresh,
    ModeRegisterSet,
    BurstTerminate,
    ZqCalibration,
    Reserved,
}

/// A decoded command, one clock long.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotCommand {
    /// Kind of the command.
    pub code: CommandCode,
    /// Ranks that the command addresses, rank 0 lowest; none when `Quiet`.
    pub ranks: Bits<4>,
    /// Addressed ranks whose CKE falls.
    pub asleep: Bits<4>,
    /// Ranks whose CKE rises, whatever the command.
    pub woken: Bits<4>,
    /// Bank address pins.
    pub ba: Bits<4>,
    /// Address pins; DDR4 ACTIVATE: with A14-A16.
    pub a: Bits<18>,
}

/// Verdict of the state machine on one clock. It is never both an access and a fault.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Verdict {
    /// A READ or WRITE to an open row.
    pub access: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// Code of the fault, 0 for none.
    pub fault: Bits<6>,
    /// Rank, the lowest of several.
    pub rank: Bits<2>,
    /// Bank address; pins the memory lacks are 0.
    pub ba: Bits<4>,
    /// Address pins; where the mode register sets the burst length, low column pins point to the start
    /// of the burst.
    pub a: Bits<18>,
    /// State of the row buffer at the access. 0, row hit: not the first access since the ACTIVATE. 1, row miss: the
    /// first access, and auto-precharge, PRECHARGE ALL, REFRESH, self refresh or power-up had closed the bank. 2, row
    /// conflict: the first access, and a PRECHARGE of just this bank had closed its row (maybe the same row), without
    /// a later PRECHARGE ALL, REFRESH or self-refresh entry.
    pub row_state: Bits<2>,
}

/// All events of one clock; several flags may be set.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotEvent {
    /// Bits 31..0 of the address; for a fault and an overrun, see there.
    pub low: Bits<32>,
    /// Bits 39..32 of the address.
    pub high: Bits<8>,
    /// Clocks since the event before; for the first event since clock 0.
    pub gap: Bits<16>,
    /// The event steers the card: `run_change`, `slice`, `tick`, or a command that is stored without its access.
    pub steers: Bit,
    /// The run switch changed to `run`.
    pub run_change: Bit,
    /// Level of the run switch.
    pub run: Bit,
    /// A time slice ended before this clock.
    pub slice: Bit,
    /// A tick: records that wait are passed on.
    pub tick: Bit,
    /// An access.
    pub access: Bit,
    /// A fault: `low` holds code * 256 + bank.
    pub fault: Bit,
    /// Before this event `low` accesses and `high` faults (without [`event_queue::COMMAND_LOST`]) did not fit the
    /// queue. The event itself is no access and no fault, but it may steer the card or complete a command.
    pub overrun: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// The access completes a command; its address names the register. If the access itself did not fit the queue,
    /// `write`, `row_state` and `bank` hold the register, high bits first, and no overrun counts the access.
    pub command: Bit,
    /// [`Verdict::row_state`] of the access.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}
