//! Builds a legal command stream on the pins from accesses, for tests with their own traffic.
//!
//! Opens and closes rows as needed, keeps JEDEC's distances, and records the accesses as the truth.

use hmtt_format::address_map::Axis;
use hmtt_format::command::{A10, column_pins};
use hmtt_format::config::register_address;
use hmtt_format::{
    Access, Command, CommandKind, Coordinates, Cycles, Direction, MemoryDescription, PhysAddr, Pins,
};

use crate::input::{InputError, Span, Spans};

/// Distances in clocks, unless the memory description has longer ones. They suffice for every speed
/// bin whose tCK is at least 5 ns, and are longer than necessary if tCK is longer.
const TRCD: u64 = 4;
const TRP: u64 = 4;
const TRAS: u64 = 8;
/// Clocks from the last WRITE to a PRECHARGE: write latency, burst and tWR.
const WRITE_TO_PRECHARGE: u64 = 10;
/// Clocks from READ to WRITE and WRITE to READ: bus turn-around.
const TURN: u64 = 6;

/// Number of banks per rank for which state is kept, whatever the memory has.
const BANKS: usize = 16;

fn index(place: Coordinates) -> usize {
    place.rank as usize * BANKS + place.bank as usize
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u32>,
    /// First clock at which the bank may be precharged.
    precharge_from: u64,
}

/// Builds traffic. Each call appends commands; clocks between them are DESELECT.
#[derive(Clone, Debug)]
pub struct Traffic {
    memory: MemoryDescription,
    commands: Vec<(u64, Pins)>,
    truth: Vec<Access>,
    banks: Vec<Bank>,
    next: u64,
    column_from: u64,
    last_direction: Option<Direction>,
}

impl Traffic {
    /// Creates traffic that starts at clock 0 with every bank idle, as after power-up.
    pub fn new(memory: MemoryDescription) -> Self {
        let banks = vec![Bank::default(); usize::from(memory.ranks()) * BANKS];
        Traffic {
            memory,
            commands: Vec::new(),
            truth: Vec::new(),
            banks,
            next: 0,
            column_from: 0,
            last_direction: None,
        }
    }

    /// Adds a READ of the burst that contains `address`, with `address` as its first word.
    pub fn read(&mut self, address: u64) -> &mut Self {
        self.access(Direction::Read, address)
    }

    /// Adds a WRITE of the burst that contains `address`.
    pub fn write(&mut self, address: u64) -> &mut Self {
        self.access(Direction::Write, address)
    }

    /// Adds clocks without commands.
    pub fn idle(&mut self, clocks: u64) -> &mut Self {
        self.next += clocks;
        self
    }

    /// Closes all banks of all ranks and refreshes all ranks at once.
    pub fn refresh(&mut self) -> &mut Self {
        let from = self.banks.iter().map(|bank| bank.precharge_from).max().unwrap_or(0);
        let ranks = (1 << self.memory.ranks()) - 1;
        self.command(CommandKind::PrechargeAll, from, ranks, 0, A10);
        self.banks.fill(Bank::default());
        let refreshed = self.command(CommandKind::Refresh, self.next + self.trp(), ranks, 0, 0);
        self.next = refreshed + u64::from(self.memory.trfc_clocks) + 1;
        self
    }

    /// Adds the READs of a configuration command: one register, read as often as the card requires.
    pub fn configure(&mut self, register: u16) -> &mut Self {
        let address = register_address(register, self.memory.config_stride_log2);
        for _ in 0..self.memory.config_count {
            self.read(address);
        }
        self
    }

    /// Adds any command to rank 0 at the next clock. It does not change the truth.
    pub fn raw(&mut self, command: Command) -> &mut Self {
        self.raw_to(1, command)
    }

    /// Adds any command at the next clock. `ranks` has a bit for each rank. The command changes
    /// neither the truth nor the builder's state of the banks.
    pub fn raw_to(&mut self, ranks: u8, command: Command) -> &mut Self {
        self.command(command.kind, 0, ranks, command.ba, command.a);
        self
    }

    /// Marks every bank as closed, after a raw command that closed them.
    pub fn forget_rows(&mut self) -> &mut Self {
        self.banks.fill(Bank::default());
        self
    }

    /// Returns the accesses so far.
    pub fn truth(&self) -> &[Access] {
        &self.truth
    }

    /// Returns the commands so far, each with its clock.
    pub fn commands(&self) -> &[(u64, Pins)] {
        &self.commands
    }

    /// Returns the number of clocks so far.
    pub const fn clocks(&self) -> u64 {
        self.next
    }

    /// Returns the memory of the traffic.
    pub const fn memory(&self) -> &MemoryDescription {
        &self.memory
    }

    /// Returns the traffic as a recording.
    pub fn spans(&self) -> Spans {
        let mut spans: Vec<Result<Span, InputError>> = Vec::new();
        let mut next = 0;
        let idle = |from: u64, until: u64| {
            (until > from).then_some(Ok(Span { clocks: until - from, pins: Pins::DESELECT }))
        };
        for (clock, pins) in &self.commands {
            spans.extend(idle(next, *clock));
            spans.push(Ok(Span { clocks: 1, pins: *pins }));
            next = clock + 1;
        }
        spans.extend(idle(next, self.next));
        Box::new(spans.into_iter())
    }

