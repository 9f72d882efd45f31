//! The DDR command pins to located accesses and faults: DCBU, DSMU, address matrix, event queue.

pub mod address_matrix;
pub mod command_buffer;
pub mod event_queue;
pub mod event_source;
pub mod state_machine;

use rust_hdl::prelude::*;

/// What the state machine must know of a command; DESELECT, NOP and power-down entry are `Quiet`.
#[allow(missing_docs)] // the names are JEDEC's
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CommandCode {
    Quiet,
    Activate,
    Read,
    Write,
    Precharge,
    PrechargeAll,
    Refresh,
    SelfRefreshEntry,
    ModeRegisterSet,
    BurstTerminate,
    ZqCalibration,
    Reserved,
}

/// A decoded command, one clock long.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotCommand {
    /// What to do.
    pub code: CommandCode,
    /// Bank address pins.
    pub ba: Bits<4>,
    /// Address pins; DDR4 ACTIVATE: with A14-A16.
    pub a: Bits<18>,
}

/// What the state machine made of a command; the row follows from the row table on the same clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Verdict {
    /// A READ or WRITE to an open row.
    pub access: Bit,
    /// It is a WRITE.
    pub write: Bit,
    /// Code of the fault, 0 for none.
    pub fault: Bits<6>,
    /// Bank address pins.
    pub ba: Bits<4>,
    /// Address pins.
    pub a: Bits<18>,
}

/// Everything that happened on one clock; several flags may be set at once.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotEvent {
    /// Bits 31..0 of the address, or what the flag says.
    pub low: Bits<32>,
    /// Bits 39..32 of the address.
    pub high: Bits<8>,
    /// Clocks since the event before; the first: since clock 0.
    pub gap: Bits<16>,
    /// Any of `run_change`, `slice` and `tick`.
    pub steers: Bit,
    /// The run switch changed to `run`.
    pub run_change: Bit,
    /// Level of the run switch.
    pub run: Bit,
    /// A time slice ended before this clock.
    pub slice: Bit,
    /// A tick: records that wait are let go.
    pub tick: Bit,
    /// An access.
    pub access: Bit,
    /// A fault: `low` holds code * 256 + bank.
    pub fault: Bit,
    /// `low` accesses and `high` faults before this event did not fit the queue.
    pub overrun: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// The access lies in the window of the configuration registers.
    pub in_registers: Bit,
    /// [`Verdict::row_state`] of the access.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}
