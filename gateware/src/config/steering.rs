//! What the configuration unit and the units behind it tell each other.

use rust_hdl::prelude::*;

use crate::statistics::RecordKind;

/// What the statistics unit and the framer say of themselves.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Progress {
    /// No item is on its way to the traces.
    pub drained: Bit,
    /// A record waits in a trace.
    pub waiting: Bit,
    /// It can take no more accesses.
    pub stale: Bit,
    /// A long time has passed since the last record, and none waits.
    pub silent: Bit,
    /// The slice holds an access.
    pub counted: Bit,
    /// The framer can take a record on this clock.
    pub free: Bit,
    /// The framer has no record and no open block.
    pub idle: Bit,
    /// No dump of the analysis is under way or asked for.
    pub dumped: Bit,
    /// An interval of the analysis has ended, and no dump is under way.
    pub interval: Bit,
}

/// What the configuration unit asks of the statistics unit, for one clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Steering {
    /// Hand on the waiting record.
    pub flush: Bit,
    /// Hand on a record of this kind.
    pub tell: RecordKind,
    /// Begin a slice now.
    pub restart_slice: Bit,
    /// Time is told anew: nothing has passed since the last record.
    pub restart_time: Bit,
    /// Dump the analysis: the part whose turn it is.
    pub dump: Bit,
    /// With `dump`: everything.
    pub dump_all: Bit,
}
