//! Compares pins and clock of the Alchitry Cu with rust-hdl's package for the board,
//! `rust-hdl-bsp-alchitry-cu`. Also tests the deficiencies of that package for which the board has
//! its own constraints, PLL and build (`docs/hardware.md`).
//!
//! Only this test depends on the package; a card is built without it.

use std::panic::catch_unwind;
use std::process::Command;

use gateware::boards::alchitry_cu::BOARD;
use rust_hdl::fpga::lattice::ice40::ice_pll::ICE40PLLBlock;
use rust_hdl::prelude::*;
use rust_hdl_bsp_alchitry_cu::pins::{self, CLOCK_SPEED_100MHZ};

use crate::tools;

/// Frequency of the clock of GMII in Hz (IEEE 802.3, clause 35).
const GMII_HZ: u64 = 125_000_000;

/// Ports whose pad the package does not define: the button's.
const NOT_IN_THE_PACKAGE: [&str; 1] = ["run"];

/// A port, its pad, and the connector pin that is wired to the pad, if any.
#[derive(Clone, Debug)]
struct ComparedItem {
    port: String,
    pad: String,
    connector: Option<String>,
}

/// Parses the lines `set_io PORT PAD # CONNECTOR` of the constraints.
fn parse_constraints() -> Vec<ComparedItem> {
    let placed = |line: &str| {
        let (placing, comment) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<&str> = placing.split_whitespace().collect();
        let ["set_io", port, pad] = words[..] else { return None };
        let connector = Some(comment.trim().to_string()).filter(|comment| !comment.is_empty());
        Some(ComparedItem { port: port.into(), pad: pad.into(), connector })
    };
    BOARD.constraints.1.lines().filter_map(placed).collect()
}

/// Parses the rows of the board's table in docs/hardware.md.
fn parse_document() -> Vec<ComparedItem> {
    let document = include_str!("../../../docs/hardware.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Alchitry Cu"));
    let placed = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", port, pad, connector, ..] = cells[..] else { return None };
        let port = port.strip_prefix('`')?.strip_suffix('`')?;
        let connector = Some(connector.to_string()).filter(|pin| pin != "on the board");
        Some(ComparedItem { port: port.into(), pad: pad.into(), connector })
    };
    section.expect("a section on the board").lines().filter_map(placed).collect()
}

/// Returns the pads of a signal of the package, by bit.
fn pads(signal: &impl Atom) -> Vec<String> {
    let mut pads: Vec<(usize, String)> = signal
        .constraints()
        .into_iter()
        .filter_map(|pin| match pin.constraint {
            Constraint::Location(pad) => Some((pin.index, pad)),
            _ => None,
        })
        .collect();
    pads.sort();
    pads.into_iter().map(|(_, pad)| pad).collect()
}

/// Returns the pad that the package wires to a connector pin. Panics for unknown pins.
fn pad_of_connector(pin: &str) -> Option<String> {
    let pin = pin.to_string();
    catch_unwind(move || pins::map_alchitry_pin_to_cu_pad(&pin).to_string()).ok()
}

/// Returns the pad that the package defines for a port.
fn expected(placed: &ComparedItem) -> Option<String> {
    match (&placed.connector, placed.port.strip_prefix("led[")) {
        (Some(pin), _) => pad_of_connector(pin),
        (None, Some(led)) => {
            pads(&pins::leds()).get(led.trim_end_matches(']').parse::<usize>().ok()?).cloned()
        }
        (None, None) if placed.port == "clock_100" => pads(&pins::clock()).first().cloned(),
        (None, None) => None,
    }
}

/// Returns every placement that the package contradicts or does not confirm.
fn differences(placed: &[ComparedItem]) -> Vec<String> {
    let differs = |placed: &&ComparedItem| expected(placed).as_ref() != Some(&placed.pad);
    placed
        .iter()
        .filter(|placed| !NOT_IN_THE_PACKAGE.contains(&placed.port.as_str()))
        .filter(differs)
        .map(|placed| format!("{placed:?}, in the package {:?}", expected(placed)))
        .collect()
}

#[test]
fn every_pad_equals_the_one_in_the_package() {
    for placed in [parse_constraints(), parse_document()] {
        assert!(placed.iter().any(|placed| placed.port == "clock_100"), "no clock");
        assert_eq!(placed.iter().filter(|placed| placed.port.starts_with("led[")).count(), 8);
        assert_eq!(differences(&placed), [""; 0]);
    }
}

