//! Emitted Verilog under proof.

mod event_queue;
mod fifo;
mod gmac;
mod heartbeat;
mod prover;
mod state_machine;
mod thread;
mod transmit;
