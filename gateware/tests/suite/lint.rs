//! Checks the emitted Verilog of card and board with yosys, iverilog and verilator.

use std::fs;
use std::process::{Command, Output};

use gateware::boards::alchitry_cu;
use gateware::{CardParameters, FifoSize, emit};
use hmtt_format::MemoryDescription;

use crate::verdicts::Inputs;
use crate::{memories, tools};

fn card(memory: MemoryDescription) -> String {
    card_with_fifo(memory, FifoSize::Kb8)
}

fn card_with_fifo(memory: MemoryDescription, fifo: FifoSize) -> String {
    emit::verilog(&CardParameters { memory, fifo }).expect("a card")
}

fn board() -> String {
    (alchitry_cu::BOARD.verilog)(&memories::ddr1(""), 8).expect("a board")
}

/// Runs a tool in a directory that contains the Verilog as `top.v`.
fn tool(test: &str, verilog: &str, tool: &str, arguments: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("top.v"), verilog).expect("top.v is written");
    tools::run(test, tool, Command::new(tool).current_dir(&folder).args(arguments))
}

/// Returns the warnings of synthesis; `None` without yosys. Technology mapping is left out, because
/// latches and loops are inferred before it.
fn synthesis_complaints(test: &str, verilog: &str) -> Option<Vec<String>> {
    let script = "read_verilog top.v; hierarchy -check -top top; proc; check -assert";
    let output = tool(test, verilog, "yosys", &["-p", script])?;
    let printed = tools::printed(&output);
    let mut complaints: Vec<String> = printed
        .lines()
        .filter(|line| line.contains("Latch inferred") || line.contains("ERROR"))
        .map(String::from)
        .collect();
    if !output.status.success() {
        complaints.push(output.status.to_string());
    }
    Some(complaints)
}

#[test]
fn yosys_maps_the_board_without_latches() {
    let test = "yosys_maps_the_board_without_latches";
    let Some(version) = tools::run(test, "yosys", Command::new("yosys").arg("-V")) else { return };
    let (board, version) = (board(), tools::printed(&version));
    let arguments = ["-p", "read_verilog top.v; synth_ice40 -top top"];
    let parts = [&board, version.as_str(), arguments[1]].map(str::as_bytes);
    let inputs = Inputs::new("netlist of alchitry-cu", &parts);
    if inputs.verdict().is_some() {
        return;
    }
    let Some(output) = tool(test, &board, "yosys", &arguments) else { return };
    let printed = tools::printed(&output);
    assert!(output.status.success(), "{printed}");
    assert!(!printed.contains("Latch inferred"), "{printed}");
    assert!(printed.contains("SB_RAM40_4K"), "the FIFO became flip-flops");
    inputs.keep("passed");
}

#[test]
fn yosys_finds_no_latch_in_cards_of_any_memory() {
    for memory in memories::decoded() {
        let name = memory.generation.name();
        let complaints =
            synthesis_complaints("yosys_finds_no_latch_in_cards_of_any_memory", &card(memory));
        assert!(complaints.is_none_or(|lines| lines.is_empty()), "{name}");
    }
}

#[test]
fn a_latch_is_reported() {
    let verilog = card(memories::ddr1("")).replace("default: word = 32'h0;", "");
    let complaints = synthesis_complaints("a_latch_is_reported", &verilog);
    assert!(complaints.is_none_or(|lines| !lines.is_empty()), "a latch in a table goes unnoticed");
}

#[test]
fn iverilog_has_no_warning_for_cards_of_either_size() {
    let arguments = ["-g2005", "-Wall", "-Wno-timescale", "-o", "card.vvp", "top.v"];
    let test = "iverilog_has_no_warning_for_cards_of_either_size";
    for fifo in FifoSize::ALL {
        let card = card_with_fifo(memories::ddr1(""), fifo);
        let Some(output) = tool(test, &card, "iverilog", &arguments) else { return };
        let printed = tools::printed(&output);
        assert!(output.status.success(), "{printed}");
        assert_eq!(printed, "");
    }
}

#[test]
fn verilator_accepts_the_card() {
    let arguments = ["--lint-only", "-Wno-WIDTH", "-Wno-UNOPTFLAT", "--top-module", "top", "top.v"];
    let test = "verilator_accepts_the_card";
    let Some(output) = tool(test, &card(memories::ddr1("")), "verilator", &arguments) else {
        return;
    };
    assert!(output.status.success(), "{}", tools::printed(&output));
}

/// Returns name, ports and port widths of each module except the flip-flops.
fn interfaces(verilog: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in verilog.lines().map(str::trim) {
        if let Some(module) = line.strip_prefix("module ") {
            lines.push(module.split('(').next().unwrap_or(module).to_string());
        }
        let Some((kind, rest)) = line.split_once(' ').filter(|_| line.ends_with(';')) else {
            continue;
        };
        if matches!(kind, "input" | "output") {
            let rest = rest.trim_end_matches(';');
            let is_type = |word: &&str| matches!(*word, "wire" | "reg");
            let rest: Vec<&str> = rest.split_whitespace().skip_while(is_type).collect();
            let rest = rest.concat();
            let direction = if kind == "input" { '<' } else { '>' };
            let (width, name) = match rest.split_once(']') {
                Some((width, name)) => (format!("{width}]"), name),
                None => (String::new(), rest.as_str()),
            };
            let last = lines.last_mut().expect("a port belongs to a module");
            *last += &format!("\n    {direction} {name}{width}");
        }
    }
    let is_flip_flop = |module: &String| {
        let ports: Vec<&str> = module.lines().skip(1).map(|port| &port[..7]).collect();
        ports == ["    < d", "    > q", "    < c"]
    };
    lines.retain(|module| !is_flip_flop(module));
    lines.join("\n")
}

#[test]
fn names_of_ports_may_contain_the_words_reg_and_wire() {
    let ports = "input wire [8:0] register;\ninput wire wired;\noutput reg  [1:0] reg_word;";
    let listed = "m\n    < register[8:0]\n    < wired\n    > reg_word[1:0]";
    assert_eq!(
        interfaces(&format!("module m(register,wired,reg_word);\n{ports}\nendmodule")),
        listed
    );
}

#[test]
fn modules_and_port_widths_stay_as_they_are() {
    insta::assert_snapshot!(interfaces(&card(memories::ddr1(""))));
}
