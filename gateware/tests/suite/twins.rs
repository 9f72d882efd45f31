//! Compares each unit with a plain-Rust model, under seeded random input and stalls.

// LogicStruct and LogicBlock derive methods without docs.
#![allow(missing_docs)]

mod block_writer;
mod blocks;
mod commands;
mod config_unit;
mod config_unit_model;
mod event_queue;
mod fields;
mod fifo;
mod gmac;
mod heartbeat;
mod reports;
mod resets;
mod sequence;
mod slices;
mod state_machine;
mod state_machine_model;
mod traces;
mod traces_model;
