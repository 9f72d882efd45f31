//! Issues DDR-200 commands for wanted bursts, as close together as JESD79 allows, one clock at a
//! time.
//!
//! Bursts are issued in the order in which they are wanted. ACTIVATE and PRECHARGE for later bursts
//! use the clocks between the READ and WRITE commands, so rows change while data of other rows is
//! transferred. Every 7.8 us all banks are closed for a REFRESH.

use std::collections::VecDeque;

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, column_pins, encode};
use hmtt_format::{
    Access, Command, CommandKind, Coordinates, Cycles, Direction, MemoryDescription, PhysAddr, Pins,
};

use super::pattern::{Note, Pattern, Wanted, WantedBursts};

/// JESD79F, table 11, DDR-200 (tCK 10 ns): in clocks, rounded up.
const TRCD: u64 = 2;
const TRP: u64 = 2;
const TRAS: u64 = 5;
const TRC: u64 = 7;
const TRRD: u64 = 2;
const TWR: u64 = 2;
const TWTR: u64 = 1;
const TRFC: u64 = 8;
/// CAS latency in clocks.
const CL: u64 = 2;
/// 7.8 us in clocks.
const TREFI: u64 = 780;
/// Number of bursts that the controller looks ahead.
const WINDOW: usize = 8;

/// A burst that the controller has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The access. The address is the address of the word that the command names.
    pub access: Access,
    /// Whether the burst is also a tag or the end of a mark.
    pub note: Note,
}

/// One clock of the bus.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The pins at this clock.
    pub pins: Pins,
    /// The burst, if the command at this clock is a READ or WRITE.
    pub issued: Option<Issued>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u32>,
    activate_from: u64,
    column_from: u64,
    precharge_from: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    wanted: Wanted,
    place: Coordinates,
}

/// The memory controller, starting at power-on. As an iterator it never ends.
pub struct Controller {
    memory: MemoryDescription,
    wanted: WantedBursts,
    pending: VecDeque<Pending>,
    banks: [Bank; 4],
    now: u64,
    activate_from: u64,
    last_column: Option<(u64, Direction)>,
    refresh_due: u64,
    idle_until: u64,
}

impl Controller {
    /// Creates a controller for a DDR1 memory of four banks.
    pub fn new(memory: &MemoryDescription, pattern: Pattern, seed: u64) -> Self {
        Controller {
            memory: memory.clone(),
            wanted: WantedBursts::new(memory, pattern, seed),
            pending: VecDeque::new(),
            banks: [Bank::default(); 4],
            now: 0,
            activate_from: 0,
            last_column: None,
            refresh_due: TREFI,
            idle_until: 0,
        }
    }

    const fn burst(&self) -> u64 {
        self.memory.burst_length as u64 / 2
    }

    /// Returns the first clock for a READ or WRITE after the one before, including the turn-around
    /// of the data bus.
    fn column_from(&self, wanted: &Wanted) -> u64 {
        let Some((at, last)) = self.last_column else { return 0 };
        let distance = match (last, wanted.direction) {
            (Direction::Read, Direction::Write) => CL + self.burst(),
            (Direction::Write, Direction::Read) => 1 + self.burst() + TWTR,
            _ => self.burst(),
        };
        at + distance.max(wanted.distance)
    }

    /// Chooses the command for this clock.
    fn choose(&mut self) -> Option<(CommandKind, Coordinates, u32)> {
        if self.now < self.idle_until {
            return None;
        }
        if self.now >= self.refresh_due {
            return self.refresh();
        }
        while self.pending.len() < WINDOW {
            let wanted = self.wanted.next()?;
            let word = wanted.address >> self.memory.bus_log2 << self.memory.bus_log2;
            self.pending.push_back(Pending { wanted, place: self.memory.map.to_coordinates(word) });
        }
        self.column().or_else(|| self.row())
    }

    fn column(&mut self) -> Option<(CommandKind, Coordinates, u32)> {
        let Pending { wanted, place } = *self.pending.front()?;
        let bank = &self.banks[place.bank as usize];
        let from = self.column_from(&wanted).max(bank.column_from);
        if bank.row != Some(place.row) || self.now < from {
            return None;
        }
        let burst = self.burst();
        let (kind, until) = match wanted.direction {
            Direction::Read => (CommandKind::Read, burst),
            Direction::Write => (CommandKind::Write, 1 + burst + TWR),
        };
        let bank = &mut self.banks[place.bank as usize];
        bank.precharge_from = bank.precharge_from.max(self.now + until);
        self.last_column = Some((self.now, wanted.direction));
        let bits = self.memory.bits(Axis::Column);
        Some((kind, place, column_pins(self.memory.generation, place.column, bits)))
    }

    /// Returns an ACTIVATE or a PRECHARGE for the first burst that needs one and does not have to
    /// wait for an earlier burst.
    fn row(&mut self) -> Option<(CommandKind, Coordinates, u32)> {
        let mut claimed_banks = 0u32;
        for Pending { place, .. } in &self.pending {
            let first = claimed_banks >> place.bank & 1 == 0;
            claimed_banks |= 1 << place.bank;
            let bank = &mut self.banks[place.bank as usize];
            if !first || bank.row == Some(place.row) {
                continue;
            }
            if bank.row.is_none() {
                if self.now >= bank.activate_from && self.now >= self.activate_from {
                    bank.row = Some(place.row);
                    bank.column_from = self.now + TRCD;
                    bank.precharge_from = self.now + TRAS;
                    bank.activate_from = self.now + TRC;
                    self.activate_from = self.now + TRRD;
                    return Some((CommandKind::Activate, *place, place.row));
                }
            } else if self.now >= bank.precharge_from {
                bank.row = None;
                bank.activate_from = bank.activate_from.max(self.now + TRP);
                return Some((CommandKind::Precharge, *place, 0));
            }
        }
        None
    }

    fn refresh(&mut self) -> Option<(CommandKind, Coordinates, u32)> {
        let place = Coordinates::default();
        if self.banks.iter().any(|bank| bank.row.is_some()) {
            let from = self.banks.iter().map(|bank| bank.precharge_from).max().unwrap_or(0);
            if self.now < from {
                return None;
            }
            for bank in &mut self.banks {
                bank.row = None;
            }
            self.idle_until = self.now + TRP;
            return Some((CommandKind::PrechargeAll, place, A10));
        }
        self.refresh_due += TREFI;
        self.idle_until = self.now + TRFC;
        Some((CommandKind::Refresh, place, 0))
    }
}

impl Iterator for Controller {
    type Item = Clock;

    fn next(&mut self) -> Option<Clock> {
        let chosen = self.choose();
        let now = self.now;
        self.now += 1;
        let Some((kind, place, a)) = chosen else {
            return Some(Clock { pins: Pins::DESELECT, issued: None });
        };
        let command = Command { kind, ba: place.bank as u8, a };
        let pins = encode(self.memory.generation, command);
        let column = matches!(kind, CommandKind::Read | CommandKind::Write);
        let issued =
            column.then(|| self.pending.pop_front()).flatten().map(|Pending { wanted, .. }| {
                let (direction, address) = (wanted.direction, PhysAddr(wanted.address));
                let access = Access { clock: Cycles(now), direction, address };
                Issued { access, note: wanted.note }
            });
        Some(Clock { pins, issued })
    }
}
