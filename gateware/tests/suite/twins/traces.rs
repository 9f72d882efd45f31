//! Compares the traces with a model, while the units behind them stall: the records, their clocks,
//! and the counts.

use fastrand::Rng;
use gateware::config::{Item, ItemKind};
use gateware::record::{Record, RecordKind};
use gateware::statistics::ComparedItem;
use gateware::statistics::traces::Traces;
use gateware::statistics::waiting_record::WaitingRecord;
use hmtt_format::config::Mode;
use hmtt_format::memory::DEFAULT_MERGE_WINDOW;
use hmtt_format::record::{NUMBER_BITS, RUN_COUNT_LOG2, RUN_DURATION_LOG2};

use super::traces_model::{Input, Model, PassedRecord, Rules};
use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

/// The traces, and the records and counts that they produce.
struct Bench {
    traces: Traces,
    clock: u64,
    /// Clock of the last record that was passed on.
    reached: u64,
    passed: Vec<PassedRecord>,
    /// Numbers of accesses, WRITEs, tags, marks, faults and clocks observed.
    observed: [u64; 6],
}

impl Bench {
    fn new(rules: &Rules) -> Self {
        let mut traces = settled(Traces::new(&rules.memory));
        traces.settings.next.mode = (rules.mode as u64).into();
        traces.settings.next.burst = rules.burst;
        traces.settings.next.tag = rules.window.is_some();
        traces.settings.next.tag_low = (rules.window.unwrap_or(0) & 0xffff_ffff).into();
        traces.settings.next.tag_high = (rules.window.unwrap_or(0) >> 32).into();
        traces.running.next = true;
        Self { traces, clock: 0, reached: 0, passed: Vec::new(), observed: [0; 6] }
    }

    /// Applies one clock. Returns whether the pipeline moved.
    fn clock(&mut self, item: Item, percent: u32, rng: &mut Rng) -> bool {
        self.traces.item.next = item;
        self.traces.advance.next = chance(rng, percent);
        settle(&mut self.traces);
        let advances = self.traces.advance.val();
        let record = self.traces.record.val();
        if advances && record.kind != RecordKind::Nothing {
            self.keep(record);
        }
        let seen = self.traces.observed.val();
        let flags = [seen.access, seen.access && seen.write, seen.tag, seen.mark, seen.fault];
        flags.iter().zip(&mut self.observed).for_each(|(&flag, sum)| *sum += u64::from(flag));
        self.observed[5] += self.traces.gap.val().to_u64();
        pulse(&mut self.traces, |traces| &mut traces.clock);
        advances
    }

    fn keep(&mut self, record: Record) {
        if record.kind == RecordKind::Tick {
            return self.passed.push(PassedRecord::new(record.kind, self.reached, false, 0));
        }
        self.reached += record.delta.to_u64();
        let shift = NUMBER_BITS;
        let number = record.segment.to_u64() << shift | record.number.to_u64();
        let mut passed = PassedRecord::new(record.kind, self.reached, record.write, number);
        passed.counts = [record.reads.to_u64(), record.writes.to_u64()];
        passed.duration = record.duration.to_u64();
        self.passed.push(passed.plain());
    }

    /// Passes an item at a clock, sometimes after a few clocks without one.
    fn pass(&mut self, clock: u64, input: Input, percent: u32, rng: &mut Rng) {
        let (kind, write, value) = match input {
            Input::Access(write, address) => (ItemKind::Access, write, address),
            Input::Mark(value) => (ItemKind::Mark, rng.bool(), value),
            Input::Fault(value) => (ItemKind::Fault, rng.bool(), value),
            Input::Overrun(value) => (ItemKind::Overrun, rng.bool(), value),
            Input::Time => (ItemKind::Time, rng.bool(), spread(rng, 40)),
        };
        let item = Item {
            kind,
            write,
            low: (value & 0xffff_ffff).into(),
            high: (value >> 32).into(),
            gap: (clock - self.clock).into(),
            ..Default::default()
        };
        self.clock = clock;
        assert!((0..1000).any(|_| self.clock(item, percent, rng)), "{input:?} passes");
        while chance(rng, 20) {
            self.clock(Item { gap: spread(rng, 16).into(), ..Default::default() }, percent, rng);
        }
    }

    /// Waits until the pipeline is empty, as the configuration unit does before it makes a request.
    fn drain(&mut self, rng: &mut Rng) {
        for _ in 0..100 {
            self.clock(Item::default(), 70, rng);
            if self.traces.drained.val() {
                return assert_eq!(self.observed[5], self.clock, "all time has passed");
            }
        }
        panic!("the traces get on");
    }

