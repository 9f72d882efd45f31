//! Compares the analysis with exact counts, and its Verilog with the model.

// LogicStruct and LogicBlock derive methods without docs.
#![allow(missing_docs)]

mod bench;
mod bounds;
mod cosimulation;
mod exact;
