//! Tests the simulated card, machine and readers with recordings, and `hmtt-sim` as a program.

mod card_recordings;
mod cli;
mod engines;
mod machine_cache;
mod machine_controller;
mod machine_recording;
mod ranks;
mod readers;
mod record_program;
mod record_trace;
mod rules;
mod settings;
mod slow_link;
mod support;
mod vectors;
mod verilator;
