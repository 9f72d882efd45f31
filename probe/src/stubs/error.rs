//! Reasons why a stub cannot be generated.

use iced_x86::IcedError;

/// A stub that cannot be generated.
#[derive(Clone, Debug, thiserror::Error)]
#[error("its instructions cannot be moved to {at:x}: {reason}")]
pub struct StubError {
    /// Address of the stub.
    pub at: u64,
    /// Why it cannot be generated there.
    pub reason: StubErrorReason,
}

/// Why a stub cannot be generated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StubErrorReason {
    /// A jump to this address does not reach it.
    #[error("the jump target {0:x} is too far away")]
    TargetTooFar(u64),
    /// An instruction that has a short encoding only refers to the instructions that are moved.
    #[error("the moved code refers to itself")]
    RefersToItself,
    /// An instruction refers to an address that depends on where the instruction is.
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
