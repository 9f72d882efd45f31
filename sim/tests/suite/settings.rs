//! Tests that tags and marks of the real card agree with the truth in every mode. The card is
//! configured over its own bus.

use hmtt_format::config::{
    Granularity, MARK_FREE_FIRST, MARK_KERNEL_ENTER, MARK_KERNEL_EXIT, Mode, START, STOP,
    TAG_NIBBLE_FIRST, TAG_ON,
};
use hmtt_format::{Event, MemoryDescription, toml_memory};
use hmtt_sim::engine::{self, Options, Settings};
use hmtt_sim::replay::{self, Outcome, Replay};
use hmtt_sim::traffic::Traffic;
use hmtt_sim::truth;

use crate::support;

/// Base of the tag window: 64 KB at 64 MB.
const WINDOW: u64 = 0x400_0000;

fn memory() -> MemoryDescription {
    toml_memory::parse(
        "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
         tag_window_bytes = 65536\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14^p16', 'p15^p17']\nrow = ['p16-p28']\n",
    )
    .unwrap()
}

fn replayed(traffic: &Traffic, settings: Settings) -> Outcome {
    let parameters = engine::default_parameters(memory());
    support::replay_card(traffic.spans(), &Options::default(), &parameters, settings)
}

fn check(traffic: &Traffic, settings: Settings) -> Outcome {
    let outcome = replayed(traffic, settings);
    let clocks = outcome.summary.clocks;
    for comparison in truth::check(traffic.truth(), &outcome.events, &memory(), settings, clocks) {
        assert!(comparison.equal(), "{settings:?}: {comparison}");
    }
    outcome
}

fn every_mode() -> impl Iterator<Item = Settings> {
    let slices = Settings { slice_code: 1, frequency: true, ..Settings::default() };
    [
        Settings::default(),
        Settings { granularity: Granularity::Burst, ..slices },
        Settings { mode: Mode::Page, ..slices },
        Settings { mode: Mode::Frequency, ..slices },
    ]
    .into_iter()
}

/// Adds traffic below the window that often hits the same pages, lines and banks.
fn random_walk(traffic: &mut Traffic, steps: u64) {
    let mut state = steps;
    for _ in 0..steps {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let address = 0x10_0000 + (state >> 40 & 0x7fff);
        match state >> 60 {
            0..=4 => traffic.write(address),
            5 => traffic.idle(state >> 50 & 0xff),
            6 => traffic.refresh(),
            _ => traffic.read(address),
        };
    }
}

#[test]
fn traffic_of_the_builder_is_recorded_in_every_mode() {
    let mut traffic = Traffic::new(memory());
    random_walk(&mut traffic, 700);
    for settings in every_mode() {
        let outcome = check(&traffic, settings);
        assert_eq!((outcome.summary.protocol_faults, outcome.summary.tags), (0, 0));
    }
}

#[test]
fn marks_are_recorded_between_the_accesses_around_them() {
    let mut traffic = Traffic::new(memory());
    let marks = [MARK_KERNEL_ENTER, MARK_FREE_FIRST + 7, MARK_KERNEL_EXIT];
    for mark in marks {
        random_walk(&mut traffic, 40);
        traffic.configure(mark);
    }
    traffic.read(0x8);
    for settings in every_mode() {
        let outcome = check(&traffic, settings);
        let registers: Vec<_> = outcome
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Mark { register, .. } => Some(register.0),
                _ => None,
            })
            .collect();
        assert_eq!(registers, marks.map(u32::from), "{settings:?}");
    }
}

#[test]
fn a_replay_continues_after_software_stops_the_card() {
    let mut traffic = Traffic::new(memory());
    random_walk(&mut traffic, 20);
    traffic.configure(STOP);
    // The pause is long enough for all end frames to be sent before the capture continues.
    random_walk(traffic.idle(20_000), 20);
    traffic.configure(START);
    let started = traffic.clocks();
    random_walk(&mut traffic, 20);
    let outcome =
        replayed(&traffic, Settings { granularity: Granularity::Burst, ..Settings::default() });
    let after = |clock: u64| clock >= started;
    let expected = traffic.truth().iter().filter(|access| after(access.clock.0)).count();
    let later_accesses = outcome
        .events
        .iter()
        .filter(|event| matches!(event, Event::Access(access) if after(access.clock.0)))
        .count();
    assert_eq!(later_accesses, expected);
    // The card is also stopped at the end, long after its end frames.
    traffic.configure(STOP).idle(20_000);
    replayed(&traffic, Settings::default());
}

#[test]
fn accesses_to_the_tag_window_become_tags() {
    let mut traffic = Traffic::new(memory());
    for nibble in (0..8).rev() {
        traffic.configure(TAG_NIBBLE_FIRST + (WINDOW >> (4 * nibble) & 15) as u16);
        // A setting that changes ends a line or run. Other accesses follow, so that none spans it.
        random_walk(&mut traffic, 5);
    }
    traffic.configure(TAG_ON);
    for step in 0..40 {
        random_walk(&mut traffic, 5);
        traffic.read(WINDOW + step * 8 * 37 % 0x1_0000).write(WINDOW + step * 8);
    }
    // A setting also ends a slice, so frequency mode is left out.
    for settings in every_mode().filter(|settings| settings.mode != Mode::Frequency) {
        let settings = Settings { frequency: false, ..settings };
        let outcome = check(&traffic, settings);
        assert_eq!(outcome.summary.tags, 80, "{settings:?}");
    }
}

#[test]
fn waveforms_of_the_reference_engine_show_the_same_simulation() {
    let mut traffic = Traffic::new(memory());
    random_walk(&mut traffic, 30);
    let plain = replayed(&traffic, Settings::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("waves.vcd");
    let options = Options { vcd: Some(path.clone()), ..Options::default() };
    let parameters = engine::default_parameters(memory());
    let mut engine = engine::prepare(&options, &parameters, Settings::default()).unwrap();
    let outcome = replay::run(Replay {
        spans: traffic.spans(),
        memory: &memory(),
        engine: &mut *engine,
        sinks: vec![],
        keep_events: true,
        progress: &mut |_| {},
    })
    .unwrap();
    assert_eq!(outcome.events, plain.events);

    let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
    let mut waves = vcd::Parser::new(file);
    let header = waves.parse_header().unwrap();
    let clock = header.find_var(&["uut", "ddr_clock"]).expect("the card's clock").code;
    let (mut rises, mut last) = (0, 0);
    for command in waves {
        match command.unwrap() {
            vcd::Command::Timestamp(time) => {
                assert!(time >= last);
                last = time;
            }
            vcd::Command::ChangeScalar(code, vcd::Value::V1) if code == clock => rises += 1,
            _ => {}
        }
    }
    assert!(rises >= outcome.summary.clocks, "{rises} rising edges of {}", outcome.summary.clocks);
    assert!(last >= outcome.summary.clocks * u64::from(memory().tck_ps));
}
