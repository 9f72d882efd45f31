//! Both engines over whole recordings: the same frames, byte for byte, at the same times.

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use hmtt_format::config::{Granularity, Mode};
use hmtt_sim::engine::{self, Kind, Options, Settings};
use hmtt_sim::gmii::Frame;
use hmtt_sim::input;
use hmtt_sim::output::{OutputError, Sink};
use hmtt_sim::replay::{self, Replay};

/// Keeps frames.
struct Keeper(Rc<RefCell<Vec<Frame>>>);

impl Sink for Keeper {
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError> {
        self.0.borrow_mut().push(frame.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        Ok(())
    }
}

fn frames(name: &str, settings: Settings, kind: Kind) -> Vec<Frame> {
    let path = support::vectors().join(format!("{name}.cmd.gz"));
    let recording = input::open(&path, None, None).unwrap();
    let parameters = engine::default_parameters(recording.memory);
    let options = Options { kind, cache: None, vcd: None, stop: None };
    let mut engine = engine::prepare(&options, &parameters, settings).unwrap();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let outcome = replay::run(Replay {
        spans: recording.spans,
        memory: &parameters.memory,
        engine: &mut *engine,
        sinks: vec![Box::new(Keeper(kept.clone()))],
        keep_events: false,
        progress: &mut |_| {},
    })
    .unwrap();
    assert_eq!((&outcome.violations[..], &outcome.flaws[..]), (&[][..], &[][..]));
    kept.take()
}

#[test]
fn frames_are_the_same_byte_for_byte() {
    let line = Settings::default();
    let slices = Settings { frequency: true, slice_code: 2, ..line };
    for (name, settings) in [
        ("v02_ddr1_tiny_rtl_init", slices),
        ("v16_ddr1_faults", Settings { mode: Mode::Page, ..slices }),
        ("v15_ddr3_directed_OTF", Settings { granularity: Granularity::Burst, ..line }),
    ] {
        let reference = frames(name, settings, Kind::Rust);
        let compiled = frames(name, settings, Kind::Verilator);
        assert!(reference.len() > 4, "{name}");
        assert!(reference == compiled, "{name}");
    }
}
