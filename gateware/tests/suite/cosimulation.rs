//! Compares each block's emitted Verilog with the block itself, on the same random inputs.

mod config;
mod ddr;
mod ethernet;
mod fifo;
mod statistics;
