//! Tests the verilator engine with a very small card: a Verilog module and the same card in Rust
//! must show the same GMII levels at the same edges.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hmtt_format::{Generation, Pins};
use hmtt_sim::engine::rust::Stepper;
use hmtt_sim::engine::verilator::Model;
use hmtt_sim::engine::{Card, Engine, EngineError, Phy, cache};
use hmtt_sim::gmii::Gmii;
use hmtt_sim::input::{InputError, Span, Spans};
use hmtt_sim::schedule::TX_PERIOD_PS;
use hmtt_sim::stimulus::Stimulus;

/// Adds every pin to a checksum in the DDR domain. The TX domain outputs it one TX clock later.
const VERILOG: &str = "
module top(input ddr_clock, tx_clock, input [3:0] pins$cke, pins$cs_n,
           input pins$act_n, pins$ras_n, pins$cas_n, pins$we_n,
           input [3:0] pins$ba, input [17:0] pins$a, input run, input [15:0] straps,
           output [7:0] gmii_txd, output gmii_tx_en, gmii_tx_er, output [7:0] led);
  reg [31:0] sum = 0;
  reg [9:0] shown = 0;
  wire [31:0] pins = {pins$a[15:0], pins$ba, pins$we_n, pins$cas_n,
                      pins$ras_n, pins$act_n, pins$cs_n, pins$cke};
  wire [31:0] more = {13'd0, run, pins$a[17:16], straps};
  always @(posedge ddr_clock) sum <= {sum[26:0], sum[31:27]} + pins + more;
  always @(posedge tx_clock) shown <= sum[31:22];
  assign gmii_txd = shown[7:0];
  assign gmii_tx_en = shown[8];
  assign gmii_tx_er = shown[9];
  assign led = 0;
endmodule
";
const STRAPS: u16 = 0x1234;

#[derive(Default)]
struct RustCard {
    sum: u32,
    shown: u32,
}

impl Card for RustCard {
    fn ddr_edge(&mut self, pins: Pins, run: bool) {
        let strobes = [pins.act_n, pins.ras_n, pins.cas_n, pins.we_n];
        let word = strobes.iter().rev().fold(0, |word, level| word << 1 | u32::from(*level)) << 8
            | u32::from(pins.cke)
            | u32::from(pins.cs_n) << 4
            | u32::from(pins.ba) << 12
            | pins.a << 16;
        let more = u32::from(STRAPS) | pins.a >> 16 << 16 | u32::from(run) << 18;
        self.sum = self.sum.rotate_left(5).wrapping_add(word).wrapping_add(more);
    }

    fn tx_edge(&mut self) -> Gmii {
        let shown = std::mem::replace(&mut self.shown, self.sum >> 22);
        Gmii { txd: shown as u8, tx_en: shown >> 8 & 1 != 0, tx_er: shown >> 9 & 1 != 0 }
    }
}

/// Records all levels and stops after a number of edges.
struct Recorder {
    levels: Vec<Gmii>,
    most: usize,
    clocks: u64,
}

impl Phy for Recorder {
    fn take(&mut self, gmii: Gmii, count: u64) -> ControlFlow<()> {
        self.levels.extend((0..count).map(|_| gmii));
        if self.levels.len() < self.most {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn fifo_peak(&mut self, words: u64) {
        assert_eq!(words, 0, "a card without a FIFO");
    }

    fn progress(&mut self, clocks: u64, _quiet: bool) -> ControlFlow<()> {
        assert!(clocks >= self.clocks);
        self.clocks = clocks;
        ControlFlow::Continue(())
    }
}

fn spans() -> Spans {
    let mut state = 1u64;
    let span = move |at: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at | 1);
        let bit = |n: u32| state >> n & 1 != 0;
        let pins = Pins {
            cke: (state >> 16) as u8 & 0xf,
            cs_n: (state >> 20) as u8 & 0xf,
            act_n: bit(22),
            ras_n: bit(23),
            cas_n: bit(24),
            we_n: bit(25),
            ba: (state >> 30) as u8 & 0xf,
            a: (state >> 40) as u32 & 0x3_ffff,
        };
        Ok(Span { clocks: 1 + (state >> 60), pins })
    };
    Box::new((0..20_000).map(span))
}

fn run(engine: &mut dyn Engine, tck_ps: u32, most: usize) -> (Recorder, Result<(), EngineError>) {
    let mut stimulus = Stimulus::new(spans(), Generation::Ddr1, tck_ps);
    let mut recorder = Recorder { levels: Vec::new(), most, clocks: 0 };
    let result = engine.run(&mut stimulus, &mut recorder);
    (recorder, result)
}

fn model(tck_ps: u32, traced: bool) -> Model {
    let program =
        cache::model(VERILOG, &cache::default_directory().unwrap(), traced, |_| {}).unwrap();
    Model { program, tck_ps, tx_period_ps: TX_PERIOD_PS, straps: STRAPS, stop: None, vcd: None }
}

#[test]
fn both_engines_see_the_same_edges() {
    for tck_ps in [10_000, 7_500, 2_500, 1_071, 8_000, 20_000] {
        let (reference, first) = run(
            &mut Stepper {
                card: RustCard::default(),
                tck_ps,
                tx_period_ps: TX_PERIOD_PS,
                stop: None,
            },
            tck_ps,
            usize::MAX,
        );
        let (compiled, second) = run(&mut model(tck_ps, false), tck_ps, usize::MAX);
        for result in [first, second] {
            assert!(matches!(result, Err(EngineError::NotFinished { .. })));
        }
        assert_eq!(compiled.clocks, reference.clocks);
        let lengths = (compiled.levels.len(), reference.levels.len());
        let wrong = compiled.levels.iter().zip(&reference.levels).position(|(a, b)| a != b);
        assert_eq!((wrong, lengths.0), (None, lengths.1), "tCK {tck_ps} ps");
    }
}

#[test]
fn an_engine_stops_when_the_phy_breaks() {
    let (recorder, result) = run(&mut model(10_000, false), 10_000, 1000);
    assert!(result.is_ok());
    assert!((1000..3000).contains(&recorder.levels.len()));
}

#[test]
fn waveforms_show_the_same_simulation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("waves.vcd");
    let mut traced = Model { vcd: Some(path.clone()), ..model(10_000, true) };
    let (with, _) = run(&mut traced, 10_000, 2000);
    let (without, _) = run(&mut model(10_000, false), 10_000, 2000);
    assert!(with.levels[..2000] == without.levels[..2000]);
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("$timescale") && text.contains("ddr_clock"));
}

