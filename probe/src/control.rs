//! A process and chosen functions to a process that says when it enters them, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

mod collector;
mod follow;
mod loaded;
mod map;
mod patch;
mod shared;

use std::path::PathBuf;

use nix::unistd::Pid;

use crate::disassembly::{Disassembly, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{Process, PtraceError};
use crate::stubs::StubError;

use collector::Collector;
pub use collector::Output;
pub use follow::{Ending, follow};
use loaded::Loaded;
use patch::Patched;
use shared::Overwritten;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::window::{CardWindow, WindowError};
pub use shared::writer::LogSummary;

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
    #[error("process {0}: it uses the register gs, which tags need; those of --sink none do not")]
    GsInUse(Pid),
    /// A thread stands in what is to be overwritten, at an instruction that becomes several.
    #[error("thread {0} stands at {1:x}, where a jump is to be; try again")]
    InTheWay(Pid, u64),
    /// What tags share cannot be made.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// There is no memory to share.
    #[error("process {pid}: cannot share memory with it")]
    Shared {
        /// Which.
        pid: Pid,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write the log")]
    Log {
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The card's window cannot be used.
    #[error(transparent)]
    Window(#[from] WindowError),
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
    collector: Collector,
    program: PathBuf,
}

impl Tagged {
    /// Tags the chosen functions of a process whose threads all stand still; they still do.
    pub fn new(
        mut process: Process,
        image: Image,
        chosen: impl Fn(&Function) -> bool,
        output: Output,
    ) -> Result<Self, TagError> {
        let loaded = Loaded::find(&process, image)?;
        let plan = patch::plan(&loaded.image, chosen, output.sink());
        let room = plan.stub_bytes();
        let start = loaded.reserve(&mut process, room)?;
        let (patched, refused, code) = plan.stubs(start, loaded.bias, &loaded.image)?;
        if code.len() as u64 > room {
            return Err(TagError::NoRoom(process.pid, code.len() as u64));
        }
        process.write(start, &code)?;
        let overwritten: Vec<Overwritten> = patched.iter().flat_map(Patched::overwritten).collect();
        let functions = patched.len();
        let collector =
            Collector::new(&mut process, &loaded, start, output, functions, &overwritten)?;
        let program = loaded.image.path;
        let mut tagged = Tagged { process, patched, refused, collector, program };
        tagged.enter_threads()?;
        patch::tag(&tagged.process, &tagged.patched)?;
        Ok(tagged)
    }

    /// Gives all threads what their tags need.
    fn enter_threads(&mut self) -> Result<(), TagError> {
        let threads: Vec<Pid> = self.process.threads.keys().copied().collect();
        threads.into_iter().try_for_each(|thread| self.enter(thread))
    }

    /// Gives it to a thread that stands still.
    fn enter(&mut self, thread: Pid) -> Result<(), TagError> {
        self.collector.enter(&self.process, thread)
    }

    /// The functions that are tagged, in the order of [`ThreadCounts::entries`].
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.patched.iter().map(|patched| &patched.function)
    }

    /// What each thread has counted.
    pub fn counts(&self) -> Vec<ThreadCounts> {
        self.collector.counts()
    }

    /// Ends the log, if there is one, of a process that has ended or whose threads all stand still.
    pub fn finish(&mut self, ending: Ending) -> Result<Option<LogSummary>, TagError> {
        match &mut self.collector {
            Collector::Log(log) => log.finish(ending.into()).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes all tags out of a process whose threads all stand still, and lets it go.
    pub fn restore(self) -> Result<(), TagError> {
        patch::restore(|address, bytes| self.process.write(address, bytes), &self.patched)?;
        self.collector.forget_overwritten();
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
