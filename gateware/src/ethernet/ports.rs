//! Declares the ports between the units that send frames, each as a bundle of signals with an end
//! for either unit; `join` connects both ends.

// LogicInterface derives `join` without documentation. A signal is documented once, at the end that
// is named first.
#![allow(missing_docs)]

use rust_hdl::prelude::*;

/// Octets of frames, at the GMAC, which takes them.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "OctetSource"]
pub struct OctetSink {
    /// A frame is offered, and `data` is its next octet. Stays high up to `last`.
    pub valid: Signal<In, Bit>,
    /// Next octet, destination address first.
    pub data: Signal<In, Bits<8>>,
    /// The octet is the last one before the FCS. The frame ends when it is taken.
    pub last: Signal<In, Bit>,
    /// The octet is taken on this clock. After the first one, an octet is taken in each clock.
    pub ready: Signal<Out, Bit>,
}

/// The end of [`OctetSink`] at the Tx thread, which offers them.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "OctetSink"]
pub struct OctetSource {
    pub valid: Signal<Out, Bit>,
    pub data: Signal<Out, Bits<8>>,
    pub last: Signal<Out, Bit>,
    pub ready: Signal<In, Bit>,
}

/// Heartbeats, at the unit that makes them.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "BeatSink"]
pub struct BeatSource {
    /// A heartbeat is due; it is sent before blocks.
    pub due: Signal<Out, Bit>,
    /// The payload header, then the halves of the words.
    pub group: Signal<Out, Bits<32>>,
    /// The Tx thread begins to send the heartbeat.
    pub taken: Signal<In, Bit>,
    /// The group was used, and the next one is needed.
    pub step: Signal<In, Bit>,
    /// A frame was sent, a heartbeat or another one.
    pub sent: Signal<In, Bit>,
}

/// The end of [`BeatSource`] at the Tx thread, which sends them.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "BeatSource"]
pub struct BeatSink {
    pub due: Signal<In, Bit>,
    pub group: Signal<In, Bits<32>>,
    pub taken: Signal<Out, Bit>,
    pub step: Signal<Out, Bit>,
    pub sent: Signal<Out, Bit>,
}
