//! Emitted Verilog under proof.

#[path = "../bench/direct.rs"]
#[allow(dead_code, reason = "shared with the twins")]
mod direct;
#[path = "../bench/memories.rs"]
#[allow(dead_code, reason = "shared with the co-simulation")]
mod memories;
#[path = "../bench/tools.rs"]
mod tools;

mod fifo;
mod gmac;
mod heartbeat;
mod prover;
mod state_machine;
mod thread;
mod transmit;
