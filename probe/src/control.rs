//! A process and chosen functions to a process that counts their entries, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

mod counters;
mod follow;
mod loaded;
mod patch;

use std::path::PathBuf;

use nix::unistd::Pid;

use crate::disassembly::{Disassembly, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{Process, PtraceError};
use crate::stubs::Sink;

use counters::Counters;
pub use counters::ThreadCounts;
pub use follow::{Ending, follow};
use loaded::Loaded;
use patch::Patched;

/// Why a process cannot be tagged.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    /// It cannot be traced.
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// Its program is not where it should be in its memory.
    #[error("process {pid}: {path} is not in its memory")]
    NotLoaded {
        /// Which.
        pid: Pid,
        /// The program.
        path: PathBuf,
    },
    /// There is no room near the program.
    #[error("process {0}: no room for {1} bytes within reach of its program")]
    NoRoom(Pid, u64),
    /// `gs` is in use.
    #[error("process {0}: it uses the register gs, which counters need; --sink none does not")]
    GsInUse(Pid),
    /// A thread stands in what is to be overwritten, at an instruction that becomes several.
    #[error("thread {0} stands at {1:x}, where a jump is to be; try again")]
    InTheWay(Pid, u64),
    /// Counters cannot be read.
    #[error("process {pid}: cannot read its counters")]
    Counters {
        /// Which.
        pid: Pid,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// Functions of a program, each with what would be changed, or why it cannot be tagged.
pub fn verdicts(image: &Image) -> Vec<(&Function, Result<Rewrite, Refusal>)> {
    let functions: Vec<&Function> = image.functions.iter().collect();
    let rewrites = Disassembly::of(image).rewrites(&functions, true);
    functions.into_iter().zip(rewrites).collect()
}

/// A process whose functions are tagged.
#[derive(Debug)]
pub struct Tagged {
    process: Process,
    patched: Vec<Patched>,
    /// Functions that were chosen and are not patched, with the reason.
    pub refused: Vec<(Function, String)>,
    counters: Option<Counters>,
}

impl Tagged {
    /// Tags the chosen functions of a process whose threads all stand still; they still do.
    pub fn new(
        mut process: Process,
        image: Image,
        chosen: impl Fn(&Function) -> bool,
        sink: Sink,
    ) -> Result<Self, TagError> {
        let loaded = Loaded::find(&process, image)?;
        let plan = patch::plan(&loaded.image, chosen, sink);
        let room = plan.stub_bytes();
        let start = loaded.reserve(&mut process, room)?;
        let (patched, refused, code) = plan.stubs(start, loaded.bias, &loaded.image);
        if code.len() as u64 > room {
            return Err(TagError::NoRoom(process.pid, code.len() as u64));
        }
        process.write(start, &code)?;
        let counters = match sink {
            Sink::Count => Some(Counters::new(&mut process, &loaded, start, patched.len())?),
            Sink::None => None,
        };
        let mut tagged = Tagged { process, patched, refused, counters };
        tagged.enter_threads()?;
        patch::tag(&tagged.process, &tagged.patched)?;
        Ok(tagged)
    }

    /// Gives all threads counters.
    fn enter_threads(&mut self) -> Result<(), TagError> {
        let threads: Vec<Pid> = self.process.threads.keys().copied().collect();
        threads.into_iter().try_for_each(|thread| self.enter(thread))
    }

    /// Gives a thread that stands still counters.
    fn enter(&mut self, thread: Pid) -> Result<(), TagError> {
        match &mut self.counters {
            Some(counters) => counters.enter(&self.process, thread),
            None => Ok(()),
        }
    }

    /// Whether a thread has counters, if threads have.
    fn knows(&self, thread: Pid) -> bool {
        self.counters.as_ref().is_none_or(|counters| counters.knows(thread))
    }

    /// Takes note that a thread has ended.
    fn leave(&mut self, thread: Pid) -> Result<(), TagError> {
        self.counters.as_mut().map_or(Ok(()), |counters| counters.leave(thread))
    }

    /// The functions that are tagged, in the order of [`ThreadCounts::entries`].
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.patched.iter().map(|patched| &patched.function)
    }

    /// What each thread has counted.
    pub fn counts(&self) -> Result<Vec<ThreadCounts>, TagError> {
        self.counters.as_ref().map_or(Ok(Vec::new()), Counters::read)
    }

    /// Takes all tags out of a process whose threads all stand still, and lets it go.
    pub fn restore(self) -> Result<(), TagError> {
        patch::restore(|address, bytes| self.process.write(address, bytes), &self.patched)?;
        self.process.detach()?;
        Ok(())
    }

    /// Lets a process go that has become another program.
    pub fn release(self) -> Result<Pid, TagError> {
        let pid = self.process.pid;
        self.process.detach()?;
        Ok(pid)
    }
}
