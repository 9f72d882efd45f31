//! Models what a card must see on the pins: accesses, protocol faults and the burst length, by
//! `docs/format.md`. For a rule that depends on time, the model stores the clock of the earlier
//! command.

use std::collections::VecDeque;

use hmtt_format::address_map::Axis;
use hmtt_format::command::mirror;
use hmtt_format::{
    Access, Command, CommandKind, Coordinates, Cycles, Direction, Event, FaultKind, Generation,
    MemoryDescription, PhysAddr, Pins,
};

const BANKS: usize = 16;

/// State of the row that an access needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The row was used by an earlier access.
    Hit,
    /// This is the first access of the row, and the bank was closed when the row was opened.
    Miss,
    /// This is the first access of the row, and a PRECHARGE of this bank alone had closed another
    /// row before.
    Conflict,
}

/// The event of one clock: an access or a fault, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An access, its outcome, and rank * 16 + bank.
    Access(Access, Outcome, u8),
    /// A fault.
    Fault(Event),
}

#[derive(Clone, Copy, Default)]
struct Bank {
    /// Row and the clock of its ACTIVATE.
    open: Option<(u32, u64)>,
    /// Whether the open row has been used.
    used: bool,
    /// Whether a PRECHARGE of this bank alone closed the row before, with no PRECHARGE ALL or
    /// REFRESH since.
    conflict: bool,
    /// Clock of the PRECHARGE that closed the bank, if it is the bank's last command.
    precharged: Option<u64>,
}

#[derive(Clone, Default)]
struct Rank {
    banks: [Bank; BANKS],
    /// The kind of fault that a command is before the given clock.
    blocked: Option<(FaultKind, u64)>,
    sleeping: bool,
    /// Clock of the last REFRESH, if another one is due.
    refreshed: Option<u64>,
}

/// A command with the ranks that it selects, lowest first.
struct Order {
    kind: CommandKind,
    ranks: Vec<usize>,
    /// Ranks that enter self refresh with this command.
    asleep: Vec<usize>,
    ba: u8,
    a: u32,
}

/// The model of the pins.
#[derive(Clone)]
pub struct PinReader {
    memory: MemoryDescription,
    clock: u64,
    cke: Option<u8>,
    ranks: Vec<Rank>,
    /// Burst length that the mode register selects; 0: on the fly.
    length: Option<u32>,
    /// A tRCD fault that is reported at the next clock without an access.
    waiting: Option<Event>,
    overdue: VecDeque<u8>,
    /// Whether the command of the last clock was a fault.
    pub faulty: bool,
    /// Number of faults that were dropped because an earlier one was still waiting.
    pub unreported: u64,
}

impl PinReader {
    /// The state before the first clock.
    pub fn new(memory: &MemoryDescription) -> Self {
        PinReader {
            ranks: vec![Rank::default(); memory.ranks().into()],
            memory: memory.clone(),
            clock: 0,
            cke: None,
            length: None,
            waiting: None,
            overdue: VecDeque::new(),
            faulty: false,
            unreported: 0,
        }
    }

    /// Returns the open row of a bank.
    pub fn open_row(&self, rank: u8, bank: u8) -> Option<u32> {
        self.ranks[usize::from(rank)].banks[usize::from(bank)].open.map(|(row, _)| row)
    }

    /// Number of clocks so far.
    pub const fn clocks(&self) -> u64 {
        self.clock
    }

    /// The burst length in force, or `None` for on the fly.
    pub fn burst_length(&self) -> Option<u8> {
        let words = if self.memory.burst_from_mode_register { self.length } else { None };
        Some(words.unwrap_or(self.memory.burst_length.into()) as u8).filter(|words| *words != 0)
    }

    /// Applies one clock and returns its event, if any.
    pub fn clock(&mut self, pins: Pins) -> Option<Seen> {
        let before = self.cke.replace(pins.cke).unwrap_or(pins.cke);
        self.note_overdue();
        let order = self.order(pins, before);
        let (mut access, mut fault) = (None, None);
        if let Some(order) = &order {
            (access, fault) = self.obey(order);
        }
        for rank in 0..self.ranks.len() {
            if before >> rank & 1 == 0 && pins.cke >> rank & 1 != 0 {
                self.wake(rank);
            }
        }
        self.faulty = fault.is_some();
        let lowest = order.as_ref().map_or(0, |order| (order.ranks[0] as u8) << 4 | order.ba);
        let seen = self.place(access, fault.map(|kind| self.fault(kind, lowest)));
        self.clock += 1;
        seen
    }

