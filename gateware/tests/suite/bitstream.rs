//! Tests the build of bitstreams with the real tools: the files, the table, and rejected inputs.
//! The tests are reported as skipped if the tools are not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gateware::bitstream::tools::{Step, Tools};
use gateware::bitstream::{BitstreamError, Family, Outcome, Plan, Requirement, build};

use crate::tools;
use crate::verdicts::Inputs;
use gateware::boards::{Board, alchitry_cu, ecpix_5};

const ICE40: Family = Family::Ice40 { device: "hx8k", package: "cb132" };
const ECP5: Family = Family::Ecp5 { device: "um5g-85k", package: "CABGA554", speed: "8" };

/// Returns the directory into which `make setup` installs tools.
fn folder_of_tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin")
}

/// Whether the tools of an FPGA family are installed. Missing ones are reported.
fn there(test: &str, family: Family) -> bool {
    match Tools::new(&folder_of_tools()).require(&family.tools()) {
        Ok(()) => true,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
            false
        }
    }
}

/// Returns the inputs of a board's bitstream: Verilog, constraints, the steps and the tools'
/// versions.
fn inputs(board: &Board, fifo_kb: usize, family: Family) -> Inputs {
    let memory = gateware::synth::memory(None).expect("the built-in memory");
    let mut parts = vec![(board.verilog)(&memory, fifo_kb).expect("a board").into_bytes()];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [root.join("src/bitstream"), root.join("../constraints").join(board.name)] {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort();
        parts.extend(files.iter().map(|file| fs::read(file).expect("an input")));
    }
    let tools = Tools::new(&folder_of_tools());
    for (tool, option) in family.tools().into_iter().zip(["-V", "--version"]) {
        let path = tools.find(tool).expect("it is installed");
        let version = Command::new(path).arg(option).output().expect("it starts");
        parts.push(tools::printed(&version).into_bytes());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Inputs::new(format!("bitstream of {} with {fifo_kb} KiB", board.name), &parts)
}

/// A counter that drives a pin.
const SMALL: &str = "module top(input clk, output led);
reg [7:0] count = 0;
always @(posedge clk) count <= count + 1;
assign led = count[7];
endmodule
";

/// Builds a design with one clock.
fn small(
    family: Family,
    verilog: &str,
    constraints: &str,
    mhz: f64,
) -> (tempfile::TempDir, Result<Outcome, BitstreamError>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("card.v"), verilog).expect("card.v is written");
    fs::write(folder.path().join("pins"), constraints).expect("pins is written");
    let outcome = build(
        &Plan {
            folder: folder.path(),
            family,
            constraints: "pins",
            requirements: &[Requirement { name: "the", net: "clk", mhz }],
            seeds: 2,
            sweep: false,
            jobs: 1,
            tools: &Tools::new(&folder_of_tools()),
        },
        &|_| {},
    );
    (folder, outcome)
}

#[test]
fn a_small_design_meets_timing_with_the_first_seed() {
    for (family, pins, files) in [
        (ICE40, "set_io clk P7\nset_io led J11\nset_frequency clk 100\n", &["card.bin"][..]),
        (
            ECP5,
            "LOCATE COMP \"clk\" SITE \"K23\";\nLOCATE COMP \"led\" SITE \"R21\";\n\
             FREQUENCY PORT \"clk\" 100 MHZ;\n",
            &["card.bit", "card.svf"],
        ),
    ] {
        if !there("a_small_design_meets_timing_with_the_first_seed", family) {
            continue;
        }
        let (folder, outcome) = small(family, SMALL, pins, 100.0);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.met());
        assert_eq!(outcome.routed.len(), 1, "the first seed was enough");
        assert!(outcome.routed[0].clocks[0].achieved > 100.0);
        for (file, packed) in files.iter().zip(&outcome.packed) {
            assert_eq!(packed.path, folder.path().join(file));
            assert!(packed.bytes > 10_000, "{file}: {} bytes", packed.bytes);
        }
        assert_eq!(files.len(), outcome.packed.len());
    }
}

