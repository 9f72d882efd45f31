//! The card: what snoops a DIMM slot's command pins and streams every access over Ethernet, written
//! in rust-hdl, and the command that emits it as Verilog.
//!
//! The units have the MTT paper's names and stand in the order the data takes: [`ddr`] (DCBU, DSMU),
//! [`config`] (CU), [`statistics`] (SU), [`analysis`], [`fifo`], [`ethernet`] (Tx thread, GMAC); [`card`] wires them.

// LogicStruct derives methods without docs.
#![allow(missing_docs)]
// hdl_gen knows no match guards.
#![allow(clippy::collapsible_match)]

#[macro_use]
mod block;

pub mod analysis;
pub mod bitstream;
pub mod boards;
pub mod card;
pub mod config;
pub mod ddr;
pub mod emit;
pub mod ethernet;
pub mod fifo;
pub mod reset;
pub mod simulated;
pub mod statistics;
pub mod synth;
pub mod table;
pub mod waves;

pub use config::settings::straps;
pub use fifo::size::FifoSize;
pub use simulated::{Gmii, SimulatedCard};

use hmtt_format::MemoryDescription;

/// What is fixed when the gateware is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardParameters {
    /// The memory slot.
    pub memory: MemoryDescription,
    /// Size of the packet FIFO.
    pub fifo: FifoSize,
}
