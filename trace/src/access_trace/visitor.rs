//! Defines the interface through which a decoder passes on executed blocks, accesses and gaps.

use hmtt_files::access_trace::{BlockAccesses, Function, Made};

/// An access with the thread that has made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAccess {
    /// Number of the thread in the system.
    pub thread: u32,
    /// The access.
    pub made: Made,
}

/// One execution of a block by a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'f> {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Number of the block in the file, from 1 on.
    pub number: u32,
    /// Description of the block, with its code.
    pub block: &'f BlockAccesses,
    /// The function that contains the first instruction of the block; `None` if it is not known.
    pub function: Option<&'f Function>,
    /// Number of instructions of the block that were executed, from the first one on. If the next
    /// instruction is a repeated string instruction, it may have accessed some of its elements. In
    /// a forged file, the number may be larger than the number of instructions of the block.
    pub instructions: usize,
    /// The description by which the accesses were recorded: the description of the block itself, or
    /// of a path.
    pub recorded: &'f BlockAccesses,
    /// Number of `recorded` in the file; for a path, the number of the path up to this block.
    pub recorded_number: u32,
    /// Index in `recorded` of the block's first instruction; 0 if the block was recorded by itself.
    pub first: usize,
}

impl<'f> Executed<'f> {
    /// A whole execution of a block that is in no known function and was recorded by itself.
    pub fn alone(thread: u32, number: u32, block: &'f BlockAccesses) -> Self {
        Executed {
            thread,
            number,
            block,
            function: None,
            instructions: block.instructions.into(),
            recorded: block,
            recorded_number: number,
            first: 0,
        }
    }
}

/// A place at which accesses are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A thread has dropped recorded words, because its ring was full.
    Dropped {
        /// Number of the thread in the system.
        thread: u32,
        /// Number of dropped words, of 4 bytes each.
        words: u64,
    },
    /// A thread has executed code natively that could not be translated.
    Unrecorded {
        /// Number of the thread in the system.
        thread: u32,
    },
    /// The program ran natively, as the user requested. This is no loss.
    Native {
        /// Duration, in nanoseconds.
        nanoseconds: u64,
    },
}

/// Receives executed blocks, accesses and gaps. The events of each thread come in the order in
/// which they occurred.
pub trait Visitor {
    /// A thread has executed a block. Its accesses follow before the next block.
    fn block(&mut self, executed: &Executed<'_>) {
        let _ = executed;
    }

    /// The last block has made an access.
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess);

    /// Accesses are missing here.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// The file has ended, or reading it has failed. Nothing follows.
    fn end(&mut self) {}
}

/// A [`Visitor`] that passes accesses to a closure, and ignores blocks and gaps.
pub struct Accesses<F>(pub F);

impl<F: FnMut(ThreadAccess)> Visitor for Accesses<F> {
    #[inline]
    fn access(&mut self, _: &Executed<'_>, access: ThreadAccess) {
        self.0(access);
    }
}

impl<V: Visitor> Visitor for &mut V {
    #[inline]
    fn block(&mut self, executed: &Executed<'_>) {
        V::block(self, executed);
    }

    #[inline]
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess) {
        V::access(self, executed, access);
    }

    fn gap(&mut self, gap: Gap) {
        V::gap(self, gap);
    }

    fn end(&mut self) {
        V::end(self);
    }
}