    fn access(&mut self, direction: Direction, address: u64) -> &mut Self {
        let word = address >> self.memory.bus_log2 << self.memory.bus_log2;
        let place = self.memory.map.to_coordinates(word);
        self.open(place);
        let turned = self.last_direction.is_some_and(|last| last != direction);
        let from = self.column_from + if turned { TURN } else { 0 };
        let (kind, recovery) = match direction {
            Direction::Read => (CommandKind::Read, TRP),
            Direction::Write => (CommandKind::Write, WRITE_TO_PRECHARGE),
        };
        let a = column_pins(self.memory.generation, place.column, self.memory.bits(Axis::Column));
        let clock = self.command(kind, from, 1 << place.rank, place.bank as u8, a);
        let burst = u64::from(self.memory.burst_length / 2).max(1);
        self.column_from = clock + burst;
        self.last_direction = Some(direction);
        let bank = &mut self.banks[index(place)];
        bank.precharge_from = bank.precharge_from.max(clock + burst + recovery);
        let address = PhysAddr(self.memory.map.to_address(place));
        self.truth.push(Access { clock: Cycles(clock), direction, address });
        self
    }

    /// Opens the row in its bank.
    fn open(&mut self, place: Coordinates) {
        let Bank { row, precharge_from } = self.banks[index(place)];
        if row == Some(place.row) {
            return;
        }
        let (ranks, ba) = (1 << place.rank, place.bank as u8);
        if row.is_some() {
            let clock = self.command(CommandKind::Precharge, precharge_from, ranks, ba, 0);
            self.next = clock + self.trp();
        }
        let clock = self.command(CommandKind::Activate, 0, ranks, ba, place.row);
        self.banks[index(place)] = Bank { row: Some(place.row), precharge_from: clock + TRAS };
        self.next = clock + TRCD.max(self.memory.trcd_clocks.into());
    }

    fn trp(&self) -> u64 {
        TRP.max(self.memory.trp_clocks.into())
    }

    /// Issues a command at the first free clock not before `from`.
    fn command(&mut self, kind: CommandKind, from: u64, ranks: u8, ba: u8, a: u32) -> u64 {
        let clock = self.next.max(from);
        let pins = self.memory.pins(Command { kind, ba, a }, ranks);
        self.commands.push((clock, pins));
        self.next = clock + 1;
        clock
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hmtt_format::toml_memory;
    use proptest::prelude::*;

    /// Returns a DDR-200 memory of 512 MB with 32-byte bursts in 64-byte lines.
    pub(crate) fn memory() -> MemoryDescription {
        toml_memory::parse(
            "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
             [map]\ncolumn = ['p3-p13']\nbank = ['p14^p16', 'p15^p17']\nrow = ['p16-p28']\n",
        )
        .unwrap()
    }

    /// Decodes the pins as a snooper does, independently of the builder. An illegal command panics.
    fn snoop(memory: &MemoryDescription, commands: &[(u64, Pins)]) -> Vec<Access> {
        let mut rows = [None; 64];
        let mut accesses = Vec::new();
        let mut refreshed: Option<u64> = None;
        for (clock, pins) in commands {
            let command = Command::decode(memory.generation, *pins, true);
            assert!(refreshed.is_none_or(|at| clock - at > u64::from(memory.trfc_clocks)));
            let row = &mut rows[usize::from(command.ba)];
            match command.kind {
                CommandKind::Activate => assert_eq!(row.replace(command.a), None),
                CommandKind::Precharge => *row = None,
                CommandKind::PrechargeAll => rows.fill(None),
                CommandKind::Refresh => {
                    assert!(rows.iter().all(Option::is_none));
                    refreshed = Some(*clock);
                }
                CommandKind::Read | CommandKind::Write => {
                    let place = Coordinates {
                        rank: 0,
                        bank: command.ba.into(),
                        row: row.expect("a bank with an open row"),
                        column: command.column(memory.generation, memory.bits(Axis::Column)),
                    };
                    accesses.push(Access {
                        clock: Cycles(*clock),
                        direction: Direction::from_bit(command.kind == CommandKind::Write),
                        address: PhysAddr(memory.map.to_address(place)),
                    });
                }
                other => panic!("{other:?}"),
            }
        }
        accesses
    }

    proptest! {
        #[test]
        fn decoding_the_pins_returns_the_truth(steps in prop::collection::vec((0u8..8, 0u64..1 << 29), 1..200)) {
            let mut traffic = Traffic::new(memory());
            for (step, address) in steps {
                match step {
                    0 => traffic.refresh(),
                    1 => traffic.idle(address & 63),
                    2..=4 => traffic.write(address & 0x3_ffff),
                    _ => traffic.read(address),
                };
            }
            let clocks: Vec<_> = traffic.commands().iter().map(|(clock, _)| *clock).collect();
            prop_assert!(clocks.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(&snoop(&memory(), traffic.commands()), traffic.truth());
            let spanned: u64 = traffic.spans().map(|span| span.unwrap().clocks).sum();
            prop_assert_eq!(spanned, traffic.clocks());
        }
    }

    #[test]
    fn a_configuration_command_repeats_one_address() {
        let mut traffic = Traffic::new(memory());
        traffic.configure(hmtt_format::config::RESET);
        assert_eq!(traffic.truth().len(), 32);
        assert!(traffic.truth().iter().all(|access| access.address == PhysAddr(0x80)));
    }

    #[test]
    fn bursts_of_an_open_row_follow_without_a_gap() {
        let mut traffic = Traffic::new(memory());
        traffic.read(0x1000).read(0x1020).read(0x1048);
        let clocks: Vec<_> = traffic.truth().iter().map(|access| access.clock.0).collect();
        assert_eq!(clocks, [4, 6, 8]);
        assert_eq!(traffic.truth()[2].address, PhysAddr(0x1048));
    }
}
