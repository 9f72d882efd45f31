//! Bytes that nobody vouches for, from a coverage-guided fuzzer, to everything that reads such bytes.
//!
//! Each module of [`targets`] takes an input and panics if what is under test does, or says something
//! that a plain reading contradicts. The readers are compiled from their sources, without the programs
//! around them: that builds in a fraction of the time. [`decode`], [`pcapng`], [`capture_reader`], [`merge`],
//! [`table`] and [`tags`] are links to the host's, because their paths begin at the crate; [`elf`],
//! [`disassembly`], [`stubs`], [`unwind`] and [`regular`] are links to the probe's.

/// The simulator's readers, from their sources.
#[path = "../../sim/src"]
mod sim {
    #[path = "fuzz/memories.rs"]
    pub mod memories;

    pub mod input;
}

pub mod capture_reader;
#[path = "../../host/tests/suite/card.rs"]
#[allow(missing_docs)]
pub mod card;
#[allow(dead_code)]
pub mod control;
pub mod decode;
#[allow(dead_code)]
pub mod disassembly;
#[allow(dead_code)]
pub mod elf;
pub mod merge;
pub mod pcapng;
pub mod plain;
#[allow(dead_code)]
pub mod ptrace;
#[allow(dead_code)]
pub mod regular;
pub mod script;
pub mod seeds;
#[allow(dead_code)]
pub mod selection;
#[allow(dead_code, unused_imports)]
pub mod stubs;
pub mod table;
pub mod tags;
pub mod targets;
#[allow(dead_code, unused_imports)]
pub mod unwind;

/// The host's reports, from their sources: what tables and tags need of them.
#[path = "../../host/src/report"]
pub mod report {
    pub mod calls;
    pub(crate) mod gap;
}

pub use sim::{input, memories};
