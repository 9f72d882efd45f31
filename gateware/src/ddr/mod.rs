//! The DDR command pins to located accesses and faults: DCBU, DSMU, address matrix, event queue.

pub mod address_matrix;
pub mod bank_table;
pub mod command_buffer;
pub mod event_queue;
pub mod event_source;
pub mod sequence;
pub mod state_machine;

use rust_hdl::prelude::*;

/// Edges from the one that samples the pins to the one that brings out their verdict.
pub const VERDICT_LATENCY: u64 = 7;

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
    /// What to do.
    pub code: CommandCode,
    /// Ranks that are to do it, rank 0 lowest; none when `Quiet`.
    pub ranks: Bits<4>,
    /// Those of them whose CKE falls.
    pub asleep: Bits<4>,
    /// Ranks whose CKE rises, whatever the command.
    pub woken: Bits<4>,
    /// Bank address pins.
    pub ba: Bits<4>,
    /// Address pins; DDR4 ACTIVATE: with A14-A16.
    pub a: Bits<18>,
}

/// What the state machine made of a clock; access and fault never come together.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Verdict {
    /// A READ or WRITE to an open row.
    pub access: Bit,
    /// It is a WRITE.
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
    /// What an access met. 0 row hit: not the first since the ACTIVATE. 1 row miss: the first, in a
    /// bank that auto-precharge, PRECHARGE ALL, REFRESH, self refresh or power-up had closed. 2 row
    /// conflict: the first, in a bank whose former row, maybe the same one, a PRECHARGE of just this bank
    /// had closed, and to which no PRECHARGE ALL, REFRESH or self-refresh entry has come since.
    pub row_state: Bits<2>,
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
    /// Any of `run_change`, `slice` and `tick`, or a command that is kept without its access.
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
    /// `low` accesses and `high` (without [`event_queue::COMMAND_LOST`]) faults before this event did not
    /// fit the queue; it holds neither itself, but may steer or complete a command.
    pub overrun: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// The access completes a command, whose register its address names. If the access itself did not fit
    /// the queue, `write`, `row_state` and `bank` hold the register, high bits first, and the access is in no
    /// overrun.
    pub command: Bit,
    /// [`Verdict::row_state`] of the access.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}
