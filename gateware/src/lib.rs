//! Implements the card in rust-hdl: it snoops the command pins of a DIMM slot and sends each access
//! over Ethernet.
//!
//! The units have the names of the MTT paper and are in the order of the data: [`ddr`] (DCBU,
//! DSMU), [`config`] (CU), [`statistics`] (SU), [`analysis`], [`fifo`], [`ethernet`] (Tx thread,
//! GMAC). [`card`] connects them; [`emit`] writes Verilog; [`synth`] and [`bitstream`] run the
//! tools.

// hdl_gen does not support match guards.
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
pub mod record;
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

/// Parameters that are fixed when the gateware is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardParameters {
    /// The memory slot.
    pub memory: MemoryDescription,
    /// Size of the packet FIFO.
    pub fifo: FifoSize,
}
