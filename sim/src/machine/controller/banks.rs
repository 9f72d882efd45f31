//! Keeps the row of each bank, and the first clock at which each command to the bank is legal.

use hmtt_format::{Coordinates, Direction, Generation, MemoryDescription};

use hmtt_format::timing::Timing;

/// Number of banks of a rank for which state is kept, whatever the memory has.
const BANKS: usize = 16;
/// ACTIVATEs of a rank that tFAW limits.
const FOUR: usize = 4;

/// State of a bank with respect to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row is open.
    Open,
    /// No row is open.
    Closed,
    /// Another row is open.
    Other,
}

/// The state of the row that a READ or WRITE found, as the card's analysis defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A row that was used before.
    Hit,
    /// A row that was opened in a closed bank, and not used before.
    Miss,
    /// A row for which another row was closed.
    Conflict,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u32>,
    /// Whether the open row was used.
    used: bool,
    /// Whether a PRECHARGE of this bank alone closed the previous row.
    conflict: bool,
    activate_from: u64,
    column_from: u64,
    precharge_from: u64,
}

#[derive(Clone, Debug, Default)]
struct Rank {
    /// First clock for an ACTIVATE after ACTIVATEs of other banks, by bank group: tRRD.
    activate_from: [u64; 4],
    /// For each of the last four ACTIVATEs, the first clock for a fifth one, oldest first: tFAW.
    window: [u64; FOUR],
}

/// The banks of all ranks.
#[derive(Clone, Debug)]
pub struct Banks {
    timing: Timing,
    generation: Generation,
    banks: Vec<Bank>,
    ranks: Vec<Rank>,
}

/// The bank group of a bank of DDR4: the bits above the two bits of the bank address. Other
/// generations have one group, 0.
pub fn group(generation: Generation, bank: u32) -> usize {
    if generation == Generation::Ddr4 { (bank >> 2) as usize & 3 } else { 0 }
}

impl Banks {
    /// Creates closed banks.
    pub fn new(memory: &MemoryDescription, timing: &Timing) -> Self {
        let ranks = usize::from(memory.ranks());
        Banks {
            timing: timing.clone(),
            generation: memory.generation,
            banks: vec![Bank::default(); ranks * BANKS],
            ranks: vec![Rank::default(); ranks],
        }
    }

    /// Number of a bank over all ranks, below 64.
    pub const fn index(&self, place: Coordinates) -> usize {
        place.rank as usize * BANKS + place.bank as usize
    }

    /// State of the bank of `place` with respect to the row of `place`.
    pub fn state(&self, place: Coordinates) -> RowState {
        match self.banks[self.index(place)].row {
            None => RowState::Closed,
            Some(row) if row == place.row => RowState::Open,
            Some(_) => RowState::Other,
        }
    }

    /// First clock for a READ or WRITE after the ACTIVATE of its row.
    pub fn column_from(&self, place: Coordinates) -> u64 {
        self.banks[self.index(place)].column_from
    }

    /// First clock for a PRECHARGE.
    pub fn precharge_from(&self, place: Coordinates) -> u64 {
        self.banks[self.index(place)].precharge_from
    }

    /// First clock for an ACTIVATE.
    pub fn activate_from(&self, place: Coordinates) -> u64 {
        let rank = &self.ranks[place.rank as usize];
        let group = group(self.generation, place.bank);
        self.banks[self.index(place)]
            .activate_from
            .max(rank.activate_from[group])
            .max(rank.window[0])
    }

    /// Opens the row of `place`.
    pub fn activate(&mut self, place: Coordinates, clock: u64) {
        let Timing { trcd, tras, trc, trrd, trrd_l, tfaw, .. } = self.timing;
        let group = group(self.generation, place.bank);
        let rank = &mut self.ranks[place.rank as usize];
        for (other, from) in rank.activate_from.iter_mut().enumerate() {
            *from = clock + if other == group { trrd_l } else { trrd };
        }
        rank.window.rotate_left(1);
        rank.window[FOUR - 1] = clock + tfaw;
        let index = self.index(place);
        let bank = &mut self.banks[index];
        *bank = Bank {
            row: Some(place.row),
            used: false,
            conflict: bank.conflict,
            column_from: clock + trcd,
            precharge_from: clock + tras,
            activate_from: clock + trc,
        };
    }

    /// Closes the row of a bank.
    pub fn precharge(&mut self, place: Coordinates, clock: u64) {
        let index = self.index(place);
        let bank = &mut self.banks[index];
        bank.row = None;
        bank.conflict = true;
        bank.activate_from = bank.activate_from.max(clock + self.timing.trp);
    }

    /// Notes a READ or WRITE. `close`: it has auto-precharge. The device then precharges as soon as
    /// a PRECHARGE would be legal, so tRAS is kept even if the command is early (JESD79F,
    /// JESD79-2F, JESD79-3F, JESD79-4: *auto precharge*).
    pub fn transfer(
        &mut self,
        direction: Direction,
        place: Coordinates,
        clock: u64,
        close: bool,
    ) -> Outcome {
        let Timing { cwl, burst, trp, .. } = self.timing;
        let busy = match (direction, close) {
            (Direction::Read, false) => self.timing.read_to_precharge,
            (Direction::Read, true) => self.timing.read_to_auto_precharge,
            (Direction::Write, false) => cwl + burst + self.timing.twr,
            (Direction::Write, true) => {
                cwl + burst + self.timing.write_recovery.max(self.timing.twr)
            }
        };
        let index = self.index(place);
        let bank = &mut self.banks[index];
        let outcome = match bank {
            Bank { used: true, .. } => Outcome::Hit,
            Bank { conflict: true, .. } => Outcome::Conflict,
            _ => Outcome::Miss,
        };
        bank.used = true;
        bank.precharge_from = bank.precharge_from.max(clock + busy);
        if close {
            bank.row = None;
            bank.conflict = false;
            bank.activate_from = bank.activate_from.max(bank.precharge_from + trp);
        }
        outcome
    }

    /// First clock for a PRECHARGE of all banks, if a row is open. It is also not before an
    /// auto-precharge that has not begun.
    pub fn precharge_all_from(&self) -> Option<u64> {
        let open = self.banks.iter().any(|bank| bank.row.is_some());
        let ready = self.banks.iter().map(|bank| bank.precharge_from).max();
        ready.filter(|_| open)
    }

    /// Closes all rows.
    pub fn precharge_all(&mut self, clock: u64) {
        for bank in &mut self.banks {
            bank.row = None;
            bank.conflict = false;
            bank.activate_from = bank.activate_from.max(clock + self.timing.trpa);
        }
    }

    /// First clock for a REFRESH when all rows are closed.
    pub fn refresh_from(&self) -> u64 {
        self.banks.iter().map(|bank| bank.activate_from).max().unwrap_or(0)
    }

    /// Notes a REFRESH of all ranks.
    pub fn refresh(&mut self, clock: u64) {
        for bank in &mut self.banks {
            bank.conflict = false;
            bank.activate_from = clock + self.timing.trfc;
        }
    }
}
