//! Checks the distances between DDR commands, each command with all recent ones, by a table of
//! pairs.

use std::collections::VecDeque;

use hmtt_format::address_map::Axis;
use hmtt_format::command::mirror;
use hmtt_format::timing::Timing;
use hmtt_format::{
    Access, Command, CommandKind, Coordinates, Cycles, Direction, Generation, MemoryDescription,
    PhysAddr, Pins,
};

/// Shortest distances in clocks, with JEDEC's names. Those of `_l` are within a bank group.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub cl: u64,
    pub cwl: u64,
    pub burst: u64,
    /// Clocks of the data bus between read data and write data.
    pub turn: u64,
    pub tccd: [u64; 2],
    pub trcd: u64,
    pub trp: u64,
    pub trpa: u64,
    pub tras: u64,
    pub trc: u64,
    pub trrd: [u64; 2],
    pub tfaw: u64,
    pub twr: u64,
    pub twtr: [u64; 2],
    pub read_to_precharge: u64,
    pub trfc: u64,
    pub trefi: u64,
    pub tmrd: u64,
    pub tmod: u64,
}

impl From<&Timing> for Rules {
    fn from(timing: &Timing) -> Self {
        let Timing { cl, cwl, burst, trcd, trp, trpa, tras, trc, tfaw, twr, .. } = *timing;
        Rules {
            cl,
            cwl,
            burst,
            turn: 1,
            tccd: [timing.tccd, timing.tccd_l],
            trcd,
            trp,
            trpa,
            tras,
            trc,
            trrd: [timing.trrd, timing.trrd_l],
            tfaw,
            twr,
            twtr: [timing.twtr, timing.twtr_l],
            read_to_precharge: timing.read_to_precharge,
            trfc: timing.trfc,
            trefi: timing.trefi,
            tmrd: timing.tmrd,
            tmod: timing.tmod,
        }
    }
}

/// A command to one rank.
#[derive(Clone, Copy, Debug)]
struct Seen {
    clock: u64,
    kind: CommandKind,
    rank: u8,
    bank: u8,
    auto: bool,
    /// Clock of the ACTIVATE of the row, of a READ or WRITE.
    opened: u64,
}

/// The checker.
pub struct Legality {
    memory: MemoryDescription,
    rules: Rules,
    /// Open row of each bank and the clock of its ACTIVATE, by rank * 16 + bank.
    rows: Vec<Option<(u32, u64)>>,
    recent: VecDeque<Seen>,
    last: Option<u64>,
    last_refresh: Option<u64>,
    pub accesses: Vec<Access>,
    pub refreshes: u64,
}

/// Clocks for which commands are remembered: more than any distance but tREFI.
const REMEMBERED: u64 = 1500;

impl Legality {
    pub fn new(memory: &MemoryDescription, rules: Rules) -> Self {
        Legality {
            memory: memory.clone(),
            rules,
            rows: vec![None; 64],
            recent: VecDeque::new(),
            last: None,
            last_refresh: None,
            accesses: Vec::new(),
            refreshes: 0,
        }
    }

    /// Checks the command of a clock.
    ///
    /// # Panics
    /// If it is not legal.
    pub fn check(&mut self, clock: u64, pins: Pins) {
        assert!(self.last.is_none_or(|last| clock > last), "two commands at {clock}");
        self.last = Some(clock);
        let selected: Vec<u8> =
            (0..self.memory.ranks()).filter(|rank| pins.cs_n >> rank & 1 == 0).collect();
        for rank in &selected {
            let mut own = pins;
            if self.memory.mirror_odd_ranks && rank % 2 != 0 {
                let bits = self.memory.bits(Axis::Bank);
                (own.ba, own.a) = mirror(self.memory.generation, bits, pins.ba, pins.a);
            }
            let command = Command::decode_rank(self.memory.generation, own, *rank, true);
            self.command(clock, *rank, command);
        }
        if let Some(rank) = selected.first() {
            let kind = self.recent.back().expect("a command").kind;
            assert!(kind != CommandKind::Activate || selected.len() == 1, "{rank}");
        }
    }

