//! Defines the reasons why a stub cannot be generated.

use iced_x86::IcedError;

/// Error: a stub that cannot be generated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("its instructions cannot be moved to {at:x}: {reason}")]
pub struct StubError {
    /// Address of the stub.
    pub at: u64,
    /// Reason why the stub cannot be generated there.
    pub reason: StubErrorReason,
}

/// Reason why a stub cannot be generated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StubErrorReason {
    /// A jump in the stub cannot reach this target.
    #[error("the jump target {0:x} is too far away")]
    TargetTooFar(u64),
    /// One instruction has only a short encoding, and another one refers to the moved instructions
    /// themselves.
    #[error("the moved code refers to itself")]
    RefersToItself,
    /// An instruction refers to an address that cannot be reached from the stub, or that depends on
    /// the position of the instruction.
    #[error("the moved code refers to a 32-bit address, or too far away")]
    ReferenceTooFar,
    /// An instruction cannot be encoded.
    #[error("{0}")]
    Encoding(IcedError),
}

impl StubError {
    /// Makes the error for an instruction of a stub at `at` that cannot be encoded.
    pub(crate) fn encoding(at: u64) -> impl Fn(IcedError) -> StubError {
        move |error| StubError { at, reason: StubErrorReason::Encoding(error) }
    }
}
