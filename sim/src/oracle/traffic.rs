//! Generates commands, settings and changes of the run switch from a seed, as hostile as possible.

use hmtt_format::config::{self, DEFAULT_TIMEOUT, Granularity, Mode, register_address};
use hmtt_format::{Coordinates, MemoryDescription, Pins};

use crate::engine::Settings;
use crate::fuzz::generator::{Generator, Numbers};
use crate::fuzz::pin_reader::PinReader;

/// Registers without a function, each next to one that has a function.
const UNUSED: [u16; 8] = [0x00, 0x13, 0x17, 0x33, 0x37, 0x54, 0x62, 0xff];
/// Number of codes of slices that end within a case: 1 us to 1 ms.
const SHORT_SLICES: u64 = 10;
/// Average length of a pause in clocks: 40,000 more than the longest run.
const PAUSE: u64 = (1 << hmtt_format::record::RUN_DURATION_LOG2) + 40_000;

/// The generator of one case.
pub struct Traffic {
    memory: MemoryDescription,
    generator: Generator,
    numbers: Numbers,
    /// Average number of commands from one setting to the next.
    rarity: u64,
    /// Average number of clocks between two changes of the run switch; `None` if it does not
    /// change.
    switching: Option<u64>,
    next_switch: u64,
    stopped: bool,
    paused: bool,
}

impl Traffic {
    /// Creates the generator of a seed.
    pub fn new(memory: &MemoryDescription, seed: u64) -> Self {
        // The generator of commands uses the seed itself, so other numbers are used here.
        let mut numbers = Numbers(!seed);
        let illegal = [0, 0, 2, 20, 100][numbers.below(5) as usize];
        let rarity = [20, 100, 400, 2000][numbers.below(4) as usize];
        let switching = [None, None, Some(20_000), Some(500)][numbers.below(4) as usize];
        let mut traffic = Traffic {
            memory: memory.clone(),
            generator: Generator::new(memory, seed, illegal),
            numbers,
            rarity,
            switching,
            next_switch: u64::MAX,
            stopped: false,
            paused: false,
        };
        // The switch is on at the start, or soon after.
        if switching.is_some() {
            traffic.next_switch = traffic.numbers.below(100);
        }
        traffic
    }

    /// Levels of the straps.
    pub fn straps(&mut self) -> Settings {
        let numbers = &mut self.numbers;
        Settings {
            mode: Mode::from_code(numbers.below(4) as u8).unwrap_or(Mode::Line),
            granularity: if numbers.below(2) == 0 { Granularity::Line } else { Granularity::Burst },
            frequency: numbers.below(3) == 0,
            slice_code: numbers.below(SHORT_SLICES) as u8,
            analysis: numbers.below(3) == 0,
        }
    }

    /// Whether the run switch changes at this clock. `on`: its current level.
    pub fn switches(&mut self, clock: u64, on: bool) -> bool {
        if clock < self.next_switch {
            return false;
        }
        let Some(between) = self.switching else { return false };
        // The switch is off for shorter times than on, sometimes for one clock.
        let most = if on { between / 4 + 2 } else { 2 * between };
        self.next_switch =
            clock + 1 + if self.numbers.below(8) == 0 { 0 } else { self.numbers.below(most) };
        true
    }

    /// Returns the next command, and the number of empty clocks before it.
    pub fn next(&mut self, reader: &PinReader) -> (u64, Pins) {
        if self.generator.idle() {
            let rarity = if self.stopped { self.rarity.min(100) } else { self.rarity };
            if self.numbers.below(rarity) == 0 {
                self.configure();
            } else if !self.paused && self.numbers.below(40_000) == 0 {
                self.paused = true;
                self.around_a_pause();
            }
        }
        self.generator.next(reader)
    }

    /// Adds accesses to one page, with a pause between them after which a run must have ended.
    fn around_a_pause(&mut self) {
        let page = self.numbers.below(1 << 16) << 12;
        let late = PAUSE - 40_000 + self.numbers.below(80_000);
        let addresses = [(0, page), (3, page + 64), (late, page + 128), (3, page + 192)];
        self.generator.read(addresses);
    }

    /// Adds consecutive settings at a constant rate.
    fn configure(&mut self) {
        let pace = [0, 0, 1, 3, 11, 40][self.numbers.below(6) as usize];
        let count = [1, 1, 1, 2, 3, 8, 24][self.numbers.below(7) as usize];
        let registers: Vec<u16> = (0..count).flat_map(|_| self.registers()).collect();
        let mut reads = Vec::new();
        for register in registers {
            let address = register_address(register, self.memory.config_stride_log2);
            let times = u64::from(self.memory.config_count);
            // Sometimes a command is incomplete, or a pause has the greatest allowed length.
            let times = if self.numbers.below(20) == 0 { times - 1 } else { times };
            let odd = (self.numbers.below(20) == 0).then(|| self.numbers.below(times));
            let timeout = u64::from(DEFAULT_TIMEOUT) - 2 + self.numbers.below(3);
            let gap = |at| if Some(at) == odd { timeout } else { pace };
            reads.extend((0..times).map(|at| (gap(at), address)));
        }
        self.generator.read(reads);
    }

    /// Returns registers that are written together.
    fn registers(&mut self) -> Vec<u16> {
        if self.stopped && self.numbers.below(2) == 0 {
            self.stopped = false;
            return vec![config::START];
        }
        let numbers = &mut self.numbers;
        match numbers.below(24) {
            0..=3 => vec![config::MODE_LINE + numbers.below(4) as u16],
            4 | 5 => vec![config::FREQUENCY_ON + numbers.below(2) as u16],
            6 => vec![config::GRANULARITY_LINE + numbers.below(2) as u16],
            7..=9 => vec![config::SLICE_FIRST + numbers.below(SHORT_SLICES) as u16],
            10 => vec![config::THRESHOLD_FIRST + numbers.below(8) as u16],
            11..=13 => self.window(),
            14 => vec![config::TAG_ON + numbers.below(2) as u16],
            15 | 16 => vec![config::ANALYSIS_ON + numbers.below(2) as u16],
            17 => vec![config::MARK_KERNEL_ENTER + numbers.below(2) as u16],
            18 => vec![config::MARK_FREE_FIRST + numbers.below(256) as u16],
            19 => vec![config::RESET],
            20 => vec![config::STOP, config::START],
            21 => vec![config::START],
            22 => {
                self.stopped = true;
                vec![config::STOP]
            }
            _ => vec![UNUSED[numbers.below(UNUSED.len() as u64) as usize]],
        }
    }

    /// Moves the tag window to an address with accesses, or changes one digit of its base.
    fn window(&mut self) -> Vec<u16> {
        let numbers = &mut self.numbers;
        if numbers.below(4) == 0 {
            return vec![config::TAG_NIBBLE_FIRST + numbers.below(16) as u16];
        }
        let memory = &self.memory;
        let banks = 1 << memory.bits(hmtt_format::address_map::Axis::Bank);
        let base = memory.map.to_address(Coordinates {
            rank: numbers.below(memory.ranks().into()) as u32,
            bank: numbers.below(banks) as u32,
            row: self.generator.last_row(),
            column: numbers.below(256) as u32,
        });
        let digit = |at: u32| config::TAG_NIBBLE_FIRST + (base >> (4 * at) & 15) as u16;
        (0..10).rev().map(digit).chain([config::TAG_ON]).collect()
    }
}
