//! The statistics unit (SU): turns items into records, and records into words of frames.
//!
//! ```text
//! config -> traces, waiting_record -> record_intake, block_writer -> word_port, word_source -> fifo
//!                  frequency, totals (counts) -> slice_words, report_words, other_words --^
//! ```
//!
//! `traces` merges accesses into records as the mode in force requires. `block_writer` packs
//! records into words and words into blocks. Each block becomes a frame that can be decoded without
//! the frames before it.

pub mod accounts;
pub mod address_views;
pub mod block_writer;
pub mod frequency;
pub mod other_words;
pub mod record_intake;
pub mod report_words;
mod signals;
pub mod slice_words;
pub mod timekeeper;
pub mod totals;
pub mod traces;
pub mod waiting_record;
pub mod word_port;
pub mod word_request;
pub mod word_source;

pub use signals::{
    ComparedItem, Heading, Needs, NextItem, Observed, SliceCounts, SlotClock, Totals,
};
