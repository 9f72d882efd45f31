//! Statistics unit and packer against the plain model, while the consumer stalls.

use fastrand::Rng;
use gateware::config::{Item, ItemKind, Settings};
use gateware::statistics::packer::Packer;
use gateware::statistics::page_trace::PageTrace;
use gateware::statistics::unit::StatisticsUnit;
use gateware::statistics::{FramedWord, WordKind};
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::memory::DEFAULT_MERGE_WINDOW;
use hmtt_format::record::{RUN_COUNT_LIMIT, RUN_DURATION_LIMIT};
use hmtt_format::{Direction, FaultKind};
use rust_hdl::prelude::*;

use crate::decoding::{Told, tell};
use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;
use crate::statistics_model::{Input, Model, Rules};

/// The two units, wired as the card wires them.
#[derive(LogicBlock)]
struct Chain {
    pub clock: Signal<In, Clock>,
    pub item: Signal<In, Item>,
    pub taken: Signal<Out, Bit>,
    pub settings: Signal<In, Settings>,
    pub slices: Signal<In, Bit>,
    pub slice_last: Signal<In, Bits<32>>,
    pub slices_count: Signal<In, Bit>,
    pub slice_code: Signal<In, Bits<5>>,
    pub word: Signal<Out, FramedWord>,
    pub word_taken: Signal<In, Bit>,
    pub drained: Signal<Out, Bit>,
    unit: StatisticsUnit,
    packer: Packer,
}

impl Logic for Chain {
    #[hdl_gen]
    fn update(&mut self) {
        self.unit.clock.next = self.clock.val();
        self.packer.clock.next = self.clock.val();
        self.unit.item.next = self.item.val();
        self.taken.next = self.unit.taken.val();
        self.unit.settings.next = self.settings.val();
        self.unit.slices.next = self.slices.val();
        self.unit.slice_last.next = self.slice_last.val();
        self.unit.record_taken.next = self.packer.taken.val();
        self.packer.record.next = self.unit.record.val();
        self.packer.slices_count.next = self.slices_count.val();
        self.packer.slice_code.next = self.slice_code.val();
        self.word.next = self.packer.word.val();
        self.packer.word_taken.next = self.word_taken.val();
        self.drained.next = self.unit.idle.val() & self.packer.empty.val();
    }
}

impl Chain {
    fn new(rules: &Rules) -> Self {
        let mut chain = settled(Self {
            clock: Default::default(),
            item: Default::default(),
            taken: Default::default(),
            settings: Default::default(),
            slices: Default::default(),
            slice_last: Default::default(),
            slices_count: Default::default(),
            slice_code: Default::default(),
            word: Default::default(),
            word_taken: Default::default(),
            drained: Default::default(),
            unit: StatisticsUnit::new(&rules.memory),
            packer: Packer::default(),
        });
        chain.settings.next.mode = (rules.mode as u64).into();
        chain.settings.next.burst = rules.granularity == Granularity::Burst;
        chain.slices.next = rules.slices;
        chain.slices_count.next = rules.mode == Mode::Frequency;
        chain.slice_last.next = (rules.slice_clocks - 1).into();
        chain.slice_code.next = u64::from(rules.slice_code).into();
        chain
    }

    /// Hands over all items, taking words `percent` of the time; the words come back.
    fn run(&mut self, inputs: &[(u64, Input)], rng: &mut Rng, percent: u32) -> Vec<FramedWord> {
        let mut words = Vec::new();
        let mut items = inputs.iter().map(|(clock, input)| item(*clock, *input)).peekable();
        let mut patience = 40 * inputs.len() + 1000;
        loop {
            let here = chance(rng, 95);
            self.item.next = items.peek().copied().filter(|_| here).unwrap_or_default();
            self.word_taken.next = false;
            settle(self);
            let offered = self.word.val();
            self.word_taken.next = offered.kind != WordKind::Nothing && chance(rng, percent);
            settle(self);
            if self.word_taken.val() {
                words.push(offered);
            }
            if here && self.taken.val() {
                items.next();
            }
            if items.peek().is_none() && self.drained.val() {
                return words;
            }
            pulse(self, |chain| &mut chain.clock);
            patience = patience.checked_sub(1).expect("the units get on");
        }
    }
}

