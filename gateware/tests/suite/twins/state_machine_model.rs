//! Models the DDR state machine: stores the clocks of all events, and derives the verdicts from
//! them.

use gateware::ddr::CommandCode;
use hmtt_format::address_map::Axis;
use hmtt_format::{FaultKind, Generation, MemoryDescription};

/// A command to some ranks.
#[derive(Clone, Copy, Debug)]
pub struct To {
    pub code: CommandCode,
    pub ranks: u8,
    pub cke_falls: u8,
    pub cke_rises: u8,
    pub ba: u64,
    pub a: u64,
}

/// The outcome of a clock. `place`: rank and bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Nothing,
    Access { write: bool, place: (u64, u64), row: u64, a: u64, row_state: u64 },
    Fault { code: u8, place: (u64, u64) },
}

/// The command that closed a bank's row.
#[derive(Clone, Copy, PartialEq)]
enum ClosedBy {
    ItsPrecharge,
    Other,
}

#[derive(Clone, Copy)]
struct Bank {
    /// Row, clock of the ACTIVATE, and whether the row was accessed.
    open: Option<(u64, u64, bool)>,
    closed_by: ClosedBy,
    /// Clock of the PRECHARGE that closed the bank, if it is the bank's last command.
    precharged: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Rank {
    /// The minimum distance that is running, and the clock at which it ends.
    window: Option<(FaultKind, u64)>,
    self_refresh: bool,
    /// Clock of the last REFRESH, while the next one may become overdue.
    refreshed: Option<u64>,
}

/// The model of all banks and ranks.
pub struct Model {
    memory: MemoryDescription,
    banks: Vec<[Bank; 16]>,
    ranks: Vec<Rank>,
    length: Option<u64>,
    put_off: Option<(FaultKind, (u64, u64))>,
    overdue: Vec<u64>,
    unreported: u64,
}

impl Model {
    pub fn new(memory: &MemoryDescription) -> Self {
        let bank = Bank { open: None, closed_by: ClosedBy::Other, precharged: None };
        let ranks = usize::from(memory.ranks());
        Self {
            memory: memory.clone(),
            banks: vec![[bank; 16]; ranks],
            ranks: vec![Rank::default(); ranks],
            length: None,
            put_off: None,
            overdue: Vec::new(),
            unreported: 0,
        }
    }

    pub fn unreported(&self) -> u64 {
        self.unreported
    }

