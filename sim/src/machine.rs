//! Simulates a machine from the accesses of its programs to the DDR commands on its memory bus.
//!
//! ```text
//! accesses    text, such as that of valgrind's lackey -> accesses of a program
//! pages       virtual addresses                       -> physical addresses
//! cache       accesses                                -> lines that are read from memory and written to it (of `hmtt`)
//! controller  lines                                   -> commands, each with its clock
//! recording   commands                                -> a recording, and the list of its accesses
//! ```
//!
//! [`Machine`] connects pages, cache and controller. It stores only page tables, cache lines and
//! the lines that wait in the controller, so a run can have any length.
//!
//! **Time.** The processor makes a given number of accesses in each memory clock, whatever their
//! kind. It does not wait for data, but it stops while [`controller::WINDOW`] lines wait in the
//! controller. So the memory's bandwidth limits the program, and its latency does not. A processor
//! that finds enough other work while it waits behaves like this.

use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::{Cycles, Direction, MemoryDescription, PhysAddr};

pub mod accesses;
pub mod controller;
pub mod pages;
#[cfg(feature = "card")]
pub mod recording;

pub use hmtt::cache;

use cache::{AccessKind, CacheConfiguration, CacheError, Counters, Hierarchy, Transfer};
use controller::{
    CommandCounts, CommandSink, Controller, ControllerError, LineRequest, PagePolicy,
};
use pages::{Allocation, PageError, Pages, VirtAddr};

/// The memory of a machine if none is described, in TOML: one DDR-200 module of 512 MiB, whose
/// bursts are half a line. The paper's machine had such modules, and the boards can run at their
/// clock.
pub const DEFAULT_MEMORY: &str = "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
     [map]\ncolumn = ['p3-p13']\nbank = ['p14', 'p15']\nrow = ['p16-p28']\n";
/// Unit of [`MachineConfiguration::milli_accesses_per_clock`]: thousandths.
const MILLI: u64 = 1000;

/// Description of a machine.
#[derive(Clone, Debug)]
pub struct MachineConfiguration {
    /// The data path of caches; empty: every access is to memory, in units of the memory's lines.
    pub levels: Vec<CacheConfiguration>,
    /// The instruction cache before the second level.
    pub instructions: Option<CacheConfiguration>,
    /// The order in which page frames are allocated.
    pub allocation: Allocation,
    /// When rows are closed.
    pub policy: PagePolicy,
    /// Accesses of the processor in 1000 memory clocks, at least 1.
    pub milli_accesses_per_clock: u64,
}

impl Default for MachineConfiguration {
    /// A small desktop machine with four accesses in each memory clock.
    fn default() -> Self {
        MachineConfiguration {
            levels: CacheConfiguration::DESKTOP_LEVELS.to_vec(),
            instructions: Some(CacheConfiguration::DESKTOP_INSTRUCTIONS),
            allocation: Allocation::Sequential,
            policy: PagePolicy::Open,
            milli_accesses_per_clock: 4 * MILLI,
        }
    }
}

/// Why a machine cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ConfigurationError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Pages(#[from] PageError),
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error("lines of {cache_bytes} bytes in the last cache are longer than a page")]
    Line { cache_bytes: u32 },
}

/// Why an access could not be made. `E`: error of the receiver of commands.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MachineError<E> {
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Sink(E),
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses of programs.
    pub accesses: u64,
    /// Pages that were used.
    pub pages: u64,
    /// Counts of each level of the data path.
    pub levels: Vec<Counters>,
    /// Counts of the instruction cache.
    pub instructions: Option<Counters>,
    /// Lines read from memory.
    pub line_reads: u64,
    /// Lines written to memory.
    pub line_writes: u64,
    /// Changed lines that are still in caches.
    pub dirty_lines: u64,
    /// Clocks from the start of the recording to the end of the last data.
    pub clocks: u64,
    /// Clocks for which the controller stopped the processor.
    pub stalled_clocks: u64,
    /// Counts of commands.
    pub commands: CommandCounts,
}

/// A machine. `S`: receiver of its commands.
pub struct Machine<S> {
    pages: Pages,
    caches: Option<Hierarchy>,
    controller: Controller,
    sink: S,
    milli_accesses_per_clock: u64,
    /// log2 of the size of a line in bytes if the machine has no caches.
    line_log2: u8,
    /// Clock of the first access, plus the clocks for which the processor was stopped so far.
    offset: u64,
    counts: Counts,
    /// Transfers of the current access; a buffer that is reused.
    transfers: Vec<Transfer>,
}

