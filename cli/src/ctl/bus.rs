//! Converts accesses to DDR commands, one access after another.
//!
//! Each access opens its row and closes it before the next access, like a memory controller with a
//! closed-page policy. [`Timing`] states the distances between commands. All ranks are refreshed
//! when a refresh is due. All banks are closed at the end.

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, column_pins};
use hmtt_format::control::ControlAccess;
use hmtt_format::header::Line;
use hmtt_format::timing::Timing;
use hmtt_format::{Command, CommandKind, Direction, MemoryDescription};

/// A memory bus that carries only the accesses of this program.
pub struct Bus<'a> {
    memory: &'a MemoryDescription,
    timing: Timing,
    /// First clock at which the next command may be issued.
    next: u64,
    refresh_due: u64,
    /// The commands so far, one line for each.
    lines: Vec<u8>,
}

impl<'a> Bus<'a> {
    /// Creates a bus that starts after the last command of another controller, at a clock by which
    /// all minimum distances to earlier commands are over. First closes all banks and refreshes all
    /// ranks.
    pub fn after(memory: &'a MemoryDescription, last_clock: Option<u64>) -> Self {
        let timing = Timing::new(memory);
        let Timing { cwl, burst, twr, trp, tras, trfc, tmod, txpr, tdllk, tzqinit, .. } = timing;
        let written = cwl + burst + twr + trp;
        let longest = [written, tras, trfc, tmod, txpr, tdllk, tzqinit].into_iter().max();
        let next = last_clock.map_or(0, |last| last + longest.unwrap_or(0) + 1);
        let mut bus = Bus { memory, timing, next, refresh_due: 0, lines: Vec::new() };
        bus.issue_to_all(CommandKind::PrechargeAll, A10);
        bus.next += bus.timing.trpa - 1;
        bus.refresh_due = bus.next;
        bus.refresh();
        bus
    }

    /// Makes one access: ACTIVATE, READ or WRITE, PRECHARGE. An address beyond the memory wraps
    /// round, as in the address map.
    pub fn access(&mut self, access: ControlAccess) {
        if self.next >= self.refresh_due {
            self.refresh();
        }
        let (memory, from) = (self.memory, self.next);
        let word = access.offset >> memory.bus_log2 << memory.bus_log2;
        let place = memory.map.to_coordinates(word);
        let Timing { trcd, trp, tras, trc, cwl, burst, twr, read_to_precharge, .. } = self.timing;
        let (kind, recovery) = match access.direction {
            Direction::Read => (CommandKind::Read, read_to_precharge),
            Direction::Write => (CommandKind::Write, cwl + burst + twr),
        };
        let column = column_pins(memory.generation, place.column, memory.bits(Axis::Column));
        let transfer = from + trcd;
        let close = (from + tras).max(transfer + recovery);
        for (clock, kind, a) in [
            (from, CommandKind::Activate, place.row),
            (transfer, kind, column),
            (close, CommandKind::Precharge, 0),
        ] {
            self.issue(clock, Command { kind, ba: place.bank as u8, a }, 1 << place.rank);
        }
        self.next = (close + trp).max(from + trc);
    }

    /// Ends the bus. Returns the lines of all commands, and the clock at which the effects of the
    /// last command end.
    pub fn finish(self) -> (Vec<u8>, u64) {
        (self.lines, self.next)
    }

    fn refresh(&mut self) {
        self.issue_to_all(CommandKind::Refresh, 0);
        self.next += self.timing.trfc - 1;
        self.refresh_due += self.timing.trefi;
    }

    /// Issues a command to all ranks at the next clock.
    fn issue_to_all(&mut self, kind: CommandKind, a: u32) {
        let ranks = (1 << self.memory.ranks()) - 1;
        self.issue(self.next, Command { kind, ba: 0, a }, ranks);
        self.next += 1;
    }

    fn issue(&mut self, clock: u64, command: Command, ranks: u8) {
        let pins = self.memory.pins(command, ranks);
        self.lines.extend_from_slice(Line::of_command(self.memory, clock, &pins).as_bytes());
    }
}