    fn request(&mut self, rng: &mut Rng, flush: bool, record_kind: RecordKind, restart: bool) {
        self.traces.requests.next.flush = flush;
        self.traces.requests.next.record_kind = record_kind;
        self.traces.requests.next.restart_time = restart;
        self.clock(Item::default(), 100, rng);
        self.traces.requests.next = Default::default();
    }
}

/// Returns addresses with adjacent ones: bursts of a line, lines of a page, pages of a segment, the
/// tag window.
fn address(rng: &mut Rng, window: u64) -> u64 {
    match rng.u8(0..20) {
        0 => spread(rng, 40),
        1 | 2 => rng.u64(0..4) << 32 | rng.u64(0..1 << 12),
        3 => (window ^ rng.u64(0..1 << 18)) & 0xff_ffff_ffff,
        _ => rng.u64(0..1 << 9),
    }
}

fn input(rng: &mut Rng, window: u64) -> Input {
    match rng.u8(0..50) {
        0 => Input::Mark(rng.u64(0..512)),
        1 => Input::Fault(rng.u64(0..1 << 14)),
        // 32 bits of accesses, 6 bits of faults.
        2 if chance(rng, 30) => Input::Overrun(spread(rng, 38)),
        3 | 4 => Input::Time,
        _ => Input::Access(chance(rng, 30), address(rng, window)),
    }
}

fn agree(rng: &mut Rng, mode: Mode) {
    let memory = memories::all()[rng.usize(0..4)].clone();
    let base = spread(rng, 40);
    let window = rng.bool().then_some(base);
    let rules = Rules { memory, mode, burst: rng.bool(), window };
    let (mut bench, mut model) = (Bench::new(&rules), Model::new(rules));
    let percent = [100, 80, 30][rng.usize(0..3)];
    let (mut clock, mut running, mut counts) = (0, true, [0u64; 5]);
    for _ in 0..2500 {
        clock += match rng.u8(0..40) {
            0 => rng.u64(0..1 << 15),
            1 => rng.u64(0..100),
            _ => rng.u64(0..16),
        };
        let input = input(rng, base);
        bench.pass(clock, input, percent, rng);
        model.take(clock, input, running);
        if let Input::Access(write, address) = input
            && running
        {
            let log2 = memories::ddr1("").tag_window_log2;
            let tag = window.is_some_and(|base| base >> log2 == address >> log2);
            let seen = [true, write, tag].map(u64::from);
            (0..3).for_each(|kind| counts[kind] += seen[kind]);
        }
        counts[3] += u64::from(matches!(input, Input::Mark(_)));
        counts[4] += u64::from(running && matches!(input, Input::Fault(_)));
        if chance(rng, 8) {
            tick(rng, &mut bench, &mut model, running);
        }
        if chance(rng, 1) {
            bench.drain(rng);
            bench.request(rng, true, RecordKind::Nothing, false);
            bench.request(rng, false, RecordKind::Nothing, true);
            model.flush();
            (model.since, bench.reached) = (clock, clock);
            running = !running;
            bench.traces.running.next = running;
        }
    }
    bench.drain(rng);
    bench.request(rng, true, RecordKind::Nothing, false);
    model.flush();
    let passed: Vec<&PassedRecord> = bench
        .passed
        .iter()
        .filter(|passed| !matches!(passed.kind, RecordKind::Skip | RecordKind::Tick))
        .collect();
    for (place, (record, expected)) in passed.iter().zip(&model.passed).enumerate() {
        assert_eq!(*record, expected, "record {place} in {mode:?}");
    }
    assert_eq!(passed.len(), model.passed.len());
    assert_eq!((&bench.observed[..5], bench.observed[5]), (&counts[..], clock));
}

/// Does what the configuration unit does at a tick.
fn tick(rng: &mut Rng, bench: &mut Bench, model: &mut Model, running: bool) {
    bench.drain(rng);
    let stale = model.stale();
    assert_eq!(bench.traces.waiting.val(), stale.is_some());
    if let Some(stale) = stale {
        assert_eq!(bench.traces.stale.val(), stale, "{:?}", model.passed.last());
        if stale {
            bench.request(rng, true, RecordKind::Nothing, false);
            model.flush();
        }
    }
    if bench.traces.silent.val() && running {
        assert!(stale.is_none_or(|stale| stale), "nothing waits");
        assert!(bench.clock - model.since >= 1 << 24);
        bench.request(rng, false, RecordKind::Skip, true);
        model.since = bench.clock;
        assert_eq!(bench.reached, bench.clock, "a skip holds all the time");
    } else {
        assert!(stale.is_some() || !running || bench.clock - model.since < 1 << 24);
    }
    bench.request(rng, false, RecordKind::Tick, false);
}

