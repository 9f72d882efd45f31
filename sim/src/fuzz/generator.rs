//! Generates pins from a seed: commands of every kind to any ranks, a given share of illegal ones,
//! changes of CKE, and occasionally the accesses by which software configures a card.

use std::collections::VecDeque;

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, ALL_RANKS, column_pins, encode_to, mirror};
use hmtt_format::config::{self, register_address};
use hmtt_format::{Command, CommandKind, Coordinates, Generation, MemoryDescription, Pins};

use super::pin_reader::PinReader;

/// Random numbers by SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % limit
    }
}

/// Number of attempts to find a legal command. If all fail, the clock stays without a command.
const TRIES: usize = 4;
/// Range in bus words of accesses near each other: one or two lines.
const LINE_WORDS: u64 = 16;
/// Clocks after which every minimum distance has passed.
const LONG: u64 = 60;

/// A READ or WRITE and its address.
struct Column {
    kind: CommandKind,
    ranks: u8,
    ba: u8,
    column: u32,
}

impl Column {
    const FIRST: Column = Column { kind: CommandKind::Read, ranks: 1, ba: 0, column: 0 };
}

/// Generates the commands of one case.
pub struct Generator {
    memory: MemoryDescription,
    numbers: Numbers,
    /// Percentage of commands that may be illegal.
    illegal: u64,
    /// Commands that are queued, each with the number of empty clocks before it.
    script: VecDeque<(u64, Pins)>,
    cke: u8,
    last_row: u32,
    /// The last READ or WRITE.
    last: Column,
}

impl Generator {
    /// Creates a generator. `illegal`: percentage of commands that may be illegal.
    pub fn new(memory: &MemoryDescription, seed: u64, illegal: u64) -> Self {
        let numbers = Numbers(seed);
        let (memory, script) = (memory.clone(), VecDeque::new());
        Generator {
            memory,
            numbers,
            illegal,
            script,
            cke: ALL_RANKS,
            last_row: 0,
            last: Column::FIRST,
        }
    }

    /// Returns the next command and the number of empty clocks before it. `reader` must have seen
    /// all earlier commands.
    pub fn next(&mut self, reader: &PinReader) -> (u64, Pins) {
        if let Some(next) = self.script.pop_front() {
            return next;
        }
        match self.numbers.below(400) {
            0 => self.configure(),
            1..=4 => self.refresh_all(),
            _ => {}
        }
        if let Some(next) = self.script.pop_front() {
            return next;
        }
        // Dense and sparse stretches alternate, so that the link carries the records on average.
        let gap = match self.numbers.below(8) {
            0..=4 => self.numbers.below(3),
            5 | 6 => self.numbers.below(12),
            _ => self.numbers.below(40),
        };
        let free = self.numbers.below(100) < self.illegal;
        for _ in 0..TRIES {
            let (pins, cke) = self.anything(reader);
            if free || self.is_legal(reader, gap, pins) {
                self.cke = cke;
                return (gap, pins);
            }
        }
        (gap, Pins { cke: self.cke, ..Pins::DESELECT })
    }

    fn is_legal(&self, reader: &PinReader, gap: u64, pins: Pins) -> bool {
        let mut trial = reader.clone();
        for _ in 0..gap {
            trial.clock(Pins { cke: self.cke, ..Pins::DESELECT });
        }
        trial.clock(pins);
        !trial.faulty
    }

    fn ranks(&self) -> u8 {
        (1 << self.memory.ranks()) - 1
    }

    /// Returns a command of any kind, and the CKE that stays after it.
    fn anything(&mut self, reader: &PinReader) -> (Pins, u8) {
        use CommandKind::*;
        let rank = self.numbers.below(self.memory.ranks().into()) as u8;
        let mut ranks = 1 << rank;
        if self.numbers.below(20) == 0 {
            ranks = (1 + self.numbers.below(self.ranks().into())) as u8;
        }
        let mut kind = match self.numbers.below(64) {
            0..=11 => Activate,
            12..=31 => Read,
            32..=47 => Write,
            48..=52 => Precharge,
            53 => PrechargeAll,
            54 | 55 => Refresh,
            56 => ModeRegisterSet,
            57 => BurstTerminate,
            58 => Nop,
            59 => SelfRefreshEntry,
            60 | 61 => return self.clock_enable(ranks),
            62 => return (self.noise(), self.cke),
            _ => Precharge,
        };
        let mut ba = self.numbers.below(1 << self.memory.bits(Axis::Bank)) as u8;
        if matches!(kind, Read | Write | Precharge) && self.numbers.below(8) != 0 {
            ba = self.open_bank(reader, rank).unwrap_or(ba);
        }
        if matches!(kind, Read | Write) {
            self.near_or_far(Column { kind, ranks, ba, column: 0 });
            Column { kind, ranks, ba, .. } = self.last;
        }
        let a = self.address(kind);
        let mut pins = self.pins(Command { kind, ba, a }, ranks);
        pins.cke &= self.cke;
        if kind == SelfRefreshEntry {
            return (pins, pins.cke);
        }
        (Pins { cke: self.cke, ..pins }, self.cke)
    }

