//! Tests that both engines send the same frames at the same times, byte for byte, for whole
//! recordings.

use std::cell::RefCell;
use std::rc::Rc;

use hmtt_format::config::{Granularity, Mode};
use hmtt_sim::engine::{self, Kind, Options, Settings};
use hmtt_sim::gmii::Frame;
use hmtt_sim::input;
use hmtt_sim::output::{OutputError, Sink};
use hmtt_sim::replay::{self, Replay};

use crate::support;

/// A sink that collects frames.
struct FrameCollector(Rc<RefCell<Vec<Frame>>>);

impl Sink for FrameCollector {
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
    let options = Options { kind, ..Options::default() };
    let mut engine = engine::prepare(&options, &parameters, settings).unwrap();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let outcome = replay::run(Replay {
        spans: recording.spans,
        memory: &parameters.memory,
        engine: &mut *engine,
        sinks: vec![Box::new(FrameCollector(kept.clone()))],
        keep_events: false,
        progress: &mut |_| {},
    })
    .unwrap();
    assert_eq!((&outcome.violations[..], &outcome.flaws[..]), (&[][..], &[][..]));
    kept.take()
}

#[test]
fn both_engines_send_the_same_frames() {
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
