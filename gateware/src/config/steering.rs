//! Signals between the configuration unit and the units behind it.

use rust_hdl::prelude::*;

use crate::record::RecordKind;

/// State of the statistics unit, the analysis and the block writer.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Progress {
    /// No item is on its way to the traces.
    pub drained: Bit,
    /// A record waits.
    pub waiting: Bit,
    /// No access can be added to the waiting record.
    pub stale: Bit,
    /// A long time has passed since the last record, and none waits.
    pub silent: Bit,
    /// The slice has an access.
    pub counted: Bit,
    /// The block writer can take a record on this clock.
    pub free: Bit,
    /// The block writer has no record and no open block.
    pub idle: Bit,
    /// No dump of the analysis is in progress or requested.
    pub dumped: Bit,
    /// An interval of the analysis has ended, and no dump is in progress.
    pub interval: Bit,
}

/// Requests of the configuration unit, each for one clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Steering {
    /// Pass the waiting record on.
    pub flush: Bit,
    /// Pass a record of this kind on.
    pub tell: RecordKind,
    /// Begin a slice now.
    pub restart_slice: Bit,
    /// Restart the time since the last record.
    pub restart_time: Bit,
    /// Begin a dump of the next part of the analysis.
    pub dump: Bit,
    /// With `dump`: of all tables.
    pub dump_all: Bit,
}
