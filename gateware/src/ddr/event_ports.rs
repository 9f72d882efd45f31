//! Declares the ports of the event queue, each as a bundle of signals with an end for either unit. `join` connects both
//! ends; `link` passes the end of a block on to an inner block.

use rust_hdl::prelude::*;

use super::SlotEvent;

/// Write port, at the queue.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventWriter"]
pub struct EventWrite {
    /// Events of one clock, without `gap`, which the queue computes.
    pub slot_event: Signal<In, SlotEvent>,
    /// Register of the command that `slot_event` completes.
    pub register: Signal<In, Bits<9>>,
    /// `slot_event` has an event to be stored.
    pub push: Signal<In, Bit>,
    /// `slot_event` is of a clock of the slot.
    pub clocked: Signal<In, Bit>,
}

/// The end of [`EventWrite`] at the event source.
#[allow(missing_docs, reason = "signals of the other end")]
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventWrite"]
pub struct EventWriter {
    pub slot_event: Signal<Out, SlotEvent>,
    pub register: Signal<Out, Bits<9>>,
    pub push: Signal<Out, Bit>,
    pub clocked: Signal<Out, Bit>,
}

/// Read port, at the queue.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventReader"]
pub struct EventRead {
    /// Oldest event.
    pub head: Signal<Out, SlotEvent>,
    /// `head` is an event.
    pub valid: Signal<Out, Bit>,
    /// Remove the oldest event.
    pub pop: Signal<In, Bit>,
}

/// The end of [`EventRead`] at the configuration unit.
#[allow(missing_docs, reason = "signals of the other end")]
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventRead"]
pub struct EventReader {
    pub head: Signal<In, SlotEvent>,
    pub valid: Signal<In, Bit>,
    pub pop: Signal<Out, Bit>,
}
