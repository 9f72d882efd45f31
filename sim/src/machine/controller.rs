//! Issues DDR commands for lines that are read or written, at the distances of JEDEC.
//!
//! ```text
//! bursts    the bursts of the lines that wait
//! power_up  what a controller does once, until the memory can be used: mode registers
//! banks     rows, and when each bank may be activated, precharged, read and written
//! columns   when the data bus is free for a READ or WRITE
//! ```
//!
//! A line is one burst or several neighbouring ones. READs and WRITEs are issued in the order in
//! which lines arrive (FCFS), at most one command in a clock. At most [`WINDOW`] lines wait. The
//! row of a waiting line may be opened while earlier lines of other banks are transferred. So an
//! ACTIVATE or PRECHARGE may be earlier than the READ of an earlier line, but no row is closed that
//! an earlier line needs. If several commands are possible in a clock, a READ or WRITE comes first,
//! then the command for the row of the earliest line.
//!
//! When tREFI has passed since the last REFRESH became due, no other command is begun; all banks
//! are precharged, and all ranks are refreshed at once. A REFRESH is delayed only by the distances
//! that the commands before it require.
//!
//! Not modelled: power-down, self refresh, a command for one rank where all ranks need it, and
//! reordering.
//!
//! Invariant: commands are issued in ascending order of their clocks, and the model does nothing
//! clock by clock, so long pauses cost only their refreshes.

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, ALL_RANKS, column_pins};
use hmtt_format::{
    Access, Command, CommandKind, Coordinates, Cycles, Direction, Generation, MemoryDescription,
    PhysAddr, Pins,
};

use hmtt_format::timing::Timing;

mod banks;
mod bursts;
mod columns;
mod power_up;

use banks::{Banks, RowState};
use bursts::{Burst, Bursts};
use columns::Columns;

/// Most lines that wait in the controller.
pub const WINDOW: usize = 8;

/// When a row is closed after it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    /// A row stays open until another row of its bank is needed, or until the next REFRESH.
    Open,
    /// Rows are closed by auto-precharge with the last burst of a line in them.
    Closed,
}

impl PagePolicy {
    /// The name of the policy in headers and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            PagePolicy::Open => "open",
            PagePolicy::Closed => "closed",
        }
    }
}

/// A line to be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRequest {
    /// First clock at which the controller may issue a command for the line.
    pub from: Cycles,
    /// Read or write.
    pub direction: Direction,
    /// Address of the first byte.
    pub address: PhysAddr,
    /// Size in bytes, a power of two. A line that is shorter than a burst is one whole burst.
    pub bytes: u32,
}

/// The pins at a clock with a command, or at which CKE changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The clock.
    pub clock: Cycles,
    /// The pins at that clock.
    pub pins: Pins,
    /// The access, if the command is a READ or WRITE. Its address is the address of the first word.
    pub access: Option<Access>,
}

/// A receiver of commands, in ascending order of clocks.
pub trait CommandSink {
    /// Why a command could not be taken.
    type Error;

    /// Takes one command.
    ///
    /// # Errors
    /// If the receiver cannot take the command.
    fn issue(&mut self, issued: Issued) -> Result<(), Self::Error>;
}

/// Counts of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// Commands of every kind.
    pub commands: u64,
    /// READs and WRITEs of a row that was already used since it was opened.
    pub row_hits: u64,
    /// First READs and WRITEs of a row that was opened in a closed bank.
    pub row_misses: u64,
    /// First READs and WRITEs of a row for which another row was closed.
    pub row_conflicts: u64,
    /// REFRESH commands.
    pub refreshes: u64,
}

/// Why a controller cannot drive a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ControllerError {
    #[error("{} has no bursts of {length} words", generation.name())]
    BurstLength { generation: Generation, length: u8 },
    #[error("{} modules have no pins for {bits} {} bits", generation.name(), axis.name())]
    Pins { generation: Generation, axis: Axis, bits: u8 },
    #[error("a refresh every {limit} clocks leaves no time for accesses")]
    RefreshLimit { limit: u32 },
}

/// The command that can be issued next.
#[derive(Clone, Copy, Debug)]
struct Step {
    clock: u64,
    kind: CommandKind,
    place: Coordinates,
}