    /// Chooses the next READ or WRITE. Half of the time it is `next`, with a random column.
    /// Otherwise it is the last READ or WRITE, with a column near the last one, because the bursts
    /// of a line follow each other.
    fn near_or_far(&mut self, next: Column) {
        if self.numbers.below(2) == 0 {
            self.last.column ^= self.numbers.below(LINE_WORDS) as u32;
        } else {
            let column = self.numbers.below(1 << self.memory.bits(Axis::Column)) as u32;
            self.last = Column { column, ..next };
        }
    }

    fn open_bank(&mut self, reader: &PinReader, rank: u8) -> Option<u8> {
        let banks = 1 << self.memory.bits(Axis::Bank);
        let first = self.numbers.below(banks) as u8;
        (0..banks as u8)
            .map(|at| (first + at) % banks as u8)
            .find(|bank| reader.open_row(rank, *bank).is_some())
    }

    fn address(&mut self, kind: CommandKind) -> u32 {
        let bits = self.memory.bits(Axis::Column);
        match kind {
            CommandKind::Activate => {
                // A few rows are used often, so that page runs and register accesses occur.
                if self.numbers.below(2) == 0 {
                    self.last_row = self.numbers.below(1 << self.memory.bits(Axis::Row)) as u32;
                }
                self.last_row
            }
            CommandKind::Read | CommandKind::Write => {
                let column = self.last.column;
                let chop = (self.numbers.below(2) as u32) << 12;
                let auto = if self.numbers.below(8) == 0 { A10 } else { 0 };
                let pins = column_pins(self.memory.generation, column, bits);
                let free = self.memory.generation >= Generation::Ddr3;
                pins | auto | if free { chop } else { 0 }
            }
            CommandKind::PrechargeAll => A10,
            CommandKind::ModeRegisterSet => self.numbers.below(8) as u32,
            _ => 0,
        }
    }

    /// Raises CKE of all ranks if CKE of any rank is low; otherwise lowers CKE of `ranks`. The
    /// other pins are deselected.
    fn clock_enable(&mut self, ranks: u8) -> (Pins, u8) {
        let asleep = !self.cke & self.ranks();
        // All ranks leave power-down together, so each rank is in power-down for a short time only.
        let cke = if asleep != 0 { self.cke | ranks | asleep } else { self.cke & !ranks };
        (Pins { cke, ..Pins::DESELECT }, cke)
    }

    /// Returns random levels on the command pins that the generation has.
    fn noise(&mut self) -> Pins {
        let word = self.numbers.below(1 << 40);
        let bit = |at: u32| word >> at & 1 != 0;
        let ddr4 = self.memory.generation.has_act_n();
        let absent = ALL_RANKS & !self.ranks();
        let address = (1u64 << self.memory.bits(Axis::Row).min(14)) - 1;
        Pins {
            cke: self.cke,
            cs_n: (word >> 4) as u8 & ALL_RANKS | absent,
            act_n: !ddr4 || bit(8),
            ras_n: bit(9),
            cas_n: bit(10),
            we_n: bit(11),
            ba: (word >> 12) as u8 & ((1 << self.memory.bits(Axis::Bank)) - 1),
            a: (word >> 16 & address) as u32,
        }
    }

    fn pins(&self, command: Command, ranks: u8) -> Pins {
        let generation = self.memory.generation;
        let mut pins = encode_to(generation, command, ranks);
        if self.memory.mirror_odd_ranks && ranks & 0b0101 == 0 {
            let bank_bits = self.memory.bits(Axis::Bank);
            (pins.ba, pins.a) = mirror(generation, bank_bits, pins.ba, pins.a);
        }
        pins
    }

