//! Interface to receive what a file contains: the blocks that threads have executed, and their
//! accesses.

use hmtt_format::access_trace::{BlockAccesses, Function, Made};

/// An access of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadAccess {
    /// Number of the thread in the system.
    pub thread: u32,
    /// The access.
    pub made: Made,
}

/// A block that a thread has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'f> {
    /// Number of the thread in the system.
    pub thread: u32,
    /// Number of the block in the file, from 1 on.
    pub number: u32,
    /// Its description, with its code.
    pub block: &'f BlockAccesses,
    /// The function that contains its first instruction; `None` if it is not known.
    pub function: Option<&'f Function>,
    /// How many of its instructions were executed. If the next one is a repeated string
    /// instruction, it may have accessed some of its elements. A file that is not what `hmtt trace`
    /// writes may have more than the block has.
    pub instructions: usize,
    /// The description by which its accesses were recorded: that of the block, or of a path with
    /// it.
    pub recorded: &'f BlockAccesses,
    /// Number of that description, in the file; of a path up to this block.
    pub recorded_number: u32,
    /// Its first instruction, among those of that description.
    pub first: usize,
}

impl<'f> Executed<'f> {
    /// A block of no known function that was executed as a whole, and recorded by itself.
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
    /// A thread has dropped what it had recorded, because its ring was full.
    Dropped {
        /// Number of the thread in the system.
        thread: u32,
        /// Words of 4 bytes that it had recorded.
        words: u64,
    },
    /// A thread has executed code natively, which could not be translated.
    Unrecorded {
        /// Number of the thread in the system.
        thread: u32,
    },
    /// The program ran natively, as was asked for. That is no loss.
    Native {
        /// For how long, in nanoseconds.
        nanoseconds: u64,
    },
}

/// Receives what threads have done, in the order of each thread.
pub trait Visitor {
    /// A block was executed. Its accesses follow before the next block.
    fn block(&mut self, executed: &Executed<'_>) {
        let _ = executed;
    }

    /// An access was made, by the last block.
    fn access(&mut self, executed: &Executed<'_>, access: ThreadAccess);

    /// Accesses are missing here.
    fn gap(&mut self, gap: Gap) {
        let _ = gap;
    }

    /// Nothing follows in the file, or reading it has failed.
    fn end(&mut self) {}
}

/// Receives accesses alone.
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
