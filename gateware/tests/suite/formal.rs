//! Emitted Verilog under proof.

mod fifo;
mod gmac;
mod heartbeat;
mod prover;
mod state_machine;
mod thread;
mod transmit;
