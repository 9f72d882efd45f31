//! Describes the generated code of a block or path: where it is entered, and how threads leave it.

use hmtt_probe::address::RunAddr;

use super::writer::Section;

/// The kind of an exit: how the thread leaves the code, and what may be linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// A direct transfer.
    Direct {
        /// Whether the target must be entered where the ring is checked.
        checked: bool,
    },
    /// A direct transfer from the end of a path to its start, which is entered where the ring is
    /// checked. It leads to the repeated path for this first path, if the repeated path is in use.
    Again {
        /// Number of the first path as a whole.
        first: u32,
    },
    /// A system call, about which the controller is asked first.
    Syscall {
        /// Address of its instruction in generated code.
        cached: u64,
    },
    /// A transfer to an instruction that is not translated.
    Native,
    /// A transfer out of a superblock whose code has changed. It always asks the controller.
    Left,
    /// A transfer out of a block whose code has changed, before its first instruction. It always
    /// asks the controller.
    Changed,
}

/// A jump out of the code of a block or path.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Address of the displacement of its jump.
    pub displacement: u64,
    /// Whether its jump is the last instruction of the code, so that it can fall through instead.
    pub is_last: bool,
    /// Original address at which the program continues.
    pub to: RunAddr,
    /// How the thread leaves the code.
    pub kind: ExitKind,
    /// Address of the cold code that asks the controller for its target.
    pub request: u64,
}

/// A place between two blocks of a path at which threads can be made to leave it: an instruction
/// that does nothing, and can be replaced by a jump.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// Address of the displacement of the jump.
    pub displacement: u64,
    /// Address of the cold code that leaves the path.
    pub to: u64,
}

/// Generated code of a block or path in one form.
#[derive(Debug)]
pub struct Emitted {
    /// Code that is usually executed.
    pub hot: Section,
    /// Cold code.
    pub cold: Section,
    /// Addresses at which the code is entered.
    pub entries: Entries,
    /// The exits, in the order of their numbers.
    pub exits: Vec<Exit>,
    /// Places between the blocks of a path at which threads can be made to leave it.
    pub leaves: Vec<Leave>,
}

/// Addresses at which the code of a block is entered.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Address of the prefix of a landing.
    pub prefix: u64,
    /// Address at which the ring is checked. Without a ring it is `main`.
    pub checked: u64,
    /// Address behind the check.
    pub main: u64,
    /// Address of the displacement of the jump with which a landing leads to the next landing with
    /// the same entry of the lookup table.
    pub next: u64,
}
