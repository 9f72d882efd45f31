//! Clock domains and their resets: what brings registers back to their power-on state, and when.
//!
//! ```text
//! PLL's lock  -> boards/lock_reset -> tx_reset ----------------> transmit domain
//! clock watch -> ddr_restart -> request -> reset_crossing -----> DDR domain
//!                     |  ^-- drained: nothing committed is left
//!                     +----> clears -----------------------------> the FIFO's transmit side
//! ```
//!
//! A [`Domain`] is a clock and the reset that goes with it, so every block has both by one port and no block
//! can be left out. A reset begins without an edge and ends at one ([`register`]).

pub mod ddr_restart;
pub mod domain;
pub mod register;
pub mod reset_crossing;

pub use domain::{Domain, Edges};
pub use register::{ClearedRegister, KeptRegister, Register};