    pub fn take(&mut self, clock: u64, to: To) -> Outcome {
        let to = To { ba: to.ba & ((1 << self.memory.bits(Axis::Bank)) - 1), ..to };
        self.note_overdue(clock);
        let chosen: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| to.ranks >> rank & 1 != 0).collect();
        let (access, fault) = match chosen.first() {
            None => (None, None),
            Some(_) => self.judge(clock, to, &chosen),
        };
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if to.cke_rises >> number & 1 != 0 && rank.self_refresh {
                let until = clock + u64::from(self.memory.txs_clocks);
                rank.window = Some((FaultKind::CommandInXs, until));
                rank.refreshed = Some(clock);
                rank.self_refresh = false;
            }
        }
        self.settle(access, fault, chosen.first().map_or(0, |rank| *rank as u64), to.ba)
    }

    /// A REFRESH or the entry to self refresh on the first clock that is too late is overdue.
    fn note_overdue(&mut self, clock: u64) {
        let limit = u64::from(self.memory.refresh_limit_clocks);
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if limit != 0 && rank.refreshed.is_some_and(|at| clock > at + limit) {
                rank.refreshed = None;
                self.overdue.push(number as u64);
            }
        }
        self.overdue.sort_unstable();
        self.overdue.dedup();
    }

    /// Returns one outcome per clock. Further ones wait.
    fn settle(
        &mut self,
        access: Option<Outcome>,
        fault: Option<FaultKind>,
        rank: u64,
        ba: u64,
    ) -> Outcome {
        let outcome = |kind: FaultKind, place| Outcome::Fault { code: kind.code(), place };
        match (access, fault) {
            (Some(access), None) => access,
            (Some(access), Some(kind)) => {
                match self.put_off {
                    None => self.put_off = Some((kind, (rank, ba))),
                    Some(_) => self.unreported += 1,
                }
                access
            }
            (None, Some(kind)) => outcome(kind, (rank, ba)),
            (None, None) => match self.put_off.take() {
                Some((kind, place)) => outcome(kind, place),
                None if self.overdue.is_empty() => Outcome::Nothing,
                None => outcome(FaultKind::RefreshOverdue, (self.overdue.remove(0), 0)),
            },
        }
    }

    fn judge(
        &mut self,
        clock: u64,
        to: To,
        chosen: &[usize],
    ) -> (Option<Outcome>, Option<FaultKind>) {
        let banks = 1 << self.memory.bits(Axis::Bank);
        let trp = u64::from(self.memory.trp_clocks);
        let is_in_rp =
            |bank: &Bank| bank.precharged.is_some_and(|at| clock < at + trp) && bank.open.is_none();
        let rank_banks = |rank: &usize| self.banks[*rank][..banks].iter();
        let any_open = chosen.iter().any(|rank| rank_banks(rank).any(|bank| bank.open.is_some()));
        let any_in_rp = chosen.iter().any(|rank| rank_banks(rank).any(is_in_rp));
        let window = chosen
            .iter()
            .filter_map(|rank| self.ranks[*rank].window)
            .find(|(_, until)| clock < *until);
        let legal_register = !any_open && window.is_none();
        let closed = |open_kind| match (any_open, any_in_rp) {
            (true, _) => Some(open_kind),
            (false, true) => Some(FaultKind::CommandInRp),
            (false, false) => None,
        };
        let mut access = None;
        let fault = match to.code {
            CommandCode::Activate => self.activate(clock, to, chosen),
            CommandCode::Read | CommandCode::Write => {
                let (column_access, fault) = self.column(clock, to, chosen);
                access = column_access;
                fault
            }
            CommandCode::Refresh => closed(FaultKind::RefreshOpen),
            CommandCode::ModeRegisterSet => closed(FaultKind::ModeRegisterOpen),
            CommandCode::ZqCalibration => closed(FaultKind::ZqOpen),
            CommandCode::Reserved => Some(FaultKind::Reserved),
            _ => None,
        };
        match to.code {
            CommandCode::Precharge => {
                chosen.iter().for_each(|rank| self.precharge(clock, *rank, to.ba as usize));
            }
            CommandCode::PrechargeAll => {
                chosen.iter().for_each(|rank| self.close_all(*rank, Some(clock)));
            }
            CommandCode::Refresh => {
                chosen
                    .iter()
                    .for_each(|rank| self.refresh(clock, *rank, to.cke_falls >> rank & 1 != 0));
            }
            CommandCode::ModeRegisterSet => {
                chosen.iter().for_each(|rank| self.set_mode(clock, *rank));
                if legal_register && to.ba == 0 {
                    self.length = length(self.memory.generation, to.a).or(self.length);
                }
            }
            _ => {}
        }
        (access, window.map(|(kind, _)| kind).or(fault))
    }

    fn activate(&mut self, clock: u64, to: To, chosen: &[usize]) -> Option<FaultKind> {
        let trp = u64::from(self.memory.trp_clocks);
        let mut fault = None;
        for rank in chosen {
            let blocked = self.ranks[*rank].window.is_some_and(|(_, until)| clock < until);
            let bank = &mut self.banks[*rank][to.ba as usize];
            if bank.open.take().is_some() {
                fault = Some(FaultKind::ActivateOpen);
                bank.closed_by = ClosedBy::Other;
            } else {
                if bank.precharged.is_some_and(|at| clock < at + trp) {
                    fault = fault.or(Some(FaultKind::CommandInRp));
                }
                bank.open = (!blocked && chosen.len() == 1).then_some((to.a, clock, false));
            }
            bank.precharged = None;
        }
        if chosen.len() > 1 { Some(FaultKind::MultiRank) } else { fault }
    }

    fn column(
        &mut self,
        clock: u64,
        to: To,
        chosen: &[usize],
    ) -> (Option<Outcome>, Option<FaultKind>) {
        let write = to.code == CommandCode::Write;
        let a = self.start(to.a);
        let trcd = u64::from(self.memory.trcd_clocks);
        let bank = &mut self.banks[chosen[0]][to.ba as usize];
        let mut verdict =
            (None, Some(if write { FaultKind::WriteIdle } else { FaultKind::ReadIdle }));
        if chosen.len() > 1 {
            verdict.1 = Some(FaultKind::MultiRank);
        } else if let Some((row, opened, accessed)) = &mut bank.open {
            let row_state = match (std::mem::replace(accessed, true), bank.closed_by) {
                (true, _) => 0,
                (false, ClosedBy::Other) => 1,
                (false, ClosedBy::ItsPrecharge) => 2,
            };
            let place = (chosen[0] as u64, to.ba);
            verdict.0 = Some(Outcome::Access { write, place, row: *row, a, row_state });
            verdict.1 = (clock < *opened + trcd).then_some(FaultKind::ColumnInRcd);
        }
        if to.a >> 10 & 1 != 0 {
            for rank in chosen {
                let bank = &mut self.banks[*rank][to.ba as usize];
                bank.open = None;
                bank.closed_by = ClosedBy::Other;
            }
        }
        verdict
    }

    fn precharge(&mut self, clock: u64, rank: usize, bank: usize) {
        let bank = &mut self.banks[rank][bank];
        if bank.open.take().is_some() {
            bank.closed_by = ClosedBy::ItsPrecharge;
            bank.precharged = Some(clock);
        }
    }

    fn close_all(&mut self, rank: usize, precharged: Option<u64>) {
        for bank in &mut self.banks[rank] {
            if bank.open.take().is_some() {
                bank.precharged = precharged;
            }
            bank.closed_by = ClosedBy::Other;
        }
    }

    fn refresh(&mut self, clock: u64, rank: usize, cke_falls: bool) {
        let open = self.banks[rank].iter().any(|bank| bank.open.is_some());
        self.close_all(rank, None);
        let rank = &mut self.ranks[rank];
        if cke_falls {
            rank.self_refresh = true;
            rank.refreshed = None;
            return;
        }
        if !open {
            let until = clock + u64::from(self.memory.trfc_clocks);
            rank.window = Some((FaultKind::CommandInRfc, until));
        }
        rank.refreshed = Some(clock);
    }

    fn set_mode(&mut self, clock: u64, rank: usize) {
        let open = self.banks[rank].iter().any(|bank| bank.open.is_some());
        let rank = &mut self.ranks[rank];
        if !open && rank.window.is_none_or(|(_, until)| clock >= until) {
            let until = clock + u64::from(self.memory.tmrd_clocks);
            rank.window = Some((FaultKind::CommandInMrd, until));
        }
    }

    /// Returns the start of the burst that a column selects.
    fn start(&self, a: u64) -> u64 {
        if !self.memory.burst_from_mode_register {
            return a;
        }
        let words = match self.length.unwrap_or(self.memory.burst_length.into()) {
            0 if a >> 12 & 1 == 0 => 4,
            0 => 8,
            words => words,
        };
        a & !(words - 1)
    }
}

/// Returns the burst length that a mode register selects, 0 for on the fly: JESD79 table 2, -2
/// figure on MR, -3 and -4 on MR0.
fn length(generation: Generation, a: u64) -> Option<u64> {
    match (generation, a & 7) {
        (Generation::Ddr1, 1) => Some(2),
        (Generation::Ddr1 | Generation::Ddr2, 2) => Some(4),
        (Generation::Ddr1 | Generation::Ddr2, 3) => Some(8),
        (Generation::Ddr1 | Generation::Ddr2, _) => None,
        (_, code) => [Some(8), Some(0), Some(4), None][code as usize & 3],
    }
}
