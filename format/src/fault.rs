//! Defines protocol faults: commands that JEDEC forbids. They are counted and reported, and never
//! become accesses.

use core::fmt;

/// The rule that a command violates, or another fault. The discriminant is the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FaultKind {
    /// READ to a bank with no open row.
    ReadIdle = 1,
    /// WRITE to a bank with no open row.
    WriteIdle = 2,
    /// ACTIVATE to a bank whose row is still open.
    ActivateOpen = 3,
    /// REFRESH or self-refresh entry while a bank is open.
    RefreshOpen = 4,
    /// A command other than NOP or DESELECT inside tRFC.
    CommandInRfc = 5,
    /// MODE REGISTER SET while a bank is open.
    ModeRegisterOpen = 6,
    /// A command encoding that the generation reserves.
    Reserved = 7,
    /// ZQ CALIBRATION while a bank is open.
    ZqOpen = 8,
    /// A command other than NOP or DESELECT inside tXS (tXSNR) after self refresh.
    CommandInXs = 9,
    /// A command other than NOP or DESELECT inside tMRD.
    CommandInMrd = 10,
    /// ACTIVATE to a bank, or REFRESH, self-refresh entry, MODE REGISTER SET or ZQ CALIBRATION to a
    /// rank, inside tRP.
    CommandInRp = 11,
    /// READ or WRITE to an open bank inside tRCD. The access is reported as well.
    ColumnInRcd = 12,
    /// No REFRESH for longer than nine tREFI.
    RefreshOverdue = 13,
    /// ACTIVATE, READ or WRITE to several ranks at once.
    MultiRank = 14,
    /// The DDR clock stopped and started again.
    ClockLost = 20,
    /// The card lost a completed command, because its event queue was full.
    CommandLost = 21,
}

impl FaultKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [FaultKind; 16] = [
        FaultKind::ReadIdle,
        FaultKind::WriteIdle,
        FaultKind::ActivateOpen,
        FaultKind::RefreshOpen,
        FaultKind::CommandInRfc,
        FaultKind::ModeRegisterOpen,
        FaultKind::Reserved,
        FaultKind::ZqOpen,
        FaultKind::CommandInXs,
        FaultKind::CommandInMrd,
        FaultKind::CommandInRp,
        FaultKind::ColumnInRcd,
        FaultKind::RefreshOverdue,
        FaultKind::MultiRank,
        FaultKind::ClockLost,
        FaultKind::CommandLost,
    ];

    /// The code on the wire, 1 to 63.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name of the kind in flags files and in decoded traces.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::ReadIdle => "read_idle",
            FaultKind::WriteIdle => "write_idle",
            FaultKind::ActivateOpen => "act_open",
            FaultKind::RefreshOpen => "ref_open",
            FaultKind::CommandInRfc => "cmd_in_rfc",
            FaultKind::ModeRegisterOpen => "mrs_open",
            FaultKind::Reserved => "reserved",
            FaultKind::ZqOpen => "zq_open",
            FaultKind::CommandInXs => "cmd_in_xs",
            FaultKind::CommandInMrd => "cmd_in_mrd",
            FaultKind::CommandInRp => "cmd_in_rp",
            FaultKind::ColumnInRcd => "rw_in_rcd",
            FaultKind::RefreshOverdue => "refresh_overdue",
            FaultKind::MultiRank => "multi_rank",
            FaultKind::ClockLost => "clock_lost",
            FaultKind::CommandLost => "command_lost",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