impl<S: CommandSink> Machine<S> {
    /// Creates a machine, and starts its memory.
    ///
    /// # Errors
    /// The errors of `sink`.
    pub fn start(parts: Parts, mut sink: S) -> Result<Self, S::Error> {
        let Parts { pages, caches, mut controller, milli_accesses_per_clock, line_log2 } = parts;
        let Cycles(offset) = controller.power_up(&mut sink)?;
        Ok(Machine {
            pages,
            caches,
            controller,
            sink,
            milli_accesses_per_clock,
            line_log2,
            offset,
            counts: Counts::default(),
            transfers: Vec::new(),
        })
    }

    /// Makes an access of `size` bytes after the earlier accesses. An access that crosses pages
    /// uses the frames of all these pages.
    ///
    /// # Errors
    /// [`MachineError::Page`] if the memory is full, [`MachineError::Sink`] if a command could not
    /// be taken.
    pub fn access(
        &mut self,
        process: u32,
        kind: AccessKind,
        address: VirtAddr,
        size: u32,
    ) -> Result<(), MachineError<S::Error>> {
        let number = self.counts.accesses;
        self.counts.accesses += 1;
        let last = address.0.saturating_add(u64::from(size.max(1) - 1));
        let mut from = address.0;
        loop {
            let until = last.min(from | ((1 << PAGE_LOG2) - 1));
            let physical = self.pages.translate(process, VirtAddr(from))?;
            self.part(kind, physical, (until - from + 1) as u32);
            if until == last {
                break;
            }
            from = until + 1;
        }
        if !self.transfers.is_empty() {
            let base = u128::from(number) * u128::from(MILLI);
            let base = (base / u128::from(self.milli_accesses_per_clock)) as u64;
            self.transfer(base).map_err(MachineError::Sink)?;
        }
        Ok(())
    }

    /// Issues the remaining commands. Returns the receiver and the counts.
    ///
    /// # Errors
    /// The errors of the receiver.
    pub fn finish(mut self) -> Result<(S, Counts), S::Error> {
        let Cycles(end) = self.controller.finish(&mut self.sink)?;
        let mut counts = self.counts;
        if let Some(caches) = &self.caches {
            counts.levels = caches.counters().collect();
            counts.instructions = caches.instruction_counters();
            counts.dirty_lines = caches.dirty_lines();
        }
        counts.pages = self.pages.used();
        counts.clocks = end;
        counts.commands = self.controller.counts();
        Ok((self.sink, counts))
    }

    /// Makes the part of an access that is in one page.
    fn part(&mut self, kind: AccessKind, address: PhysAddr, size: u32) {
        let transfers = &mut self.transfers;
        if let Some(caches) = &mut self.caches {
            caches.access(kind, address.0, size, &mut |transfer| transfers.push(transfer));
            return;
        }
        let direction = Direction::from_bit(kind == AccessKind::Write);
        let bytes = 1 << self.line_log2;
        let last = (address.0 + u64::from(size - 1)) >> self.line_log2;
        for line in address.0 >> self.line_log2..=last {
            transfers.push(Transfer { direction, address: line << self.line_log2, bytes });
        }
    }

    /// Passes the lines of an access to the controller. `base`: the clock of the access, counted
    /// from the first access, if nothing had stopped the processor.
    fn transfer(&mut self, base: u64) -> Result<(), S::Error> {
        for Transfer { direction, address, bytes } in self.transfers.drain(..) {
            let from = Cycles(self.offset + base);
            let request = LineRequest { from, direction, address: PhysAddr(address), bytes };
            let accept_clock = self.controller.push(request, &mut self.sink)?;
            let stalled = accept_clock.0 - from.0;
            self.offset += stalled;
            self.counts.stalled_clocks += stalled;
            match direction {
                Direction::Read => self.counts.line_reads += 1,
                Direction::Write => self.counts.line_writes += 1,
            }
        }
        Ok(())
    }
}

/// The parts of a machine that was not started.
pub struct Parts {
    pages: Pages,
    caches: Option<Hierarchy>,
    controller: Controller,
    milli_accesses_per_clock: u64,
    line_log2: u8,
}

impl Parts {
    /// Creates the parts that a configuration describes.
    ///
    /// # Errors
    /// [`ConfigurationError`] if one of the parts cannot exist.
    pub fn new(
        configuration: &MachineConfiguration,
        memory: &MemoryDescription,
    ) -> Result<Self, ConfigurationError> {
        let MachineConfiguration { levels, instructions, .. } = configuration;
        let longest = levels.iter().map(|level| level.line_bytes).max().unwrap_or(0);
        if longest > 1 << PAGE_LOG2 {
            return Err(ConfigurationError::Line { cache_bytes: longest });
        }
        let caches = if levels.is_empty() {
            None
        } else {
            Some(Hierarchy::new(levels, instructions.as_ref())?)
        };
        Ok(Parts {
            pages: Pages::new(memory, configuration.allocation)?,
            caches,
            controller: Controller::new(memory, configuration.policy)?,
            milli_accesses_per_clock: configuration.milli_accesses_per_clock.max(1),
            line_log2: memory.line_log2,
        })
    }
}
