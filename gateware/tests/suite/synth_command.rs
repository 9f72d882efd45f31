//! Tests the `gateware` command: the files that it writes, and the errors for inputs that it
//! rejects.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gateware::boards::BOARDS;

use crate::tools;

/// Runs the command without yosys, because mapping takes long and the lint tests it.
fn gateware(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gateware"))
        .current_dir(folder)
        .env("PATH", "")
        .args(arguments)
        .output()
        .expect("the command starts")
}

/// Runs `synth` on a memory description that must be rejected without writing files. Returns the
/// error.
fn refusal(memory: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("memory.toml"), memory).expect("memory.toml is written");
    let arguments = ["synth", "--memory", "memory.toml", "--out", "out"];
    let output = gateware(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", tools::printed(&output));
    assert!(!folder.path().join("out").exists(), "something was written");
    tools::printed(&output)
}

const MEMORY: &str = "generation = 'DDR1'
speed = 'DDR-200'
bus_bytes = 8
burst_length = 4
[map]
column = ['p3-p13']
bank = ['p14-p15']
row = ['p16-p28']
";

#[test]
fn synth_writes_verilog_constraints_and_a_build_script() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = gateware(folder.path(), &["synth", "--out", "out"]);
    let printed = tools::printed(&output);
    assert!(output.status.success(), "{printed}");
    let mut names: Vec<String> = fs::read_dir(folder.path().join("out"))
        .expect("the folder was made")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["build.sh", "card.pcf", "card.v"]);
    let verilog = fs::read_to_string(folder.path().join("out/card.v")).expect("card.v is read");
    assert!(verilog.contains("module top("), "no top module");
    insta::assert_snapshot!(printed);
}

/// Returns the ports of the top module, bit by bit.
fn ports(verilog: &str) -> Vec<String> {
    let top = verilog.split("module top(").nth(1).expect("a top module");
    let mut ports: Vec<String> = Vec::new();
    for line in top.split("endmodule").next().unwrap_or("").lines().map(str::trim) {
        let Some(rest) = line.strip_prefix("input").or_else(|| line.strip_prefix("output")) else {
            continue;
        };
        let name = rest.trim_end_matches(';').split_whitespace().last().expect("a name");
        match rest.split_once('[').and_then(|(_, width)| width.split_once(':')) {
            None => ports.push(name.into()),
            Some((last, _)) => {
                let last: usize = last.parse().expect("a width");
                ports.extend((0..=last).map(|bit| format!("{name}[{bit}]")));
            }
        }
    }
    ports.sort();
    ports
}

/// Parses port and pin of each line of a constraints file that places a port.
fn pins(constraints: &str) -> Vec<(String, String)> {
    let mut pins: Vec<(String, String)> = constraints
        .lines()
        .filter_map(|line| {
            let plain = line.replace(['"', ';'], " ");
            let words: Vec<&str> = plain.split_whitespace().collect();
            match words[..] {
                ["set_io", port, pin, ..] => Some((port.into(), pin.into())),
                ["LOCATE", "COMP", port, "SITE", pin, ..] => Some((port.into(), pin.into())),
                _ => None,
            }
        })
        .collect();
    pins.sort();
    pins
}

/// Every port of the board must have a pin, and every pin a port.
#[test]
fn the_constraints_name_exactly_the_ports_of_the_board_and_no_pin_twice() {
    for board in BOARDS {
        let memory = gateware::synth::memory(None).expect("the built-in memory");
        let verilog = (board.verilog)(&memory, board.fifo_kb[0]).expect("a board");
        let (names, mut sites): (Vec<String>, Vec<String>) =
            pins(board.constraints.1).into_iter().unzip();
        assert_eq!(names, ports(&verilog), "{}", board.name);
        sites.sort();
        sites.dedup();
        assert_eq!(sites.len(), names.len(), "{}: a pin with two ports", board.name);
    }
}

/// The tables of docs/hardware.md have rows `| port | pin | ... |` under the board's heading.
#[test]
fn the_pin_tables_of_the_document_are_the_constraints() {
    let document = include_str!("../../../docs/hardware.md");
    for board in BOARDS {
        let heading = format!("`{}`", board.name);
        let section = document
            .split("\n## ")
            .find(|section| section.lines().next().is_some_and(|line| line.contains(&heading)))
            .unwrap_or_else(|| panic!("docs/hardware.md has no section on {}", board.name));
        let mut rows: Vec<(String, String)> = Vec::new();
        for line in section.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let ["", port, pin, ..] = cells[..]
                && let Some(port) = port.strip_prefix('`').and_then(|port| port.strip_suffix('`'))
            {
                rows.push((port.into(), pin.into()));
            }
        }
        rows.sort();
        assert_eq!(rows, pins(board.constraints.1), "{}", board.name);
    }
}

/// Returns the cells of the table under a line of docs/hardware.md.
fn table<'a>(document: &'a str, under: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = document.split_once(under).unwrap_or_else(|| panic!("no `{under}`"));
    let rows = rest.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.split('|').map(str::trim).collect()).collect()
}

