//! Inputs to panics where there should be none: one module for each reader.

pub mod elf;
pub mod frame;
pub mod pcapng;
pub mod record;
pub mod tag_log;
pub mod trace;
pub mod vector;