#[test]
fn missed_timing_is_reported_after_all_seeds_and_not_packed_as_a_good_bitstream() {
    if !there("missed_timing_is_reported_after_all_seeds_and_not_packed_as_a_good_bitstream", ICE40)
    {
        return;
    }
    let pins = "set_io clk P7\nset_io led J11\nset_frequency clk 900\n";
    let (folder, outcome) = small(ICE40, SMALL, pins, 900.0);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.met());
    assert_eq!(outcome.routed.len(), 2);
    assert!(!folder.path().join("card.bin").exists());
    assert!(folder.path().join("card-misses-timing.bin").exists());
}

#[test]
fn constraints_that_do_not_match_the_design_are_rejected() {
    if !there("constraints_that_do_not_match_the_design_are_rejected", ICE40) {
        return;
    }
    let latch = "module top(input clk, input d, output reg led);
always @* if (clk) led = d;
endmodule
";
    let undriven = "module top(input clk, output led);
wire nothing;
assign led = clk ^ nothing;
endmodule
";
    let good = "set_io clk P7\nset_io led J11\nset_frequency clk 100\n";
    let cases = [
        ("Latch inferred", latch, "set_io clk P7\nset_io led J11\nset_io d K11\n".into()),
        ("has no driver", undriven, good.into()),
        ("'led' is unconstrained", SMALL, good.replace("set_io led J11\n", "")),
        ("not have a pin named 'Z99'", SMALL, good.replace("J11", "Z99")),
        ("unmatched constraint 'other'", SMALL, format!("{good}set_io other K11\n")),
        ("clock constraint", SMALL, good.replace("frequency clk", "frequency ck")),
        ("constrained to 50 MHz instead of 100", SMALL, good.replace("100", "50")),
        ("syntax error", "module top(input clk, output led) endmodule", good.into()),
    ];
    for (words, verilog, pins) in cases {
        let (_folder, outcome) = small(ICE40, verilog, &pins, 100.0);
        let error = outcome.expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn a_port_without_pin_is_rejected_on_the_ecp5() {
    if !there("a_port_without_pin_is_rejected_on_the_ecp5", ECP5) {
        return;
    }
    let pins = "LOCATE COMP \"clk\" SITE \"K23\";\nFREQUENCY PORT \"clk\" 100 MHZ;\n";
    let (_folder, outcome) = small(ECP5, SMALL, pins, 100.0);
    let error = outcome.expect_err("no pin for led").to_string();
    assert!(error.contains("'led' is unconstrained"), "{error}");
}

/// Builds the whole card for a board, and checks that the table agrees with the exit status.
/// Returns the directory, the table, and whether every clock meets timing.
fn card_for(board: &str, seeds: &str) -> (tempfile::TempDir, serde_json::Value, bool) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_gateware"))
        .args(["synth", "--board", board, "--bitstream", "--seeds", seeds, "--jobs", "1"])
        .args(["--json", "--out"])
        .args([folder.path(), Path::new("--tools"), &folder_of_tools()])
        .output()
        .expect("the command starts");
    let printed = tools::printed(&output);
    let table: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let seeds = table["seeds"].as_array().expect("seeds");
    let packed = seeds.iter().find(|seed| seed["seed"] == table["packed_seed"]).expect("its seed");
    let clocks = packed["clocks"].as_array().expect("clocks");
    let required: Vec<f64> =
        clocks.iter().map(|clock| clock["required_mhz"].as_f64().expect("MHz")).collect();
    assert_eq!(required, [125.0, 100.0]);
    let fast = |clock: &serde_json::Value| {
        clock["achieved_mhz"].as_f64().expect("MHz") >= clock["required_mhz"].as_f64().expect("MHz")
    };
    let met = clocks.iter().all(fast);
    assert_eq!(table["met"], met, "{printed}");
    assert_eq!(output.status.code(), Some(if met { 0 } else { 1 }), "{printed}");
    (folder, table, met)
}

/// The bitstream must be readable, and its pads must be registered.
#[test]
fn the_card_becomes_a_bitstream_for_the_alchitry_cu() {
    let test = "the_card_becomes_a_bitstream_for_the_alchitry_cu";
    if !there(test, ICE40) {
        return;
    }
    let inputs = inputs(&alchitry_cu::BOARD, alchitry_cu::BOARD.fifo_kb[0], ICE40);
    if inputs.verdict().is_some() {
        return;
    }
    let (folder, table, met) = card_for("alchitry-cu", "3");
    let out = folder.path();
    assert!(met, "{table}");
    let Some(tiles) = tiles_of(test, &out.join("card.bin")) else { return };
    for (port, expected) in [
        ("a[12]", ""),
        ("cs_n", ""),
        ("ba[1]", ""),
        ("run", "PINTYPE_0"),
        ("gmii_txd[7]", "PINTYPE_2 PINTYPE_4"),
        ("gmii_tx_en", "PINTYPE_2 PINTYPE_4"),
        ("gmii_gtx_clk", "PINTYPE_4"),
        ("led[0]", "PINTYPE_0 PINTYPE_3 PINTYPE_4"),
    ] {
        assert_eq!(pad(out, &tiles, port), expected, "{port}");
    }
    inputs.keep("passed");
}

/// Returns the configuration of a bitstream, tile by tile.
fn tiles_of(test: &str, bitstream: &Path) -> Option<String> {
    let unpacked = bitstream.with_extension("unpacked");
    let unpack =
        tools::run(test, "iceunpack", Command::new("iceunpack").args([bitstream, &unpacked]))?;
    assert!(unpack.status.success(), "{}", tools::printed(&unpack));
    let explained =
        tools::run(test, "icebox_explain", Command::new("icebox_explain").arg(unpacked))?;
    assert!(explained.status.success(), "{}", tools::printed(&explained));
    Some(String::from_utf8_lossy(&explained.stdout).into_owned())
}

/// Returns the set bits of the type of a port's pad. Without `PINTYPE_0` an input is registered;
/// with 2 and 4 an output is; with 4 alone the pad has a pair of registers (iCE40 technology
/// library, SB_IO).
fn pad(out: &Path, tiles: &str, port: &str) -> String {
    let log = fs::read_to_string(out.join("seed-1.log")).expect("nextpnr's log");
    let placed = format!("constrained '{port}' to bel 'X");
    let place = log.split(&placed).nth(1).and_then(|rest| rest.split('\'').next());
    let place: Vec<&str> =
        place.unwrap_or_else(|| panic!("{port} has a place")).split('/').collect();
    let [x, y, pad] = place[..] else { panic!("{place:?}") };
    let pad = pad.trim_start_matches("io");
    let tile = format!(".io_tile {x} {}\n", y.trim_start_matches('Y'));
    let lines = tiles.split(&tile).nth(1).and_then(|rest| rest.split("\n\n").next());
    let block = format!("IOB_{pad} ");
    let lines = lines.expect("the tile is used").lines();
    let mut bits: Vec<&str> = lines.filter_map(|line| line.strip_prefix(&block)).collect();
    bits.sort_unstable();
    bits.join(" ")
}

/// Uses the FIFO of 128 KB of the paper; the block RAMs of the smaller LFE5UM5G-45F would suffice.
/// A seed takes a minute or two; the first one has met every clock so far.
#[test]
fn the_card_becomes_a_bitstream_for_the_ecpix_5() {
    let test = "the_card_becomes_a_bitstream_for_the_ecpix_5";
    if !there(test, ECP5) {
        return;
    }
    let inputs = inputs(&ecpix_5::BOARD, ecpix_5::BOARD.fifo_kb[0], ECP5);
    if inputs.verdict().is_some() {
        return;
    }
    let (folder, table, met) = card_for("ecpix-5", "3");
    let out = folder.path();
    assert!(met, "{table}");
    let memories = table["seeds"][0]["resources"]["block_RAMs"]["used"].as_u64().expect("a count");
    assert!((64..=108).contains(&memories), "{table}");
    let unpack = Step::new("ecpunpack", "ecpunpack.log", &["card.bit", "unpacked"]);
    let tools = Tools::new(&folder_of_tools());
    tools.run(out, &unpack).unwrap_or_else(|error| panic!("{test}: {error}"));
    let tiles = fs::read_to_string(out.join("unpacked")).expect("what the bitstream configures");
    for (port, expected) in [
        ("cke[0]", Register::Single),
        ("cs_n[0]", Register::Single),
        ("ras_n", Register::Single),
        ("cas_n", Register::Single),
        ("we_n", Register::Single),
        ("ba[1]", Register::Single),
        ("a[0]", Register::Single),
        ("a[12]", Register::Single),
        ("ddr_clock", Register::None),
        ("rgmii_txd[0]", Register::DoubleRate),
        ("rgmii_txd[3]", Register::DoubleRate),
        ("rgmii_tx_ctl", Register::DoubleRate),
        ("rgmii_txc", Register::DoubleRate),
        ("phy_reset_n", Register::None),
    ] {
        assert_eq!(register(out, &tiles, port), expected, "{port}");
    }
    inputs.keep("passed");
}

/// Registers of an ECP5 pad.
#[derive(Debug, PartialEq)]
enum Register {
    None,
    Single,
    DoubleRate,
}

/// Returns the registers of a port's pad at the top edge. Pads A are configured in the column of
/// the pad, pads B in the next one (Project Trellis, tiles PICT0 and PICT1). A single register is
/// the mode without bits of its own; its clock has bits.
fn register(out: &Path, tiles: &str, port: &str) -> Register {
    let log = fs::read_to_string(out.join("seed-1.log")).expect("nextpnr's log");
    let placed = format!("pin '{port}$tr_io' constrained to Bel 'X");
    let place = log.split(&placed).nth(1).and_then(|rest| rest.split('\'').next());
    let place: Vec<&str> =
        place.unwrap_or_else(|| panic!("{port} has a place")).split('/').collect();
    let [column, "Y0", pad @ ("PIOA" | "PIOB")] = place[..] else { panic!("{place:?}") };
    let column: u32 = column.parse().expect("a column");
    let (column, half) = if pad == "PIOA" { (column, 'A') } else { (column + 1, 'B') };
    let tile = format!(".tile MIB_R1C{column}:PICT");
    let tile = tiles.split(&tile).nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or("");
    let has = |setting: &str| {
        let line = format!("enum: IOLOGIC{half}.{setting}");
        tile.lines().any(|found| found == line)
    };
    match (has("CLKIMUX CLK"), has("MODE IDDRX1_ODDRX1")) {
        (false, false) => Register::None,
        (true, false) => Register::Single,
        (true, true) => Register::DoubleRate,
        (false, true) => panic!("{port}: double data rate without a clock"),
    }
}

/// Uses the largest FIFO, twice the paper's, in block RAM. The next size would not fit.
#[test]
fn the_largest_fifo_maps_to_the_ecpix_5() {
    if !there("the_largest_fifo_maps_to_the_ecpix_5", ECP5) {
        return;
    }
    let inputs = inputs(&ecpix_5::BOARD, 256, ECP5);
    if inputs.verdict().is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_gateware"))
        .args(["synth", "--board", "ecpix-5", "--fifo-kb", "256", "--out", "out", "--tools"])
        .arg(std::path::absolute(folder_of_tools()).expect("a folder"))
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    let printed = tools::printed(&output);
    assert!(output.status.success(), "{printed}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let at = words.iter().position(|&word| word == "block").unwrap_or_else(|| panic!("{printed}"));
    let memories: u32 = words[at - 1].parse().expect("a count");
    assert!((128..=208).contains(&memories), "{printed}");
    inputs.keep("passed");
}
