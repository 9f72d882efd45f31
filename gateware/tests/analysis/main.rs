//! Compares the analysis with exact counts, and its Verilog with the model.

// LogicStruct and LogicBlock derive methods without docs.
#![allow(missing_docs)]

#[path = "../bench/direct.rs"]
mod direct;
#[path = "../bench/memories.rs"]
#[allow(dead_code, reason = "shared with the twins")]
mod memories;
#[path = "../cosimulation/recording.rs"]
#[allow(dead_code, reason = "shared with the co-simulation")]
mod recording;
#[path = "../bench/tools.rs"]
#[allow(dead_code, reason = "shared with the lint")]
mod tools;

mod bench;
mod bounds;
mod cosimulation;
mod exact;
