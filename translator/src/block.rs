//! Decodes original code into intermediate blocks.

use hmtt_probe::address::RunAddr;
use thiserror::Error;

/// Why an instruction is not translated, but runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its bytes cannot be read, or may change.
    NotReadable,
    /// It is not a valid instruction.
    Invalid,
    /// It uses `gs`, which generated code uses.
    UsesGs,
    /// It is a trap, a far transfer, or another transfer of a kind that is not translated.
    Transfer,
    /// Its memory operand is out of reach from the cache.
    OutOfReach,
    /// Its execution depends on its address, or on the next instructions being executed unchanged.
    Position,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::NotReadable => "its bytes cannot be read or may change",
            Why::Invalid => "it is not valid",
            Why::UsesGs => "it uses gs",
            Why::Transfer => "it is a transfer that is not translated",
            Why::OutOfReach => "its operand is out of reach",
            Why::Position => "it depends on its address",
        })
    }
}

/// An instruction that runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the instruction at {at:#x} is not translated: {why}")]
pub struct Untranslatable {
    /// Original address of the instruction.
    pub at: RunAddr,
    /// The reason.
    pub why: Why,
}