    fn command(&mut self, clock: u64, rank: u8, command: Command) {
        use CommandKind::*;
        let index = usize::from(rank) * 16 + usize::from(command.ba);
        let opened = self.rows[index].map_or(0, |(_, at)| at);
        let auto = matches!(command.kind, Read | Write) && command.auto_precharge();
        let seen = Seen { clock, kind: command.kind, rank, bank: command.ba, auto, opened };
        while self.recent.front().is_some_and(|old| old.clock + REMEMBERED < clock) {
            self.recent.pop_front();
        }
        for before in self.recent.iter().filter(|before| before.clock < clock) {
            let least = self.least(before, &seen);
            assert!(clock >= before.clock + least, "{before:?} {seen:?}: not {least} clocks");
        }
        let of_rank = usize::from(rank) * 16..usize::from(rank) * 16 + 16;
        let all_closed = self.rows[of_rank.clone()].iter().all(Option::is_none);
        match command.kind {
            Activate => {
                assert!(self.rows[index].is_none(), "{seen:?}: a row is open");
                self.four_activates(clock, rank);
                let row = command.a & ((1 << self.memory.bits(Axis::Row)) - 1);
                self.rows[index] = Some((row, clock));
            }
            Read | Write => {
                let row = self.rows[index].expect("an open row").0;
                self.accesses.push(self.access(clock, rank, command, row));
                if auto {
                    self.rows[index] = None;
                }
            }
            Precharge => self.rows[index] = None,
            PrechargeAll => self.rows[of_rank].fill(None),
            Refresh => {
                assert!(all_closed, "{seen:?}: a row is open");
                if let Some(last) = self.last_refresh.filter(|last| *last != clock) {
                    assert!(clock - last <= 2 * self.rules.trefi, "{seen:?}: late refresh");
                }
                self.refreshes += u64::from(rank == 0);
                self.last_refresh = Some(clock);
            }
            ModeRegisterSet | ZqCalibration => assert!(all_closed, "{seen:?}: a row is open"),
            kind => panic!("{kind:?} at {clock}"),
        }
        self.recent.push_back(seen);
    }

    fn four_activates(&self, clock: u64, rank: u8) {
        let newest_first = self.recent.iter().rev();
        let fourth =
            newest_first.filter(|old| old.kind == CommandKind::Activate && old.rank == rank).nth(3);
        if let Some(fourth) = fourth {
            assert!(clock >= fourth.clock + self.rules.tfaw, "tFAW at {clock}");
        }
    }

    fn access(&self, clock: u64, rank: u8, command: Command, row: u32) -> Access {
        let place = Coordinates {
            rank: rank.into(),
            bank: command.ba.into(),
            row,
            column: command.column(self.memory.generation, self.memory.bits(Axis::Column)),
        };
        let write = command.kind == CommandKind::Write;
        Access {
            clock: Cycles(clock),
            direction: Direction::from_bit(write),
            address: PhysAddr(self.memory.map.to_address(place)),
        }
    }

    /// The shortest distance of two commands.
    fn least(&self, before: &Seen, now: &Seen) -> u64 {
        use CommandKind::*;
        let rules = &self.rules;
        let rank = before.rank == now.rank;
        let bank = rank && before.bank == now.bank;
        let grouped = self.memory.generation == Generation::Ddr4;
        let group = usize::from(!grouped || before.bank >> 2 == now.bank >> 2);
        let closes = match now.kind {
            Precharge => bank,
            PrechargeAll => rank,
            _ => false,
        };
        let needs_closed = match now.kind {
            Activate => bank,
            Refresh | ModeRegisterSet | ZqCalibration => rank,
            _ => false,
        };
        match (before.kind, now.kind) {
            (Activate, Activate) if bank => rules.trc,
            (Activate, Activate) if rank => rules.trrd[group],
            (Activate, Refresh) if rank => rules.trc,
            (Activate, Read | Write) if bank => rules.trcd,
            (Activate, _) if closes => rules.tras,
            (Precharge, _) if needs_closed => rules.trp,
            (PrechargeAll, Activate | Refresh | ModeRegisterSet | ZqCalibration) if rank => {
                rules.trpa
            }
            (Read | Write, _) if before.auto && needs_closed => {
                let ready = before.clock + self.recovery(before.kind);
                ready.max(before.opened + rules.tras) + rules.trp - before.clock
            }
            (Read | Write, _) if closes => self.recovery(before.kind),
            (Read, Read) | (Write, Write) if rank => rules.tccd[group],
            (Read, Read) | (Write, Write) => rules.burst + 1,
            (Write, Read) if rank => rules.cwl + rules.burst + rules.twtr[group],
            (Write, Read) => (rules.cwl + rules.burst + 1).saturating_sub(rules.cl),
            (Read, Write) => (rules.cl + rules.burst + rules.turn).saturating_sub(rules.cwl),
            (Refresh, _) if rank => rules.trfc,
            (ModeRegisterSet, ModeRegisterSet) if rank => rules.tmrd,
            (ModeRegisterSet, _) if rank => rules.tmod,
            _ => 1,
        }
    }

    /// Clocks from a READ or WRITE to a PRECHARGE.
    fn recovery(&self, kind: CommandKind) -> u64 {
        let Rules { cwl, burst, twr, read_to_precharge, .. } = self.rules;
        if kind == CommandKind::Read { read_to_precharge } else { cwl + burst + twr }
    }
}