#[test]
fn line_records_equal_those_of_the_model() {
    with_seeds(0..12, |rng| agree(rng, Mode::Line));
}

#[test]
fn page_records_equal_those_of_the_model() {
    with_seeds(0..12, |rng| agree(rng, Mode::Page));
}

#[test]
fn other_records_equal_those_of_the_model() {
    with_seeds(0..4, |rng| agree(rng, Mode::Frequency));
}

fn rules(mode: Mode) -> Rules {
    Rules { memory: memories::ddr1(""), mode, burst: false, window: None }
}

/// Returns the records of two accesses with a distance in clocks, with ticks in between or only
/// time.
fn of_two(mode: Mode, addresses: [u64; 2], apart: u64, ticks: bool) -> Vec<PassedRecord> {
    let rng = &mut Rng::with_seed(0);
    let (mut bench, mut model) = (Bench::new(&rules(mode)), Model::new(rules(mode)));
    let mut pass = |bench: &mut Bench, model: &mut Model, clock, input| {
        bench.pass(clock, input, 100, rng);
        model.take(clock, input, true);
    };
    pass(&mut bench, &mut model, 10, Input::Access(false, addresses[0]));
    let step = 1 << 15;
    for passed in (1..).map(|number| number * step).take_while(|&passed| passed < apart) {
        pass(&mut bench, &mut model, 10 + passed, Input::Time);
        if ticks {
            tick(&mut Rng::with_seed(1), &mut bench, &mut model, true);
        }
    }
    pass(&mut bench, &mut model, 10 + apart, Input::Access(false, addresses[1]));
    bench.drain(&mut Rng::with_seed(1));
    bench.request(&mut Rng::with_seed(1), true, RecordKind::Nothing, false);
    model.flush();
    bench.passed.retain(|passed| passed.kind != RecordKind::Tick);
    let passed: Vec<PassedRecord> =
        bench.passed.into_iter().filter(|passed| passed.kind != RecordKind::Skip).collect();
    assert_eq!(passed, model.passed);
    passed
}

#[test]
fn bursts_join_up_to_the_merge_window_and_not_beyond() {
    let window = u64::from(DEFAULT_MERGE_WINDOW);
    let records = |addresses, apart| of_two(Mode::Line, addresses, apart, false).len();
    assert_eq!(records([0x40, 0x60], window), 1);
    assert_eq!(records([0x40, 0x60], window + 1), 2);
    assert_eq!(records([0x40, 0x60], 512), 2, "beyond what a short gap says");
    assert_eq!(records([0x40, 0x40], 1), 2, "the same burst again");
    assert_eq!(records([0x60, 0x80], 1), 2, "another line");
}

#[test]
fn a_run_ends_at_the_first_check_after_its_longest_duration() {
    let longest = 1 << RUN_DURATION_LOG2;
    for ticks in [false, true] {
        let records = |apart| of_two(Mode::Page, [0x1000, 0x1fe0], apart, ticks);
        let joined = records(longest);
        assert_eq!((joined.len(), joined[0].duration), (1, longest), "nobody looked before");
        assert_eq!(records(longest + 1).len(), 2, "the time that passed at {longest} looked");
    }
}

#[test]
fn a_skip_record_covers_a_long_pause() {
    let passed = of_two(Mode::Line, [0x1000, 0x40], (1 << 25) + 12345, true);
    let clocks: Vec<u64> = passed.iter().map(|passed| passed.clock).collect();
    assert_eq!(clocks, [10, 10 + (1 << 25) + 12345]);
}

#[test]
fn a_run_is_cut_when_a_count_is_full() {
    let mut held = settled(WaitingRecord::new(&memories::ddr1("")));
    // A mode is in force a clock before its first item.
    held.mode.next = (Mode::Page as u64).into();
    pulse(&mut held, |held| &mut held.clock);
    held.advance.next = true;
    held.compared.next = ComparedItem {
        kind: RecordKind::Page,
        is_item: true,
        mergeable: true,
        same: true,
        write: true,
        gap: 1u64.into(),
        ..Default::default()
    };
    let most = 1 << RUN_COUNT_LOG2;
    for _ in 0..most {
        pulse(&mut held, |held| &mut held.clock);
    }
    let record = held.record.val();
    assert_eq!(record.kind, RecordKind::Page, "the next access starts another run");
    assert_eq!((record.writes.to_u64(), record.duration.to_u64()), (most, most - 1));
    pulse(&mut held, |held| &mut held.clock);
    assert_eq!(held.record.val().kind, RecordKind::Nothing);
}
