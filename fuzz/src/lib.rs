//! Bytes that nobody vouches for, from a coverage-guided fuzzer, to everything that reads such bytes.
//!
//! Each module of [`targets`] takes an input and panics if what is under test does, or says something
//! that a plain reading contradicts. The readers are compiled from their sources, without the programs
//! around them: that builds in a fraction of the time.

/// The receiver's readers, from their sources.
#[path = "../../host/src"]
mod host {
    pub mod decode;
    pub mod pcapng;
}

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
pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;

pub use host::{decode, pcapng};
pub use sim::{input, memories};
