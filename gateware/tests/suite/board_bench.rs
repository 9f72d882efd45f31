//! Simulates the boards' whole Verilog, including pads, PLL and the PHY side, with
//! `tests/readers/board_bench`: a bench that was written from the documents alone and in which
//! unknown levels stay visible. The tests are reported as skipped if the bench cannot run.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use gateware::boards::{Board, alchitry_cu, ecpix_5};

use crate::tools;

/// Exit codes of the bench: the board was rejected; a tool is not installed.
const REFUSED: i32 = 3;
const MISSING: i32 = 77;

/// The start of a recording in `tests/vectors`.
struct Excerpt {
    vector: &'static str,
    accesses: u32,
}

/// A recording with every kind of command: power-up, power-down, self refresh, auto-precharge,
/// burst terminate.
const ALL_COMMANDS: Excerpt = Excerpt { vector: "v12_ddr1_directed", accesses: 800 };
/// A recording with two bursts to most lines.
const DENSE: Excerpt = Excerpt { vector: "v19_ddr1_bl4_open_same_row", accesses: 1300 };
/// One data frame, for boards that must be rejected.
const SHORT: Excerpt = Excerpt { accesses: 20, ..DENSE };

fn verilog(board: &Board) -> String {
    let memory = gateware::synth::memory(None).expect("the built-in memory");
    (board.verilog)(&memory, board.fifo_kb[0]).expect("a board")
}