fn item(clock: u64, input: Input) -> Item {
    let (kind, direction, value) = match input {
        Input::Access(direction, address) => (ItemKind::Access, direction, address),
        Input::WindowTag(direction, address) => (ItemKind::WindowTag, direction, address),
        Input::Mark(value) => (ItemKind::Mark, Direction::Read, value.into()),
        Input::Fault(kind, bank) => {
            let value = u64::from(kind.code()) << 8 | u64::from(bank);
            (ItemKind::Fault, Direction::Read, value)
        }
        Input::Tick => (ItemKind::Tick, Direction::Read, 0),
        Input::Slice => (ItemKind::Slice, Direction::Read, 0),
        Input::Start => (ItemKind::Start, Direction::Read, 0),
        Input::Stop => (ItemKind::Stop, Direction::Read, 0),
        Input::Change => (ItemKind::Change, Direction::Read, 0),
        Input::Overrun(accesses, faults) => {
            (ItemKind::Overrun, Direction::Read, u64::from(faults) << 32 | u64::from(accesses))
        }
    };
    Item {
        kind,
        write: direction == Direction::Write,
        high: (value >> 32).into(),
        low: (value & 0xffff_ffff).into(),
        clock: (clock & 0xffff_ffff).into(),
        clock_high: (clock >> 32).into(),
    }
}

fn address(rng: &mut Rng) -> u64 {
    match rng.u8(0..10) {
        0 => spread(rng, 40),
        1 | 2 => rng.u64(0..4) << 32 | rng.u64(0..1 << 12),
        _ => rng.u64(0..1 << 9),
    }
}

/// A capture: start, a stream with silences that ticks bridge, stop.
fn inputs(rng: &mut Rng, rules: &Rules, count: usize) -> Vec<(u64, Input)> {
    let mut clock = 0xffff_f000;
    let mut inputs = vec![(clock, Input::Start)];
    let mut slice_at = clock;
    for _ in 0..count {
        clock += match rng.u8(0..20) {
            0 => rng.u64(0..1 << 12),
            1 => rng.u64(0..1 << 17),
            _ => rng.u64(0..36),
        };
        let direction = Direction::from_bit(chance(rng, 30));
        let input = match rng.u8(0..60) {
            0 | 1 => Input::WindowTag(direction, address(rng)),
            2 => Input::Mark(spread(rng, 9) as u32),
            3 => Input::Fault(FaultKind::ALL[rng.usize(0..7)], rng.u8(0..16)),
            4 | 5 => Input::Tick,
            6 => Input::Change,
            7 => Input::Overrun(spread(rng, 32) as u32, rng.u8(..)),
            8 if chance(rng, 20) => Input::Start,
            9 if chance(rng, 20) => Input::Stop,
            10 if chance(rng, 20) => {
                for _ in 0..rng.u32(1..20) {
                    clock += rng.u64(1 << 20..1 << 22);
                    inputs.push((clock, Input::Tick));
                }
                Input::Tick
            }
            _ => Input::Access(direction, address(rng)),
        };
        if clock >= slice_at + rules.slice_clocks {
            let late = if chance(rng, 50) { slice_at + rules.slice_clocks } else { clock };
            slice_at = late.max(inputs.last().map_or(0, |(clock, _)| *clock));
            inputs.push((slice_at, Input::Slice));
        }
        inputs.push((clock, input));
    }
    inputs.push((clock + 1, Input::Stop));
    inputs
}

fn rules(rng: &mut Rng, mode: Mode, memory: usize) -> Rules {
    let granularity = if rng.bool() { Granularity::Line } else { Granularity::Burst };
    Rules {
        memory: memories::all()[memory].clone(),
        mode,
        granularity,
        slices: mode == Mode::Frequency || rng.bool(),
        slice_code: rng.u8(0..19),
        slice_clocks: rng.u64(100..5000),
    }
}

fn agree(rng: &mut Rng, mode: Mode) {
    for memory in 0..4 {
        let rules = rules(rng, mode, memory);
        let inputs = inputs(rng, &rules, 1500);
        let percent = [100, 70, 30][rng.usize(0..3)];
        let words = Chain::new(&rules).run(&inputs, rng, percent);
        let mut model = Model::new(rules.clone());
        inputs.iter().for_each(|(clock, input)| model.take(*clock, *input));
        let told = tell(&words, rules.unit_log2());
        for (place, (made, expected)) in told.iter().zip(&model.told).enumerate() {
            assert_eq!(made, expected, "{place} in {mode:?} on {}", rules.memory.generation.name());
        }
        assert_eq!(told.len(), model.told.len());
    }
}

