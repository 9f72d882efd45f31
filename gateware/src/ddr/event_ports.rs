//! Declares the ports of the event queue, each as a bundle of signals with an end for either unit.
//! `join` connects both ends; `link` passes the end of a block on to an inner block.

// LogicInterface derives `join` without documentation. A signal is documented once, at the end that
// is named first.
#![allow(missing_docs)]

use rust_hdl::prelude::*;

use super::SlotEvent;

/// Write port, at the queue.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventWriter"]
pub struct EventWrite {
    /// Events of one clock, without `gap`, `run_change` and `overrun`, which the queue computes.
    /// `run` is always valid.
    pub slot_event: Signal<In, SlotEvent>,
    /// Register of the command that `slot_event` completes.
    pub register: Signal<In, Bits<9>>,
    /// `slot_event` has an event to be stored on this clock. The queue never refuses an event: it
    /// counts the events that it cannot store.
    pub push: Signal<In, Bit>,
    /// `slot_event` is of a clock of the slot.
    pub clocked: Signal<In, Bit>,
}

/// The end of [`EventWrite`] at the event source.
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
    /// `head` is an event. It does not change until `pop`.
    pub valid: Signal<Out, Bit>,
    /// Remove the oldest event on this clock. Only while `valid` is high.
    pub pop: Signal<In, Bit>,
}

/// The end of [`EventRead`] at the configuration unit.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "EventRead"]
pub struct EventReader {
    pub head: Signal<In, SlotEvent>,
    pub valid: Signal<In, Bit>,
    pub pop: Signal<Out, Bit>,
}
