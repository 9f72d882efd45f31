//! The configuration unit (CU): turns events into items for the statistics unit, and commands into
//! settings.
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
mod signals;

use rust_hdl::prelude::*;

pub use signals::{Item, Progress, Requests, Settings, Steps};

/// Kind of an item.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ItemKind {
    /// No item on this clock.
    Nothing,
    /// Only time passed.
    Time,
    /// A READ or WRITE to an open row.
    Access,
    /// A completed software mark.
    Mark,
    /// A command that JEDEC forbids in the state of its bank, or the loss of a completed command.
    Fault,
    /// Accesses and faults that did not fit the event queue.
    Overrun,
}