#[test]
fn a_word_with_a_wrong_clock_is_noticed() {
    with_seeds(0..2, |rng| {
        let rules = rules(rng, Mode::Line, 0);
        let inputs = inputs(rng, &rules, 60);
        let words = Chain::new(&rules).run(&inputs, rng, 100);
        let expected = tell(&words, rules.unit_log2());
        for place in 0..words.len() {
            let mut wrong = words.clone();
            wrong[place].clock = words[place].clock ^ (1u64 << rng.u32(0..32));
            let told = std::panic::catch_unwind(|| tell(&wrong, rules.unit_log2()));
            let says_no_clock = !words[place].first || words[place].kind == WordKind::Overrun;
            let noticed = told.is_err() || told.is_ok_and(|told| told != expected);
            assert!(noticed || says_no_clock, "word {place}");
        }
    });
}

#[test]
fn lines_come_out_as_the_model_says() {
    with_seeds(0..6, |rng| agree(rng, Mode::Line));
}

#[test]
fn pages_come_out_as_the_model_says() {
    with_seeds(0..6, |rng| agree(rng, Mode::Page));
}

#[test]
fn slices_come_out_as_the_model_says() {
    with_seeds(0..6, |rng| agree(rng, Mode::Frequency));
}

/// What two accesses some clocks apart come to between a start and a stop.
fn of_two(mode: Mode, addresses: [u64; 2], apart: u64) -> usize {
    let rng = &mut Rng::with_seed(0);
    let rules = Rules { slices: false, granularity: Granularity::Line, ..rules(rng, mode, 0) };
    let read = |address| Input::Access(Direction::Read, address);
    let mut inputs = vec![(9, Input::Start), (10, read(addresses[0]))];
    inputs.extend((1..=apart >> 22).map(|tick| (10 + (tick << 22) - 1, Input::Tick)));
    inputs.extend([(10 + apart, read(addresses[1])), (11 + apart, Input::Stop)]);
    let words = Chain::new(&rules).run(&inputs, rng, 100);
    let told = tell(&words, rules.unit_log2());
    told.iter().filter(|told| matches!(told, Told::Event(_))).count()
}

#[test]
fn bursts_join_up_to_the_merge_window_and_not_beyond() {
    let window = u64::from(DEFAULT_MERGE_WINDOW);
    assert_eq!(of_two(Mode::Line, [0x40, 0x60], window), 1);
    assert_eq!(of_two(Mode::Line, [0x40, 0x60], window + 1), 2);
    assert_eq!(of_two(Mode::Line, [0x40, 0x40], 1), 2, "the same burst again");
    assert_eq!(of_two(Mode::Line, [0x60, 0x80], 1), 2, "another line");
}

#[test]
fn a_run_is_as_long_as_a_record_can_say_and_not_longer() {
    let limit = u64::from(RUN_DURATION_LIMIT);
    assert_eq!(of_two(Mode::Page, [0x1000, 0x1fe0], limit - 1), 1);
    assert_eq!(of_two(Mode::Page, [0x1000, 0x1fe0], limit), 2);
    assert_eq!(of_two(Mode::Page, [0x1fe0, 0x2000], 1), 2, "another page");
}

#[test]
fn a_run_is_cut_when_a_count_is_full() {
    let mut trace = settled(PageTrace::default());
    trace.offer.next = true;
    trace.write.next = true;
    for clock in 0..u64::from(RUN_COUNT_LIMIT) {
        trace.at.next = clock.into();
        pulse(&mut trace, |trace| &mut trace.clock);
    }
    assert!(trace.replaces.val(), "the next access starts another run");
    assert_eq!(trace.out_writes.val().to_u64(), u64::from(RUN_COUNT_LIMIT));
    assert_eq!(trace.out_duration.val().to_u64(), u64::from(RUN_COUNT_LIMIT) - 1);
    pulse(&mut trace, |trace| &mut trace.clock);
    assert_eq!(trace.out_writes.val().to_u64(), 1);
}
