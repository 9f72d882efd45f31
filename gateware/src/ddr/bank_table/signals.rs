//! Declares the signals of the bank table: a command, and the state that it finds.

#![allow(missing_docs, reason = "LogicStruct derives public methods without documentation")]

use rust_hdl::prelude::*;

use super::Window;

/// One line for each kind of command. At most one is high; none in a clock without a command.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CommandLines {
    /// ACTIVATE.
    pub activate: Bit,
    /// READ.
    pub read: Bit,
    /// WRITE.
    pub write: Bit,
    /// PRECHARGE of one bank.
    pub precharge: Bit,
    /// PRECHARGE of all banks.
    pub precharge_all: Bit,
    /// REFRESH; self-refresh entry where CKE falls.
    pub refresh: Bit,
    /// MODE REGISTER SET.
    pub mode_register_set: Bit,
    /// ZQ CALIBRATION (DDR3 and DDR4).
    pub zq_calibration: Bit,
    /// Levels that the truth table does not define.
    pub reserved: Bit,
    /// BURST TERMINATE (DDR1).
    pub burst_terminate: Bit,
}

impl CommandLines {
    /// Returns whether a line is high.
    pub(super) fn any(self) -> bool {
        self != Self::default()
    }
}

/// The state that a command finds in the bank table.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Found {
    /// The command.
    pub op: CommandLines,
    /// Lowest rank that the command addresses.
    pub rank: Bits<2>,
    /// Bank address; pins that the memory does not have are 0.
    pub ba: Bits<4>,
    /// The command addresses several ranks.
    pub several: Bit,
    /// The bank is open.
    pub open: Bit,
    /// The bank had no READ or WRITE since its ACTIVATE.
    pub fresh: Bit,
    /// A PRECHARGE of just this bank has closed its row, and no PRECHARGE ALL or REFRESH followed.
    pub conflict: Bit,
    /// The bank is within tRCD or tRP.
    pub bank_busy: Bit,
    /// A bank of the addressed ranks is open.
    pub any_open: Bit,
    /// A bank of the addressed ranks is within tRP.
    pub any_in_rp: Bit,
    /// A distance (tRFC, tXS or tMRD) that has not passed. If several addressed ranks have one, the
    /// distance of the lowest rank.
    pub window: Window,
    /// Ranks whose REFRESH becomes overdue in this clock, with or without a command.
    pub overdue: Bits<4>,
}