/// The comparison must reject a board on which any one pin differs.
#[test]
fn a_changed_pin_is_a_difference() {
    let right = parse_constraints();
    for at in 0..right.len() {
        if NOT_IN_THE_PACKAGE.contains(&right[at].port.as_str()) {
            continue;
        }
        let mut wrong = right.clone();
        wrong[at].pad = right[(at + 1) % right.len()].pad.clone();
        assert_eq!(differences(&wrong).len(), 1, "{:?}", wrong[at]);
        if right[at].connector.is_some() {
            let mut wrong = right.clone();
            wrong[at].connector = Some("A1".into());
            assert_eq!(differences(&wrong).len(), 1, "{:?}", wrong[at]);
        }
    }
}

/// Returns the value of a parameter in Verilog, such as `.DIVF(7'd9)`.
fn parameter(verilog: &str, name: &str) -> u64 {
    let literal =
        verilog.split(&format!(".{name}(")).nth(1).and_then(|rest| rest.split(')').next());
    let literal = literal.unwrap_or_else(|| panic!("no {name} in:\n{verilog}"));
    let (_, value) = literal.split_once('\'').expect("a width");
    let radix = match value.as_bytes()[0] {
        b'b' => 2,
        b'd' => 10,
        b'h' => 16,
        other => panic!("{name}: base {}", other as char),
    };
    u64::from_str_radix(&value[1..], radix).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the reference divider, the feedback divider, and log2 of the output divider.
fn dividers(verilog: &str) -> [u64; 3] {
    ["DIVR", "DIVF", "DIVQ"].map(|name| parameter(verilog, name))
}

fn board() -> String {
    let memory = gateware::synth::memory(None).expect("the built-in memory");
    (BOARD.verilog)(&memory, BOARD.fifo_kb[0]).expect("a board")
}

/// Returns the PLL that rust-hdl's block emits.
fn pll_of_rust_hdl() -> String {
    let mut pll = ICE40PLLBlock::<CLOCK_SPEED_100MHZ, GMII_HZ>::default();
    pll.clock_in.connect();
    pll.connect_all();
    generate_verilog(&pll)
}

#[test]
fn the_pll_derives_the_gmii_clock_from_the_package_s_oscillator() {
    let [reference, feedback, output] = dividers(&board());
    assert_eq!(CLOCK_SPEED_100MHZ / (reference + 1) * (feedback + 1) >> output, GMII_HZ);
    assert_eq!(dividers(&pll_of_rust_hdl()), [reference, feedback, output]);
}

#[test]
fn the_filter_range_of_the_pll_is_the_one_that_icepll_states() {
    let test = "the_filter_range_of_the_pll_is_the_one_that_icepll_states";
    let [from, to] = [CLOCK_SPEED_100MHZ, GMII_HZ].map(|hz| (hz / 1_000_000).to_string());
    let mut icepll = Command::new("icepll");
    let Some(output) = tools::run(test, "icepll", icepll.args(["-i", &from, "-o", &to])) else {
        return;
    };
    let printed = tools::printed(&output);
    let stated = printed.lines().find_map(|line| line.strip_prefix("FILTER_RANGE:"));
    let stated = stated.and_then(|range| range.split_whitespace().next());
    let range = stated.unwrap_or_else(|| panic!("{printed}"));
    assert_eq!(parameter(&board(), "FILTER_RANGE").to_string(), range);
}

/// Tests why the board does not use these parts of the package. If one is repaired,
/// `docs/hardware.md` and the board can be changed.
#[test]
fn deficiencies_of_the_package_are_as_documented() {
    for pin in ["B2", "C2", "D2"] {
        assert_eq!(pad_of_connector(pin), None, "{pin}");
    }
    assert_eq!(parameter(&pll_of_rust_hdl(), "FILTER_RANGE"), 1);
    let instance = |line: &&str| line.trim().starts_with("SB_PLL40_CORE ");
    let instances = |verilog: &str| verilog.lines().filter(instance).count();
    assert_eq!((instances(&board()), instances(&pll_of_rust_hdl())), (1, 2));
}