/// The table of speed bins states `fits` exactly where a board's fastest DDR clock reaches the
/// bin's.
#[test]
fn the_document_names_the_speed_bins_that_fit_by_its_table_of_clocks() {
    let document = include_str!("../../../docs/hardware.md");
    let number = |cell: &str| cell.split([' ', ',']).next().and_then(|n| n.parse::<f64>().ok());
    let clocks = table(document, "<!-- TIMING -->");
    let fastest = |name: &str| {
        let of_board = clocks.iter().filter(|row| row[1].trim_matches('`') == name);
        of_board.filter_map(|row| number(row[4])).reduce(f64::max)
    };
    let bins = table(document, "## Which memory fits");
    assert!(bins.len() > 4);
    for (at, name) in [(3, "alchitry-cu"), (4, "ecpix-5")] {
        let fastest = fastest(name).unwrap_or_else(|| panic!("no clocks of {name}"));
        let board = gateware::boards::board(name).expect("the board");
        assert_eq!(board.fastest_ddr_mhz, fastest, "{name}");
        for bin in &bins {
            let slowest = number(bin[2]).unwrap_or_else(|| panic!("no clock in {bin:?}"));
            assert_eq!(bin[at].starts_with("fits"), slowest <= fastest, "{name}: {bin:?}");
            assert!(bin[at].starts_with("fits") || bin[at].starts_with("too fast"), "{bin:?}");
        }
        assert!(fastest < 125.0, "the sentence on DDR2");
    }
}

/// The Verilog of a memory that is too fast for the board is written, with a warning.
#[test]
fn a_clock_that_no_build_reaches_is_warned_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fast = MEMORY.replace("DDR-200", "DDR-400");
    fs::write(folder.path().join("memory.toml"), fast).expect("memory.toml is written");
    let arguments = ["synth", "--memory", "memory.toml", "--out", "out"];
    let output = gateware(folder.path(), &arguments);
    assert!(output.status.success(), "{}", tools::printed(&output));
    assert!(folder.path().join("out/card.v").exists());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_fifo_the_board_has_no_room_for_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = gateware(folder.path(), &["synth", "--fifo-kb", "9", "--out", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("out").exists(), "something was written");
    insta::assert_snapshot!(tools::printed(&output));
}

#[test]
fn a_bitstream_without_tools_says_what_to_install() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = gateware(folder.path(), &["synth", "--out", "out", "--bitstream"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(tools::printed(&output));
}

/// The DDR domain must reach the memory's clock, unless the option states another one.
#[test]
fn the_constraints_carry_the_memory_s_clock() {
    let line = |arguments: &[&str]| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("m.toml"), MEMORY.replace("DDR-200", "DDR-400")).expect("m");
        let output = gateware(folder.path(), &[&["synth", "--out", "out"], arguments].concat());
        assert!(output.status.success(), "{}", tools::printed(&output));
        let text = fs::read_to_string(folder.path().join("out/card.pcf")).expect("card.pcf");
        let line = text.lines().find(|line| line.contains("set_frequency clock_input.ddr_clock"));
        line.expect("a line").to_string()
    };
    assert!(line(&[]).ends_with(" 100"), "{}", line(&[]));
    let ddr400 = line(&["--memory", "m.toml"]);
    assert!(ddr400.ends_with(" 200"), "{ddr400}");
    assert!(line(&["--memory", "m.toml", "--ddr-mhz", "50"]).ends_with(" 50"));
}

#[test]
fn memories_that_make_no_sense_are_refused_with_file_and_reason() {
    let wrong = [
        refusal(&MEMORY.replace("burst_length = 4", "burst_length = 5")),
        refusal(&MEMORY.replace("speed", "sped")),
        refusal(&MEMORY.replace("p14-p15", "p13-p14")),
        refusal(&MEMORY.replace("'DDR1'", "'DDR9'")),
        refusal(&MEMORY.replace("[map]", "tick_clocks = 1\n[map]")),
    ];
    insta::assert_snapshot!(wrong.join("\n"));
}

#[test]
fn memories_the_board_has_no_pins_for_are_refused() {
    let wrong = [
        refusal(&MEMORY.replace("p14-p15", "p14-p15', 'p29")),
        refusal(&MEMORY.replace("p16-p28", "p16-p29")),
        refusal(&MEMORY.replace("DDR1", "DDR4")),
    ];
    insta::assert_snapshot!(wrong.join("\n"));
}

#[test]
fn a_missing_memory_file_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = gateware(folder.path(), &["synth", "--memory", "none.toml", "--out", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("out").exists(), "something was written");
    insta::assert_snapshot!(tools::printed(&output));
}

#[test]
fn an_unknown_board_is_refused_with_the_names_of_the_boards() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = gateware(folder.path(), &["synth", "--board", "breadboard", "--out", "out"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!folder.path().join("out").exists(), "something was written");
    insta::assert_snapshot!(tools::printed(&output));
}

#[test]
fn help_says_what_can_be_chosen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pages = [&["--help"][..], &["synth", "--help"]].map(|arguments| {
        let output = gateware(folder.path(), arguments);
        assert!(output.status.success());
        tools::printed(&output)
    });
    insta::assert_snapshot!(pages.join("\n"));
}