#[test]
fn a_read_error_ends_the_engine() {
    let path = std::path::PathBuf::from("x");
    let broken = InputError::malformed(&path, 7, "a clock", "x");
    let spans = [Ok(Span { clocks: 100_000, pins: Pins::DESELECT }), Err(broken)];
    let mut stimulus = Stimulus::new(Box::new(spans.into_iter()), Generation::Ddr1, 10_000);
    let mut recorder = Recorder { levels: Vec::new(), most: usize::MAX, clocks: 0 };
    let result = model(10_000, false).run(&mut stimulus, &mut recorder);
    assert!(matches!(result, Err(EngineError::Input(_))));
}

/// The compilations that were announced.
static ANNOUNCED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

#[test]
fn a_compilation_is_announced_and_a_cached_model_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let announce: fn(&Path) = |path| ANNOUNCED.lock().unwrap().push(path.into());
    let model = || cache::model(VERILOG, directory.path(), false, announce).unwrap();
    let compiled = model();
    assert_eq!(*ANNOUNCED.lock().unwrap(), std::slice::from_ref(&compiled));
    assert_eq!(model(), compiled);
    assert_eq!(ANNOUNCED.lock().unwrap().len(), 1);
}

#[test]
fn models_of_a_cache_share_the_run_time_library() {
    let directory = tempfile::tempdir().unwrap();
    let other = format!("// The same card.\n{VERILOG}");
    let levels = [VERILOG, other.as_str()].map(|text| {
        let program = cache::model(text, directory.path(), false, |_| {}).unwrap();
        run(&mut Model { program, ..model(10_000, false) }, 10_000, 2000).0.levels
    });
    assert!(levels[0] == levels[1]);
    let mut names: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".library"));
    assert_eq!(names.len(), 1, "{names:?}");
    let library = std::fs::read_dir(directory.path().join(&names[0])).unwrap();
    let objects = library.map(|entry| entry.unwrap().file_name());
    assert!(objects.into_iter().any(|name| name == "verilated.o"));
}

#[test]
fn invalid_verilog_is_an_error_with_verilators_message_and_leaves_no_model() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = "module top(input x); assign y = ; endmodule";
    let error = cache::model(wrong, directory.path(), false, |_| {});
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("verilator refused the card:") && text.contains("syntax error"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
