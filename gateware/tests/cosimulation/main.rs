//! Compares each block's emitted Verilog with the block itself, on the same random inputs.

#[path = "../bench/direct.rs"]
#[allow(dead_code, reason = "shared with the twins")]
mod direct;
#[path = "../bench/memories.rs"]
mod memories;
#[path = "../bench/tools.rs"]
#[allow(dead_code, reason = "shared with the lint")]
mod tools;

mod config;
mod ddr;
mod ethernet;
mod fifo;
mod recording;
mod statistics;
