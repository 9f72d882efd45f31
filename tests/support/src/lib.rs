//! What tests of several crates share, so that each is written once: frames as a card and as a hostile sender send
//! them, captures of those, logs of tags, scratch files, and the programs.

pub mod captures;
pub mod card;
pub mod clocks;
pub mod files;
pub mod forged;
pub mod programs;
pub mod tag_log;