/// The memory controller.
pub struct Controller {
    memory: MemoryDescription,
    timing: Timing,
    policy: PagePolicy,
    waiting: Bursts,
    banks: Banks,
    columns: Columns,
    /// The first clock without a command.
    now: u64,
    refresh_due: u64,
    counts: CommandCounts,
}

impl Controller {
    /// Creates a controller at power-on. No command was issued yet.
    ///
    /// # Errors
    /// [`ControllerError`] if modules of the generation have no such bursts or too few pins, or if
    /// the memory must be refreshed too often.
    pub fn new(memory: &MemoryDescription, policy: PagePolicy) -> Result<Self, ControllerError> {
        power_up::check(memory)?;
        let mut timing = Timing::new(memory);
        let limit = memory.refresh_limit_clocks;
        if limit != 0 {
            // The last commands before a REFRESH may open a row, transfer a burst and precharge the
            // bank. In the power-up, the DLL locks between two REFRESHes.
            let latest = timing.tras + timing.trc + timing.trpa + timing.cwl + timing.twr + 64;
            let room = u64::from(limit).checked_sub(latest);
            let room = room.filter(|room| *room > timing.trfc + timing.tdllk);
            let room = room.ok_or(ControllerError::RefreshLimit { limit })?;
            timing.trefi = timing.trefi.min(room);
        }
        Ok(Controller {
            memory: memory.clone(),
            policy,
            waiting: Bursts::new(memory),
            banks: Banks::new(memory, &timing),
            columns: Columns::new(memory, &timing),
            now: 0,
            refresh_due: 0,
            counts: CommandCounts::default(),
            timing,
        })
    }

    /// Issues the commands of a power-up. Returns the first clock at which the memory can be used.
    ///
    /// # Errors
    /// The errors of `sink`.
    pub fn power_up<S: CommandSink>(&mut self, sink: &mut S) -> Result<Cycles, S::Error> {
        let mut refreshed = None;
        for (clock, pins) in power_up::commands(&self.memory, &self.timing) {
            let kind = Command::decode(self.memory.generation, pins, true).kind;
            if kind == CommandKind::Refresh {
                refreshed = Some(clock);
            }
            self.now = clock + 1;
            self.counts.commands += u64::from(pins.cs_n != ALL_RANKS);
            sink.issue(Issued { clock: Cycles(clock), pins, access: None })?;
        }
        self.now += power_up::last_wait(&self.timing);
        self.refresh_due = refreshed.unwrap_or(self.now) + self.timing.trefi;
        Ok(Cycles(self.now))
    }

    /// Adds a line after the lines added before. Issues the commands that come before its clock. If
    /// [`WINDOW`] lines wait, also issues commands until one of these lines has been transferred.
    /// Returns the clock at which the line was taken.
    ///
    /// # Errors
    /// The errors of `sink`.
    pub fn push<S: CommandSink>(
        &mut self,
        request: LineRequest,
        sink: &mut S,
    ) -> Result<Cycles, S::Error> {
        self.run(Some(request.from.0), usize::MAX, sink)?;
        let full = self.waiting.lines() >= WINDOW;
        self.run(None, WINDOW - 1, sink)?;
        let from = if full { request.from.0.max(self.now) } else { request.from.0 };
        self.waiting.push(LineRequest { from: Cycles(from), ..request });
        Ok(Cycles(from))
    }

    /// Issues the commands for all lines that wait. Returns the clock after which the data bus is
    /// idle.
    ///
    /// # Errors
    /// The errors of `sink`.
    pub fn finish<S: CommandSink>(&mut self, sink: &mut S) -> Result<Cycles, S::Error> {
        self.run(None, 0, sink)?;
        let Timing { cl, cwl, burst, .. } = self.timing;
        Ok(Cycles(self.now + cl.max(cwl) + burst))
    }

    /// Counts of the commands so far.
    pub const fn counts(&self) -> CommandCounts {
        self.counts
    }

    /// The distances that the controller keeps.
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Issues commands before clock `until`, if it is given, while more than `lines` lines wait.
    /// With `usize::MAX` lines the number of waiting lines does not matter.
    fn run<S: CommandSink>(
        &mut self,
        until: Option<u64>,
        lines: usize,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        while lines == usize::MAX || self.waiting.lines() > lines {
            let step = self.next_step();
            let step = step.filter(|step| step.clock < self.refresh_due);
            let clock = step.map_or(self.refresh_due, |step| step.clock);
            if until.is_some_and(|until| clock >= until) {
                break;
            }
            match step {
                Some(step) => self.take(step, sink)?,
                None => self.refresh(sink)?,
            }
        }
        Ok(())
    }

