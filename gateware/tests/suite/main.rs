//! Tests the card block by block: against models, against its own emitted Verilog and by proofs;
//! and its builds for boards with the real tools.

mod alchitry_cu;
mod analysis;
mod bitstream;
mod board_bench;
mod cosimulation;
mod direct;
mod formal;
mod lint;
mod memories;
mod recording;
mod synth_command;
mod tools;
mod twins;
mod verdicts;