    /// Wakes all ranks, closes all banks, and waits until both are done.
    fn settle(&mut self, ranks: u8) {
        self.cke = ALL_RANKS;
        let precharge = Command { kind: CommandKind::PrechargeAll, ba: 0, a: A10 };
        self.script.push_back((LONG, Pins::DESELECT));
        self.script.push_back((LONG, self.pins(precharge, ranks)));
    }

    fn refresh_all(&mut self) {
        let ranks = self.ranks();
        self.settle(ranks);
        let refresh = Command { kind: CommandKind::Refresh, ba: 0, a: 0 };
        self.script.push_back((LONG, self.pins(refresh, ranks)));
        self.script.push_back((LONG, Pins::DESELECT));
    }

    /// Returns the row that was opened last, in any bank.
    pub const fn last_row(&self) -> u32 {
        self.last_row
    }

    /// Whether all queued commands have been issued.
    pub fn idle(&self) -> bool {
        self.script.is_empty()
    }

    /// Queues reads of these addresses as software makes them, each after a number of empty clocks.
    /// Rows are opened as needed.
    pub fn read(&mut self, reads: impl IntoIterator<Item = (u64, u64)>) {
        self.settle(self.ranks());
        let mut open: Option<Coordinates> = None;
        for (gap, address) in reads {
            let place = self.memory.map.to_coordinates(address);
            let Coordinates { rank, bank, row, column } = place;
            let (ranks, ba) = (1 << rank, bank as u8);
            let command = |kind, a| Command { kind, ba, a };
            let there = |open: &Coordinates| Coordinates { column, ..*open } == place;
            let mut gap = gap;
            if !open.as_ref().is_some_and(there) {
                if open.is_some() {
                    self.settle(self.ranks());
                }
                let activate = self.pins(command(CommandKind::Activate, row), ranks);
                self.script.push_back((LONG, activate));
                (open, gap) = (Some(place), LONG);
            }
            let a = column_pins(self.memory.generation, column, self.memory.bits(Axis::Column));
            let read = self.pins(command(CommandKind::Read, a), ranks);
            self.script.push_back((gap, read));
        }
        let precharge = Command { kind: CommandKind::PrechargeAll, ba: 0, a: A10 };
        let close = self.pins(precharge, self.ranks());
        self.script.push_back((LONG, close));
    }

    /// Queues the accesses by which software configures the card.
    fn configure(&mut self) {
        self.settle(self.ranks());
        let commands: Vec<u16> = match self.numbers.below(6) {
            0 => vec![config::STOP, config::START],
            1 => vec![config::MARK_FREE_FIRST + self.numbers.below(256) as u16],
            2 => vec![config::TAG_OFF],
            3 if self.numbers.below(2) == 0 => vec![config::GRANULARITY_LINE],
            3 => vec![config::GRANULARITY_BURST],
            _ => {
                // Ten digits place the window beyond the registers.
                let size = 64 - self.memory.map.named_bits().leading_zeros();
                let base = (1 << 16) + self.numbers.below((1 << size) - (1 << 16));
                let digit = |at: u32| config::TAG_NIBBLE_FIRST + (base >> (4 * at) & 15) as u16;
                let digits = (0..10).rev().map(digit);
                digits.chain([config::TAG_ON]).collect()
            }
        };
        for register in commands {
            let address = register_address(register, self.memory.config_stride_log2);
            self.burst_of_reads(self.memory.map.to_coordinates(address));
        }
    }

    fn burst_of_reads(&mut self, place: Coordinates) {
        let Coordinates { rank, bank, row, column } = place;
        let (ranks, ba) = (1 << rank, bank as u8);
        let command = |kind, a| Command { kind, ba, a };
        let activate = self.pins(command(CommandKind::Activate, row), ranks);
        let bits = self.memory.bits(Axis::Column);
        let a = column_pins(self.memory.generation, column, bits);
        let read = self.pins(command(CommandKind::Read, a), ranks);
        let close = self.pins(command(CommandKind::Precharge, 0), ranks);
        self.script.push_back((LONG, activate));
        for _ in 0..self.memory.config_count {
            let gap = LONG / 6 + self.numbers.below(8);
            self.script.push_back((gap, read));
        }
        // An info frame may follow a command, so sometimes the next traffic comes without a pause.
        let gap = if self.numbers.below(2) == 0 { 0 } else { 5 * LONG };
        self.script.push_back((gap, close));
    }
}
