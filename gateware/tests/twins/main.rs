//! Each unit against a plain-Rust twin, under seeded random input and stalls.

// LogicStruct and LogicBlock derive methods without docs.
#![allow(missing_docs)]

#[path = "../bench/direct.rs"]
mod direct;
#[path = "../bench/memories.rs"]
#[allow(dead_code, reason = "shared with the co-simulation")]
mod memories;

mod commands;
mod config_unit;
mod counters;
mod decoding;
mod event_queue;
mod fields;
mod fifo;
mod framer;
mod gmac;
mod heartbeat;
mod reports;
mod sequence;
mod state_machine;
mod statistics;
mod statistics_model;