    /// Returns the waiting burst's command that can be issued at the earliest clock; of several
    /// commands at this clock, the command of the earliest burst.
    fn next_step(&self) -> Option<Step> {
        let mut best: Option<Step> = None;
        let mut claimed_banks = 0u64;
        for (at, burst) in self.waiting.iter().enumerate() {
            let place = burst.place;
            let bank = 1u64 << self.banks.index(place);
            if claimed_banks & bank != 0 {
                continue;
            }
            claimed_banks |= bank;
            let least = self.now.max(burst.from);
            let (kind, clock) = match self.banks.state(place) {
                RowState::Open if at > 0 => continue,
                RowState::Open => {
                    let ready = self.banks.column_from(place);
                    let kind = match burst.direction {
                        Direction::Read => CommandKind::Read,
                        Direction::Write => CommandKind::Write,
                    };
                    (kind, ready.max(self.columns.from(burst.direction, place)))
                }
                RowState::Closed => (CommandKind::Activate, self.banks.activate_from(place)),
                RowState::Other => (CommandKind::Precharge, self.banks.precharge_from(place)),
            };
            let clock = clock.max(least);
            if best.is_none_or(|best| clock < best.clock) {
                best = Some(Step { clock, kind, place });
            }
        }
        best
    }

    fn take<S: CommandSink>(&mut self, step: Step, sink: &mut S) -> Result<(), S::Error> {
        let Step { clock, kind, place } = step;
        match kind {
            CommandKind::Activate => {
                self.banks.activate(place, clock);
                self.issue(clock, kind, place, place.row, None, sink)
            }
            CommandKind::Precharge => {
                self.banks.precharge(place, clock);
                self.issue(clock, kind, place, 0, None, sink)
            }
            _ => self.transfer(clock, kind, sink),
        }
    }

    /// Issues the READ or WRITE of the first burst.
    fn transfer<S: CommandSink>(
        &mut self,
        clock: u64,
        kind: CommandKind,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let Some(burst) = self.waiting.pop() else { return Ok(()) };
        let Burst { direction, place, address, .. } = burst;
        let close = self.policy == PagePolicy::Closed && burst.last_of_row;
        self.columns.issued(direction, place, clock);
        match self.banks.transfer(direction, place, clock, close) {
            banks::Outcome::Hit => self.counts.row_hits += 1,
            banks::Outcome::Miss => self.counts.row_misses += 1,
            banks::Outcome::Conflict => self.counts.row_conflicts += 1,
        }
        let bits = self.memory.bits(Axis::Column);
        let a = column_pins(self.memory.generation, place.column, bits);
        let access = Access { clock: Cycles(clock), direction, address };
        self.issue(clock, kind, place, a | if close { A10 } else { 0 }, Some(access), sink)
    }

    /// Precharges all banks, if one is open, and refreshes all ranks.
    fn refresh<S: CommandSink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let ranks = (1 << self.memory.ranks()) - 1;
        let due = self.now.max(self.refresh_due);
        if let Some(from) = self.banks.precharge_all_from() {
            let clock = due.max(from);
            self.banks.precharge_all(clock);
            let command = Command { kind: CommandKind::PrechargeAll, ba: 0, a: A10 };
            self.issue_to(ranks, clock, command, None, sink)?;
        }
        let clock = due.max(self.banks.refresh_from());
        self.banks.refresh(clock);
        self.refresh_due += self.timing.trefi;
        self.counts.refreshes += 1;
        let command = Command { kind: CommandKind::Refresh, ba: 0, a: 0 };
        self.issue_to(ranks, clock, command, None, sink)
    }

    fn issue<S: CommandSink>(
        &mut self,
        clock: u64,
        kind: CommandKind,
        place: Coordinates,
        a: u32,
        access: Option<Access>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let command = Command { kind, ba: place.bank as u8, a };
        self.issue_to(1 << place.rank, clock, command, access, sink)
    }

    fn issue_to<S: CommandSink>(
        &mut self,
        ranks: u8,
        clock: u64,
        command: Command,
        access: Option<Access>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.now = clock + 1;
        self.counts.commands += 1;
        let pins = self.memory.pins(command, ranks);
        sink.issue(Issued { clock: Cycles(clock), pins, access })
    }
}
