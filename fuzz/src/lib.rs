//! Bytes that nobody vouches for, from a coverage-guided fuzzer, to everything that reads such bytes.
//!
//! Each module of [`targets`] takes an input and panics if what is under test does, or says something
//! that a plain reading contradicts. The readers are compiled from their sources, without the programs
//! around them: that builds in a fraction of the time. [`decode`] and [`pcapng`] are links to the host's,
//! because their paths begin at the crate; [`elf`] is one to the probe's.

/// The simulator's readers, from their sources.
#[path = "../../sim/src"]
mod sim {
    #[path = "fuzz/memories.rs"]
    pub mod memories;

    pub mod input;
}

#[path = "../../host/tests/suite/card.rs"]
#[allow(missing_docs)]
pub mod card;
pub mod decode;
pub mod elf;
pub mod pcapng;
pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;

/// The host's reader of tag logs, from its sources: the part that needs no names.
#[path = "../../host/src/tags"]
pub mod tags {
    pub mod call_counts;
    mod hash;
    pub mod log_reader;
    pub mod stack;
    pub mod threads;
}

pub use sim::{input, memories};