    /// Returns the event of this clock. If there is an access, the fault waits for a later clock
    /// without an event; if another fault already waits, it is counted as unreported.
    fn place(&mut self, access: Option<Seen>, fault: Option<Event>) -> Option<Seen> {
        if access.is_some() {
            self.unreported += u64::from(self.waiting.is_some() && fault.is_some());
            self.waiting = self.waiting.take().or(fault);
            return access;
        }
        let clock = Cycles(self.clock);
        let late = |waiting| match waiting {
            Event::Fault { kind, bank, .. } => Event::Fault { clock, kind, bank },
            other => other,
        };
        let fault = fault.or_else(|| self.waiting.take().map(late)).or_else(|| {
            let rank = self.overdue.pop_front()?;
            Some(self.fault(FaultKind::RefreshOverdue, rank << 4))
        });
        fault.map(Seen::Fault)
    }

    fn fault(&self, kind: FaultKind, bank: u8) -> Event {
        Event::Fault { clock: Cycles(self.clock), kind, bank }
    }

    fn note_overdue(&mut self) {
        let limit = u64::from(self.memory.refresh_limit_clocks);
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if limit != 0 && rank.refreshed.is_some_and(|at| self.clock - at > limit) {
                rank.refreshed = None;
                if !self.overdue.contains(&(number as u8)) {
                    self.overdue.push_back(number as u8);
                }
            }
        }
        self.overdue.make_contiguous().sort_unstable();
    }

    fn order(&self, pins: Pins, before: u8) -> Option<Order> {
        let count = self.ranks.len();
        let ranks: Vec<usize> =
            (0..count).filter(|r| pins.cs_n >> r & 1 == 0 && before >> r & 1 != 0).collect();
        let first = *ranks.first()?;
        let bank_bits = self.memory.bits(Axis::Bank);
        let mut straight = Pins { cke: 0xf, ..pins };
        if self.memory.mirror_odd_ranks && ranks.iter().all(|rank| rank % 2 != 0) {
            (straight.ba, straight.a) = mirror(self.memory.generation, bank_bits, pins.ba, pins.a);
        }
        let command = Command::decode_rank(self.memory.generation, straight, first as u8, true);
        if matches!(command.kind, CommandKind::Nop | CommandKind::Deselect) {
            return None;
        }
        let asleep: Vec<usize> =
            ranks.iter().copied().filter(|rank| pins.cke >> rank & 1 == 0).collect();
        let mut kind = command.kind;
        if !asleep.is_empty() && kind != CommandKind::Refresh {
            kind = CommandKind::Reserved;
        }
        let ba = command.ba & ((1 << bank_bits) - 1);
        Some(Order { kind, ranks, asleep, ba, a: command.a })
    }

    fn obey(&mut self, order: &Order) -> (Option<Seen>, Option<FaultKind>) {
        use CommandKind::*;
        let clock = self.clock;
        let blocked = order
            .ranks
            .iter()
            .filter_map(|rank| self.ranks[*rank].blocked)
            .find_map(|(kind, until)| (clock < until).then_some(kind));
        let banks = 1 << self.memory.bits(Axis::Bank);
        let trp = u64::from(self.memory.trp_clocks);
        let chosen_banks = || order.ranks.iter().flat_map(|rank| &self.ranks[*rank].banks[..banks]);
        let any_open = chosen_banks().any(|bank| bank.open.is_some());
        let in_rp = chosen_banks().any(|bank| bank.precharged.is_some_and(|at| clock < at + trp));
        let closed = |kind| {
            if any_open { Some(kind) } else { in_rp.then_some(FaultKind::CommandInRp) }
        };
        let mut access = None;
        let fault = match order.kind {
            Activate => self.activate(order),
            Read | Write => {
                let (column_access, fault) = self.column(order);
                access = column_access;
                fault
            }
            Precharge | PrechargeAll => {
                self.precharge(order);
                None
            }
            Refresh => {
                order.ranks.iter().for_each(|rank| self.refresh(*rank, order));
                closed(FaultKind::RefreshOpen)
            }
            ModeRegisterSet => {
                if !any_open && blocked.is_none() && order.ba == 0 {
                    self.length = named(self.memory.generation, order.a).or(self.length);
                }
                order.ranks.iter().for_each(|rank| self.set_mode(*rank));
                closed(FaultKind::ModeRegisterOpen)
            }
            ZqCalibration => closed(FaultKind::ZqOpen),
            Reserved => Some(FaultKind::Reserved),
            _ => None,
        };
        (access, blocked.or(fault))
    }

    fn activate(&mut self, order: &Order) -> Option<FaultKind> {
        let trp = u64::from(self.memory.trp_clocks);
        let several = order.ranks.len() > 1;
        let mut fault = None;
        for rank in &order.ranks {
            let rank = &mut self.ranks[*rank];
            let blocked = rank.blocked.is_some_and(|(_, until)| self.clock < until);
            let bank = &mut rank.banks[usize::from(order.ba)];
            if bank.open.is_some() {
                fault = Some(FaultKind::ActivateOpen);
                *bank = Bank::default();
                continue;
            }
            if bank.precharged.is_some_and(|at| self.clock < at + trp) {
                fault = fault.or(Some(FaultKind::CommandInRp));
            }
            let opens = !blocked && !several;
            let open = opens.then_some((order.a, self.clock));
            *bank = Bank { open, conflict: bank.conflict, ..Bank::default() };
        }
        if several { Some(FaultKind::MultiRank) } else { fault }
    }

    fn column(&mut self, order: &Order) -> (Option<Seen>, Option<FaultKind>) {
        let write = order.kind == CommandKind::Write;
        let rank = order.ranks[0];
        let bank = self.ranks[rank].banks[usize::from(order.ba)];
        let verdict = match bank.open {
            _ if order.ranks.len() > 1 => (None, Some(FaultKind::MultiRank)),
            None => (None, Some(if write { FaultKind::WriteIdle } else { FaultKind::ReadIdle })),
            Some((row, opened)) => {
                let early = self.clock < opened + u64::from(self.memory.trcd_clocks);
                self.ranks[rank].banks[usize::from(order.ba)].used = true;
                let outcome = match bank {
                    Bank { used: true, .. } => Outcome::Hit,
                    Bank { conflict: true, .. } => Outcome::Conflict,
                    _ => Outcome::Miss,
                };
                let number = (rank as u8) << 4 | order.ba;
                let access = Seen::Access(self.access(order, row, write), outcome, number);
                (Some(access), early.then_some(FaultKind::ColumnInRcd))
            }
        };
        if order.a >> 10 & 1 != 0 {
            for rank in &order.ranks {
                let bank = &mut self.ranks[*rank].banks[usize::from(order.ba)];
                bank.conflict = false;
                if bank.open.is_some() {
                    *bank = Bank::default();
                }
            }
        }
        verdict
    }

    fn access(&self, order: &Order, row: u32, write: bool) -> Access {
        let memory = &self.memory;
        let mut a = order.a;
        if memory.burst_from_mode_register {
            let words = match self.length.unwrap_or(memory.burst_length.into()) {
                0 if a >> 12 & 1 != 0 => 8,
                0 => 4,
                words => words,
            };
            a &= !(words - 1);
        }
        let command = Command { kind: order.kind, ba: order.ba, a };
        let place = Coordinates {
            rank: order.ranks[0] as u32,
            bank: order.ba.into(),
            row: row & ((1 << memory.bits(Axis::Row)) - 1),
            column: command.column(memory.generation, memory.bits(Axis::Column)),
        };
        let address = PhysAddr(memory.map.to_address(place));
        Access { clock: Cycles(self.clock), direction: Direction::from_bit(write), address }
    }

    fn precharge(&mut self, order: &Order) {
        let bank = usize::from(order.ba);
        let closes_all = order.kind == CommandKind::PrechargeAll;
        let closed_banks = if closes_all { 0..BANKS } else { bank..bank + 1 };
        for rank in &order.ranks {
            for bank in &mut self.ranks[*rank].banks[closed_banks.clone()] {
                bank.conflict &= !closes_all;
                if bank.open.is_some() {
                    let precharged = Some(self.clock);
                    *bank = Bank { precharged, conflict: !closes_all, ..Bank::default() };
                }
            }
        }
    }

    fn refresh(&mut self, number: usize, order: &Order) {
        let clock = self.clock;
        let rank = &mut self.ranks[number];
        let open = rank.banks.iter().any(|bank| bank.open.is_some());
        for bank in &mut rank.banks {
            bank.conflict = false;
            if bank.open.is_some() {
                *bank = Bank::default();
            }
        }
        if order.asleep.contains(&number) {
            rank.sleeping = true;
            rank.refreshed = None;
            return;
        }
        if !open {
            let until = clock + u64::from(self.memory.trfc_clocks);
            rank.blocked = Some((FaultKind::CommandInRfc, until));
        }
        rank.refreshed = Some(clock);
    }

    fn set_mode(&mut self, number: usize) {
        let until = self.clock + u64::from(self.memory.tmrd_clocks);
        let rank = &mut self.ranks[number];
        let free = rank.blocked.is_none_or(|(_, until)| self.clock >= until);
        if free && rank.banks.iter().all(|bank| bank.open.is_none()) {
            rank.blocked = Some((FaultKind::CommandInMrd, until));
        }
    }

    fn wake(&mut self, number: usize) {
        let rank = &mut self.ranks[number];
        if std::mem::take(&mut rank.sleeping) {
            let until = self.clock + u64::from(self.memory.txs_clocks);
            rank.blocked = Some((FaultKind::CommandInXs, until));
            rank.refreshed = Some(self.clock);
        }
    }
}

/// The burst length that a mode register selects, 0 for on the fly.
fn named(generation: Generation, a: u32) -> Option<u32> {
    match (generation, a & 7) {
        (Generation::Ddr1, 1) => Some(2),
        (Generation::Ddr1 | Generation::Ddr2, 2) => Some(4),
        (Generation::Ddr1 | Generation::Ddr2, 3) => Some(8),
        (Generation::Ddr1 | Generation::Ddr2, _) => None,
        (_, code) => [Some(8), Some(0), Some(4), None][(code & 3) as usize],
    }
}