/// Runs a case of the bench, with `:` a seed of it, on a board's Verilog. Whether it passed and
/// what it printed; `None` where the bench cannot run.
fn run(
    test: &str,
    board: &Board,
    verilog: &str,
    case: &str,
    excerpt: &Excerpt,
) -> Option<(bool, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join("target/tools/bin/python");
    if !python.exists() {
        skip(test, "cocotb is not installed (`make setup` installs it)");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let card = folder.path().join("card.v");
    fs::write(&card, verilog).expect("card.v is written");
    let (case, seed) = case.split_once(':').unwrap_or((case, "1"));
    let output = Command::new(python)
        .arg(root.join("tests/readers/board_bench/run.py"))
        .args(["--board", board.name, "--case", case, "--seed", seed])
        .args(["--accesses", &excerpt.accesses.to_string()])
        .arg("--vector")
        .arg(root.join("tests/vectors").join(excerpt.vector))
        .arg("--verilog")
        .arg(card)
        .arg("--build")
        .arg(folder.path())
        .output()
        .expect("Python starts");
    let printed = tools::printed(&output);
    match output.status.code() {
        Some(0) => Some((true, printed)),
        Some(REFUSED) => Some((false, printed)),
        Some(MISSING) => {
            skip(test, printed.lines().last().unwrap_or_default());
            None
        }
        _ => panic!("the bench ended with {}: {printed}", output.status),
    }
}

fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

fn passes(test: &str, board: &Board, case: &str, excerpt: &Excerpt) {
    let Some((passed, printed)) = run(test, board, &verilog(board), case, excerpt) else { return };
    assert!(passed, "{printed}");
}

/// Number of changed boards that a test tries. Each takes some ten seconds. `make long` sets
/// `HMTT_LONG_BENCH`, so that all are tried.
fn tried(changes: usize) -> usize {
    if std::env::var_os("HMTT_LONG_BENCH").is_some() { changes } else { changes.min(1) }
}

/// Checks that the bench rejects each change of the Verilog's text, with the expected message.
fn refuses(test: &str, board: &Board, changes: &[(&str, &str, &str)]) {
    let verilog = verilog(board);
    for (text, changed, words) in &changes[..tried(changes.len())] {
        assert_eq!(verilog.matches(text).count(), 1, "`{text}` in the Verilog of {}", board.name);
        let changed = verilog.replace(text, changed);
        let Some((passed, printed)) = run(test, board, &changed, "replay", &SHORT) else { return };
        assert!(!passed, "{}: `{text}` changed, and nothing noticed", board.name);
        assert!(printed.contains(words), "{}: `{text}` changed: {printed}", board.name);
    }
}

#[test]
fn the_alchitry_cu_sends_the_accesses_of_a_recording_on_gmii() {
    let test = "the_alchitry_cu_sends_the_accesses_of_a_recording_on_gmii";
    passes(test, &alchitry_cu::BOARD, "replay", &ALL_COMMANDS);
}

#[test]
fn the_ecpix_5_sends_the_accesses_of_a_recording_on_rgmii() {
    let test = "the_ecpix_5_sends_the_accesses_of_a_recording_on_rgmii";
    passes(test, &ecpix_5::BOARD, "replay", &DENSE);
}

/// The hot pages are counted in tables that must be empty at power-on, as the device's block RAM
/// is.
#[test]
fn a_board_names_the_hot_pages_of_a_recording() {
    let test = "a_board_names_the_hot_pages_of_a_recording";
    let excerpt = Excerpt { accesses: 3000, ..DENSE };
    passes(test, &alchitry_cu::BOARD, "analysis", &excerpt);
}

/// Also what a PLL does until it has locked: clocks of any length.
#[test]
fn boards_with_the_run_switch_on_send_nothing_before_their_pll_has_locked() {
    let test = "boards_with_the_run_switch_on_send_nothing_before_their_pll_has_locked";
    for board in [alchitry_cu::BOARD, ecpix_5::BOARD] {
        passes(test, &board, "power_on", &SHORT);
    }
}

/// Each seed corrupts other registers of the DDR domain, and as the clock stops none, once or
/// twice; more seeds by hand.
#[test]
fn a_board_recovers_from_runt_edges_of_a_lost_clock() {
    let test = "a_board_recovers_from_runt_edges_of_a_lost_clock";
    for (board, case) in [(alchitry_cu::BOARD, "runt_edges:2"), (ecpix_5::BOARD, "runt_edges:4")] {
        passes(test, &board, case, &DENSE);
    }
}

/// Without a reset, and without that of the FIFO's reader.
#[test]
fn a_board_that_does_not_recover_from_runt_edges_is_refused() {
    let test = "a_board_that_does_not_recover_from_runt_edges_is_refused";
    let verilog = verilog(&alchitry_cu::BOARD);
    let changes = [
        ("ddr[(64'h1)+:(1)] = ddr_reset$reset;", "ddr[(64'h1)+:(1)] = 1'b0;"),
        ("tx_thread$rewind = ddr_restart$clears;", "tx_thread$rewind = 1'b0;"),
    ];
    for (text, changed) in &changes[..tried(changes.len())] {
        assert_eq!(verilog.matches(text).count(), 1, "`{text}` in the Verilog");
        let changed = verilog.replace(text, changed);
        let Some((passed, _)) = run(test, &alchitry_cu::BOARD, &changed, "runt_edges:2", &DENSE)
        else {
            return;
        };
        assert!(!passed, "`{text}` changed, and nothing noticed");
    }
}

/// Of the card itself, what only this bench sees: gap and check sequence.
#[test]
fn a_wrong_alchitry_cu_is_rejected() {
    let changes = [
        (
            "txd_pads$levels = card$gmii_txd;",
            "txd_pads$levels = card$gmii_txd ^ 8'h10;",
            "preamble",
        ),
        (".D_OUT_0(1'b0), .D_OUT_1(1'b1)", ".D_OUT_0(1'b1), .D_OUT_1(1'b0)", "before its edge"),
        ("a_pads$pads = a;", "a_pads$pads = {a[12:2], a[0], a[1]};", "access "),
        (".DIVF(7'd9)", ".DIVF(7'd8)", "a transmit clock of"),
        ("localparam  gap_left = 4'ha;", "localparam  gap_left = 4'h9;", "a gap of"),
    ];
    refuses("a_wrong_alchitry_cu_is_rejected", &alchitry_cu::BOARD, &changes);
}

#[test]
fn a_wrong_ecpix_5_is_rejected() {
    let changes = [
        ("txd_pads$rising = low;", "txd_pads$rising = low ^ 4'h8;", "preamble"),
        ("txd_pads$falling = high;", "txd_pads$falling = high ^ 4'bx000;", "in a frame"),
        (
            "tx_ctl_pad$clock = pll$clock_out;",
            "tx_ctl_pad$clock = pll$clock_90;",
            "before its edge",
        ),
        ("tx_ctl_pad$falling = tx_ctl;", "tx_ctl_pad$falling = 1'b0;", "TX_ER"),
        (".CLKOS_FPHASE(2)", ".CLKOS_FPHASE(7)", "after an edge"),
    ];
    refuses("a_wrong_ecpix_5_is_rejected", &ecpix_5::BOARD, &changes);
}
