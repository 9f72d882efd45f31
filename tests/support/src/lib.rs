//! Supports the tests of several crates: frames as a card or a hostile sender sends them, captures
//! of such frames, tag logs, scratch files, waiting, and the programs under test.

pub mod call_log;
pub mod captures;
pub mod card;
pub mod clocks;
pub mod files;
pub mod forged;
pub mod names;
pub mod programs;
pub mod random;
pub mod random_frames;
pub mod tag_log;
pub mod traffic;
pub mod waiting;
