//! Declares the ports of the packet FIFO, each as a bundle of signals with two ends: one at the
//! FIFO, one at the unit that uses it. `join` connects both ends; `link` passes the end of a block
//! on to an inner block.

// LogicInterface derives `join` without documentation. A signal is documented once, at the end that
// is named first.
#![allow(missing_docs)]

use rust_hdl::prelude::*;

/// Write port, at the FIFO. `N`: log2 of the FIFO's words.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "FifoWriter"]
pub struct FifoWrite<const N: usize> {
    /// Write bits 63..32 on this clock.
    pub high_enable: Signal<In, Bit>,
    /// Write bits 31..0 on this clock.
    pub low_enable: Signal<In, Bit>,
    /// Address of the word to write.
    pub address: Signal<In, Bits<N>>,
    /// Bits 63..32 of the word.
    pub high: Signal<In, Bits<32>>,
    /// Bits 31..0 of the word.
    pub low: Signal<In, Bits<32>>,
    /// Address after the last word of the last complete block. Moves only after the block is
    /// stored.
    pub committed: Signal<In, Bits<N>>,
}

/// The end of [`FifoWrite`] at the unit that writes.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "FifoWrite"]
pub struct FifoWriter<const N: usize> {
    pub high_enable: Signal<Out, Bit>,
    pub low_enable: Signal<Out, Bit>,
    pub address: Signal<Out, Bits<N>>,
    pub high: Signal<Out, Bits<32>>,
    pub low: Signal<Out, Bits<32>>,
    pub committed: Signal<Out, Bits<N>>,
}

/// Read port, at the FIFO. `N`: log2 of the FIFO's words.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "FifoReader"]
pub struct FifoRead<const N: usize> {
    /// Address of the word to read.
    pub address: Signal<In, Bits<N>>,
    /// Bits 63..32 of the word that was addressed on the clock before.
    pub high: Signal<Out, Bits<32>>,
    /// Bits 31..0 of that word.
    pub low: Signal<Out, Bits<32>>,
    /// Address of the oldest word that is still needed.
    pub freed: Signal<In, Bits<N>>,
}

/// The end of [`FifoRead`] at the unit that reads.
#[derive(Clone, Debug, Default, LogicInterface)]
#[join = "FifoRead"]
pub struct FifoReader<const N: usize> {
    pub address: Signal<Out, Bits<N>>,
    pub high: Signal<In, Bits<32>>,
    pub low: Signal<In, Bits<32>>,
    pub freed: Signal<Out, Bits<N>>,
}
