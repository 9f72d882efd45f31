//! Replays dense traffic over slow links, while the run switch goes off and on, and compares what
//! the card sends with the model of the whole card: no record is invented, and each lost access is
//! counted.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use gateware::{CardParameters, FifoSize};
use hmtt_format::config::{Granularity, Mode};
use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::engine::{self, EngineError, Kind, Options, Settings};
use hmtt_sim::fuzz::case::Keeper;
use hmtt_sim::fuzz::generator::Numbers;
use hmtt_sim::input::Span;
use hmtt_sim::oracle::capture::Capture;
use hmtt_sim::oracle::{self, Verdict, case};
use hmtt_sim::replay::{self, Replay, ReplayError};
use hmtt_sim::schedule::tx_period_of;
use hmtt_sim::traffic::Traffic;

/// Ticks as close to each other as a memory description allows, so that the event queue holds many.
fn memory() -> MemoryDescription {
    toml_memory::parse(
        "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\ntick_clocks = 256\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14-p15']\nrow = ['p16-p28']\n",
    )
    .unwrap()
}

/// One replay: commands, levels of the run switch, and the link.
struct Slow {
    spans: Vec<Span>,
    off: Vec<Range<u64>>,
    megabits: u32,
    settings: Settings,
}

impl Slow {
    /// Random accesses as fast as the bus takes them, with some pauses, and groups of short times
    /// without a capture.
    fn of(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut traffic = Traffic::new(memory());
        while traffic.clocks() < 60_000 {
            let page = numbers.below(1 << 14) << 12;
            for _ in 0..numbers.below(300) {
                let address = page + (numbers.below(512) << 3);
                match numbers.below(4) {
                    0 => traffic.write(address),
                    _ => traffic.read(address),
                };
            }
            traffic.refresh();
            traffic.idle([0, 0, 0, 40, 3_000][numbers.below(5) as usize]);
        }
        let (mut off, mut clock) = (Vec::new(), 0);
        while clock < traffic.clocks() {
            clock += 5_000 + numbers.below(20_000);
            let most = [2, 100, 1_000][numbers.below(3) as usize];
            for _ in 0..1 + numbers.below(30) {
                let end = clock + 1 + numbers.below(most);
                off.push(clock..end);
                clock = end + 1 + numbers.below(most);
            }
        }
        let settings = Settings {
            mode: [Mode::Line, Mode::Line, Mode::Page][numbers.below(3) as usize],
            granularity: [Granularity::Line, Granularity::Burst][numbers.below(2) as usize],
            ..Settings::default()
        };
        let megabits = [100, 50, 20, 10][numbers.below(4) as usize];
        let spans = traffic.spans().map(|span| span.expect("generated commands")).collect();
        Self { spans, off, megabits, settings }
    }

    /// Replays and compares; `None` without Verilator.
    fn verdict(&self) -> Option<Verdict> {
        let parameters = CardParameters { memory: memory(), fifo: FifoSize::Kb8 };
        let tx_period_ps = tx_period_of(self.megabits);
        let options = Options { kind: Kind::Verilator, tx_period_ps, ..Options::default() };
        let mut engine = match engine::prepare(&options, &parameters, self.settings) {
            Err(error @ EngineError::VerilatorMissing) => {
                eprintln!("skipped: dense traffic over slow links: {error}");
                return None;
            }
            engine => engine.expect("the card"),
        };
        let frames = Rc::new(RefCell::new(Vec::new()));
        let replay = Replay {
            spans: Box::new(self.spans.clone().into_iter().map(Ok)),
            memory: &parameters.memory,
            engine: &mut *engine,
            sinks: vec![Box::new(Keeper(frames.clone()))],
            keep_events: false,
            progress: &mut |_| {},
        };
        let outcome = replay::run_switched(replay, self.off.clone());
        let outcome = outcome.unwrap_or_else(|error: ReplayError| panic!("{error}"));
        assert_eq!((outcome.violations.len(), outcome.flaws.len()), (0, 0));
        let capture = Capture::read(&frames.take()).expect("frames");
        let due = case::of_recording(&parameters.memory, self.settings, &self.spans, &self.off);
        Some(oracle::check(&due, &parameters.memory, &capture).unwrap_or_else(|what| {
            panic!("{what}\n{:?} {} Mb/s, off {:?}", self.settings, self.megabits, self.off)
        }))
    }
}

/// Prints the seed of a failing case.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn slow_links_and_the_run_switch_invent_no_record_and_lose_none_silently() {
    let mut lost = 0;
    for seed in 1..=8 {
        let _named = Seed(seed);
        let Some(verdict) = Slow::of(seed).verdict() else { return };
        assert!(!verdict.lost_command);
        lost += verdict.lost;
    }
    assert!(lost > 20_000, "{lost} records lost");
}
