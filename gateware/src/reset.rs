//! Defines clock domains and their resets, which set registers to their power-on values.
//!
//! ```text
//! PLL's lock  -> boards/lock_reset -> tx_reset ----------------> transmit domain
//! clock watch -> ddr_restart -> request -> reset_crossing -----> DDR domain
//!                     |  ^-- drained: no complete block is left
//!                     +----> clears -----------------------------> the FIFO's transmit side
//! ```
//!
//! A [`Domain`] is a clock with its reset. A block gets both by one port, so no block can be left
//! out of a reset. A reset begins without a clock edge and ends at one ([`register`]).

pub mod ddr_restart;
pub mod domain;
pub mod register;
pub mod reset_crossing;

pub use domain::{Domain, Edges};
pub use register::{ClearedRegister, KeptRegister, Register};
