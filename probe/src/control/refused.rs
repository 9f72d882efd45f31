//! Describes functions that were chosen and are not tagged, with the reasons.

use crate::disassembly::Refusal;
use crate::elf::Function;
use crate::stubs::StubError;

/// A chosen function without tags.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The function.
    pub function: Function,
    /// Why it is not tagged.
    pub reason: RefusalReason,
}

/// Why a function is not tagged.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RefusalReason {
    /// The function's instructions do not allow a jump.
    #[error("{0}")]
    Code(Refusal),
    /// The function's stubs cannot be generated.
    #[error("{0}")]
    Stub(StubError),
    /// The function has the breakpoint at which the dynamic linker reports loaded files.
    #[error("the dynamic linker reports loaded files there")]
    Breakpoint,
}

impl RefusalReason {
    /// Whether the reason lies in the state of the process. Otherwise it lies in the file.
    pub fn is_of_process(&self) -> bool {
        matches!(self, RefusalReason::Code(Refusal::Differs(_)))
    }
}
