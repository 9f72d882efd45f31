//! Declares the values that pass from block to block: commands, verdicts, events. Each struct is
//! one signal.

#![allow(missing_docs, reason = "LogicStruct derives public methods without documentation")]

use rust_hdl::prelude::*;

use super::CommandCode;

/// A decoded command, one clock long.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotCommand {
    /// Kind of the command.
    pub code: CommandCode,
    /// Ranks that the command addresses, rank 0 lowest; none when `NoCommand`.
    pub ranks: Bits<4>,
    /// Addressed ranks whose CKE falls.
    pub cke_falls: Bits<4>,
    /// Ranks whose CKE rises, whatever the command.
    pub cke_rises: Bits<4>,
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
    /// Address pins; where the mode register sets the burst length, low column pins point to the
    /// start of the burst.
    pub a: Bits<18>,
    /// State of the row buffer at the access. 0, row hit: not the first access since the ACTIVATE.
    /// 1, row miss: the first access, and auto-precharge, PRECHARGE ALL, REFRESH, self refresh or
    /// power-up had closed the bank. 2, row conflict: the first access, and a PRECHARGE of just
    /// this bank had closed its row (maybe the same row), without a later PRECHARGE ALL, REFRESH or
    /// self-refresh entry.
    pub row_state: Bits<2>,
}

/// All events of one clock; several flags may be set.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SlotEvent {
    /// Bits 31..0 of the address. For a fault and an overrun see `fault` and `overrun`.
    pub low: Bits<32>,
    /// Bits 39..32 of the address.
    pub high: Bits<8>,
    /// Clocks since the event before. For the first event: clocks since clock 0.
    pub gap: Bits<16>,
    /// The event is a control event: `run_change`, `slice`, `tick`, or a command that is stored
    /// without its access.
    pub is_control: Bit,
    /// The run switch changed to `run`.
    pub run_change: Bit,
    /// Level of the run switch.
    pub run: Bit,
    /// A time slice ended before this clock.
    pub slice: Bit,
    /// A tick: records that wait are passed on. Also a lap of [`super::event_queue`].
    pub tick: Bit,
    /// An access.
    pub access: Bit,
    /// A fault: `low` holds code * 256 + bank.
    pub fault: Bit,
    /// Before this event `low` accesses and `high` faults (without
    /// [`super::event_queue::COMMAND_LOST`]) did not fit the queue. Changes of the run switch that
    /// were left out count as faults. The event itself is no access and no fault, but it may be a
    /// control event or complete a command.
    pub overrun: Bit,
    /// The access is a WRITE.
    pub write: Bit,
    /// The access completes a command; its address names the register. If the access itself did not
    /// fit the queue, `write`, `row_state` and `bank` hold the register, high bits first, and no
    /// overrun counts the access.
    pub command: Bit,
    /// [`Verdict::row_state`] of the access.
    pub row_state: Bits<2>,
    /// Rank * 16 + bank of the access.
    pub bank: Bits<6>,
}
