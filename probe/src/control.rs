//! A process and chosen functions to a process that says when it enters them, and back.
//!
//! Every entry of a function goes through its first instruction, so a jump there misses none: calls,
//! calls through pointers, tail calls, calls from code nobody knows. Invariant: text is changed only
//! while all threads stand still, and a thread that stands in what is changed is moved to where the same
//! instruction is then.

mod collector;
mod follow;
mod gate;
mod linker;
mod loaded;
mod map;
mod patch;
mod shared;

use std::collections::BTreeSet;
use std::path::PathBuf;

use nix::unistd::Pid;

use crate::disassembly::{Disassembly, Refusal, Rewrite};
use crate::elf::{Function, Image};
use crate::ptrace::{Process, PtraceError};
use crate::selection::Selection;
use crate::stubs::{Sink, StubError};

use collector::Collector;
pub use collector::Output;
pub use follow::{Ending, follow};
use gate::{Gate, Purpose};
use loaded::Loaded;
use patch::Patched;
use shared::Overwritten;
pub use shared::counts::ThreadCounts;
pub use shared::log::LogOutput;
pub use shared::marks::MarkOutput;
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
    /// A function that must not be passed unnoticed cannot be tagged.
    #[error("cannot stop at {name}: {reason}")]
    NoGate {
        /// Which.
        name: String,
        /// Why not.
        reason: String,
    },
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
    program: Loaded,
    selection: Selection,
    sink: Sink,
    gates: Vec<Gate>,
    /// Files that were looked at, and where they are.
    known: BTreeSet<(PathBuf, u64)>,
    is_changed: bool,
}

/// When tags are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When a program that has just been launched gets to its `main`.
    Main,
}

/// Functions of libraries that may be tagged, at most.
const LIBRARY_FUNCTIONS: usize = 1 << 17;

impl Tagged {
    /// Tags the chosen functions of a process whose threads all stand still; they still do.
    pub fn new(
        mut process: Process,
        image: Image,
        selection: Selection,
        output: Output,
        start: Start,
    ) -> Result<Self, TagError> {
        let program = Loaded::find(&process, image)?;
        let sink = output.sink();
        let scratch = program.reserve(&mut process, program.site(), 1)?;
        let functions = program.image.functions.iter();
        let chosen = functions.filter(|function| selection.matches(function, None)).count();
        let more = if selection.has_libraries() { LIBRARY_FUNCTIONS } else { 0 };
        let collector =
            Collector::new(&mut process, &program, scratch, output, (chosen, chosen + more))?;
        let mut tagged = Tagged {
            process,
            patched: Vec::new(),
            refused: Vec::new(),
            collector,
            program,
            selection,
            sink,
            gates: Vec::new(),
            known: BTreeSet::new(),
            is_changed: false,
        };
        tagged.enter_threads()?;
        if start == Start::Now || !tagged.wait_for_main()? {
            tagged.begin()?;
        }
        Ok(tagged)
    }

    /// Puts a gate at `main`, if it is known.
    fn wait_for_main(&mut self) -> Result<bool, TagError> {
        let Loaded { image, .. } = &self.program;
        let Some(main) = image.main().and_then(|address| image.function_at(address)) else {
            return Ok(false);
        };
        let site = self.program.site();
        let gate = Gate::new(&mut self.process, site, &self.program, main, Purpose::Main)?;
        self.gates.push(gate);
        Ok(true)
    }

    /// Puts the tags in; all threads stand still.
    fn begin(&mut self) -> Result<(), TagError> {
        let plan = |image: &Image| {
            patch::plan(image, |function| self.selection.matches(function, None), self.sink)
        };
        let plan = plan(&self.program.image);
        let start =
            self.program.reserve(&mut self.process, self.program.site(), plan.stub_bytes())?;
        let stubs = plan.stubs(start, 0, &self.program)?;
        self.add(start, stubs)?;
        if self.selection.has_libraries() {
            self.watch_linker()?;
            self.tag_libraries()?;
        }
        Ok(())
    }

    /// Puts a gate where the dynamic linker says that it has loaded something.
    fn watch_linker(&mut self) -> Result<(), TagError> {
        let Some(address) = linker::notifier(&self.process)? else { return Ok(()) };
        let images = linker::files(&self.process)?.into_keys();
        for image in images.filter_map(|path| Image::read(&path).ok()) {
            let Ok(loaded) = Loaded::find(&self.process, image) else { continue };
            let function = loaded.image.function_at(address.wrapping_sub(loaded.bias));
            if let Some(function) = function.filter(|_| loaded.holds(address)) {
                let site = self.program.site();
                let gate = Gate::new(&mut self.process, site, &loaded, function, Purpose::Linker)?;
                self.gates.push(gate);
                break;
            }
        }
        Ok(())
    }

    /// Tags functions of libraries that were not there before.
    fn tag_libraries(&mut self) -> Result<(), TagError> {
        for (path, start) in linker::files(&self.process)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_known = path == self.program.image.path || !self.selection.wants(&name);
            if is_known || !self.known.insert((path.clone(), start)) {
                continue;
            }
            // What is mapped but no library is not meant.
            let Ok(image) = Image::read(&path) else { continue };
            let Ok(loaded) = Loaded::find(&self.process, image) else { continue };
            let chosen = |function: &Function| self.selection.matches(function, Some(&name));
            let plan = patch::plan(&loaded.image, chosen, self.sink);
            let site = self.program.site();
            let start = loaded.reserve(&mut self.process, site, plan.stub_bytes())?;
            let stubs = plan.stubs(start, self.patched.len() as u32, &loaded)?;
            self.add(start, stubs)?;
        }
        Ok(())
    }

    /// Puts stubs and jumps in.
    fn add(
        &mut self,
        start: u64,
        (patched, refused, code): patch::Planned,
    ) -> Result<(), TagError> {
        self.refused.extend(refused);
        self.process.write(start, &code)?;
        let overwritten: Vec<Overwritten> = patched.iter().flat_map(Patched::overwritten).collect();
        self.collector.add(patched.len(), &overwritten)?;
        patch::tag(&self.process, &patched)?;
        self.patched.extend(patched);
        self.is_changed = true;
        Ok(())
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
        patch::restore(&self.process, &self.patched)?;
        let mut gates = self.gates.iter().map(|gate| std::slice::from_ref(&gate.patched));
        gates.try_for_each(|patched| patch::restore(&self.process, patched))?;
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
