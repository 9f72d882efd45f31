//! Tests the command `hmtt-sim`: help, messages, exit status and files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support;

fn vector(suffix: &str) -> String {
    support::vectors().join(format!("v01_ddr1_tiny_open.{suffix}")).to_str().unwrap().to_owned()
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt-sim"));
    command
        .args(arguments)
        .current_dir(directory)
        // The width of the help follows the terminal, if there is one.
        .stdin(Stdio::null())
        .env_remove("COLUMNS");
    command
}

fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().unwrap()
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = run_in(Path::new("."), arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_lists_commands_and_options() {
    insta::assert_snapshot!("help", run(&["--help"]).1);
    insta::assert_snapshot!("help_replay", run(&["replay", "--help"]).1);
    insta::assert_snapshot!("help_record", run(&["record", "--help"]).1);
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let input = vector("cmd.gz");
    let cases: [&[&str]; 6] = [
        &["replay", "no-such.cmd.gz"],
        &["replay", &input, "--slice", "3ms"],
        &["replay", &input, "--speed", "2"],
        &["replay", &input, "--memory", "no-such.toml"],
        &["replay", &input, "--truth", "no-such.truth"],
        &["replay", &input, "-i", "no-such-if"],
    ];
    let messages: Vec<_> = cases
        .iter()
        .map(|case| {
            let (status, stdout, stderr) = run(case);
            assert_eq!((status, &stdout[..]), (2, ""), "{case:?}");
            stderr
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn an_equal_truth_exits_with_0_and_another_with_1() {
    let truth = vector("truth.gz");
    let replay = |truth: &str| {
        run(&["replay", &vector("cmd.gz"), "--truth", truth, "--engine", "verilator"])
    };
    let (status, stdout, _) = replay(&truth);
    assert_eq!((status, &stdout[..]), (0, "truth: 645 accesses, all equal\n"));
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong");
    fs::write(&wrong, "6 R 1500ffc0\n14 W 216f8c0\n").unwrap();
    let (status, stdout, _) = replay(wrong.to_str().unwrap());
    assert_eq!(status, 1);
    insta::assert_snapshot!(stdout);
}

#[test]
fn both_engines_write_the_same_bytes_and_files_are_overwritten_only_with_force() {
    let directory = tempfile::tempdir().unwrap();
    let input = vector("cmd.gz");
    let write = |engine: &str, output: &str, more: &[&str]| {
        let arguments = ["replay", &input, "--engine", engine, "-q", "-o", output];
        run_in(directory.path(), &[&arguments, more].concat())
    };
    assert_eq!(write("rust", "a.pcapng", &[]).status.code(), Some(0));
    assert_eq!(write("verilator", "b.pcapng", &[]).status.code(), Some(0));
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("a.pcapng") == read("b.pcapng"));
    let again = write("verilator", "a.pcapng", &[]);
    assert_eq!(again.status.code(), Some(2));
    let message = String::from_utf8(again.stderr).unwrap();
    assert_eq!(message, "hmtt-sim: a.pcapng exists; -f overwrites it\n");
    assert_eq!(write("verilator", "a.pcapng", &["-f"]).status.code(), Some(0));
}

#[test]
fn a_truncated_recording_leaves_no_output_file() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs::read(vector("cmd.gz")).unwrap();
    fs::write(directory.path().join("cut.gz"), &whole[..whole.len() - 100]).unwrap();
    let arguments = ["replay", "cut.gz", "--engine", "verilator", "-o", "cut.pcapng"];
    let output = run_in(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cut.gz:") && message.contains("cannot read on"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_summary_can_be_json() {
    let truth = vector("truth.gz");
    let arguments =
        ["replay", &vector("cmd.gz"), "--truth", &truth, "--engine", "verilator", "--json"];
    let (status, stdout, stderr) = run(&arguments);
    assert_eq!((status, &stderr[..]), (0, ""));
    let mut summary: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    summary["clocks_per_second"] = 0.into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap());
}

/// A recording of two accesses of a row, without a memory description.
const BARE: &str = "# ddr command-bus vector 1
last_clock=400
---
10 1 0 0 1 1 2 122
20 1 0 1 0 1 2 10
40 1 0 1 0 0 2 18
60 1 0 0 1 0 2 0
";
const MEMORY: &str = "generation = 'DDR1'
speed = 'DDR-200'
bus_bytes = 8
burst_length = 8
[map]
column = ['p3-p13']
bank = ['p14-p15']
row = ['p16-p28']
";

#[test]
fn a_memory_description_replaces_the_recordings_own() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("memory.toml", MEMORY);
    write("truth", "20 R 1228080\n40 W 12280c0\n");
    let replay = |more: &[&str]| {
        let arguments = [&["replay", "x.cmd", "--truth", "truth"], more].concat();
        run_in(directory.path(), &arguments)
    };
    // The header has no description, a partial one without a map, or one with other banks and rows.
    for header in ["", "generation=DDR1\nspeed=DDR-200\nchip_selects=1\n", "map row[0]=p20\n"] {
        write("x.cmd", &BARE.replace("last_clock", &format!("{header}last_clock")));
        let output = replay(&["--memory", "memory.toml"]);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, "truth: 2 accesses, all equal\n", "{header}: {:?}", output.stderr);
        assert_eq!(output.status.code(), Some(0), "{header}");
    }
}

#[test]
fn the_error_for_a_missing_map_names_line_and_option() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x.cmd"), BARE).unwrap();
    let output = run_in(directory.path(), &["replay", "x.cmd"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        printed,
        "hmtt-sim: x.cmd:3: the header has no address map (`map row[0]=p16` and so on); add it, or \
         describe the memory with --memory FILE\n"
    );
}

/// A verilator that fails to compile. The announcement is printed before the compiler runs.
const FAILING_VERILATOR: &str = "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 0\nexit 1\n";

#[test]
fn compiling_a_card_is_announced_on_standard_error_unless_quiet() {
    let directory = tempfile::tempdir().unwrap();
    let verilator = directory.path().join("verilator");
    fs::write(&verilator, FAILING_VERILATOR).unwrap();
    fs::set_permissions(&verilator, fs::Permissions::from_mode(0o755)).unwrap();
    let input = vector("cmd.gz");
    let replay = |more: &[&str]| {
        let options = ["replay", &input, "--engine", "verilator", "--cache", "cache"];
        let arguments = [&options, more].concat();
        let output = command(directory.path(), &arguments).env("PATH", directory.path()).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]));
        String::from_utf8(output.stderr).unwrap()
    };
    let printed = replay(&[]);
    let announced =
        "compiling the card with verilator, once: this can take a minute; kept as cache/";
    assert!(printed.starts_with(announced), "{printed}");
    assert!(printed.contains("\nhmtt-sim: verilator refused the card:"), "{printed}");
    for quiet in ["--quiet", "--json"] {
        let printed = replay(&[quiet]);
        assert!(printed.starts_with("hmtt-sim: verilator refused the card:"), "{printed}");
    }
}

const ACCESSES: &str = "R,1000,8\nW,1008,8\nI  400000,3\n M 2040,4\nR,1040,64\nW,9fff,2\n";

#[test]
fn a_recording_of_accesses_is_replayed_with_an_equal_truth() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("accesses"), ACCESSES).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let output = run_in(directory.path(), &["record", "--accesses", "accesses", "-o", "x.cmd.gz"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b""[..]), "{output:?}");
    insta::assert_snapshot!(text(output.stderr), @r"
    7 accesses of the program in 5 pages
    i1: 0 hits, 1 misses, 0 write-backs
    l1: 2 hits, 5 misses, 0 write-backs
    l2: 0 hits, 6 misses, 0 write-backs
    l3: 0 hits, 6 misses, 0 write-backs
    memory: 6 lines read, 0 written; 4 changed lines are left in caches
    12 bursts: 10 row hits, 2 misses, 0 conflicts
    310 clocks (3.1 us), 21 commands, 0 refreshes; the processor was stopped for 0 clocks
    ");
    let arguments = ["replay", "x.cmd.gz", "--truth", "x.truth.gz"];
    let replayed = run_in(directory.path(), &arguments);
    assert_eq!(text(replayed.stdout), "truth: 12 accesses, all equal\n");
    let arguments = ["record", "--accesses", "accesses", "--json", "-o"];
    let again = run_in(directory.path(), &[&arguments, &["x.cmd.gz"][..]].concat());
    assert_eq!(text(again.stderr), "hmtt-sim: x.cmd.gz exists; -f overwrites it\n");
    let options = ["x.cmd.gz", "-f", "--no-caches", "--data-only", "--page-policy", "closed"];
    let output = run_in(directory.path(), &[&arguments, &options[..]].concat());
    insta::assert_snapshot!("the_counts_of_a_recording", text(output.stdout));
}

#[test]
fn mistakes_in_accesses_and_caches_are_explained_and_leave_no_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("accesses"), ACCESSES).unwrap();
    fs::write(directory.path().join("wrong"), "R,0,8\nR,0,0\n").unwrap();
    let full: String = (0..2000).map(|page| format!("R,{page:x}000,1\n")).collect();
    fs::write(directory.path().join("full"), full).unwrap();
    let small = MEMORY.replace("p28", "p22");
    fs::write(directory.path().join("memory.toml"), small).unwrap();
    let cases: [&[&str]; 9] = [
        &["--accesses", "wrong", "-o", "x.cmd"],
        &["--accesses", "absent", "-o", "x.cmd"],
        &["--accesses", "accesses", "-o", "x.txt"],
        &["--accesses", "full", "-o", "x.cmd", "--memory", "memory.toml"],
        &["--accesses", "accesses", "-o", "x.cmd", "--cache", "l2=32K,8,64,lru"],
        &["--accesses", "accesses", "-o", "x.cmd", "--cache", "l1=33K,8,64,lru"],
        &["--accesses", "accesses", "-o", "x.cmd", "--cpu-ratio", "0"],
        &["--accesses", "accesses", "-o", "x.cmd", "--page-frames", "any"],
        &["--accesses", "accesses", "-o", "no/x.cmd"],
    ];
    let messages: Vec<_> = cases
        .iter()
        .map(|case| {
            let output = run_in(directory.path(), &[&["record"], *case].concat());
            assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{case:?}");
            String::from_utf8(output.stderr).unwrap()
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
}

#[test]
fn text_of_files_and_arguments_controls_no_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let control = "\u{1b}]0;forged\u{7}\u{1b}[2J";
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("x.cmd", BARE);
    write("syntax.toml", &format!("generation = {control}"));
    write(
        "value.toml",
        &MEMORY.replace("DDR1", control).replace('\'', "\"").replace(control, "\\u001b[2J"),
    );
    write("key.toml", "\"\\u001b[2J\" = 1\n");
    write("pins.toml", "clock = \"\\u001b[2J\"\n\"\\u001b\" = 2\n");
    let file = format!("{control}.cmd");
    let option = format!("--{control}");
    for arguments in [
        &["replay", "x.cmd", "--memory", "syntax.toml"][..],
        &["replay", "x.cmd", "--memory", "value.toml"],
        &["replay", "x.cmd", "--memory", "key.toml"],
        &["replay", "x.vcd", "--pins", "pins.toml"],
        &["replay", &file],
        &["replay", &option],
        &["record", &option, "true"],
        &["record", "-o", "r.cmd", "--", &file],
    ] {
        let output = run_in(directory.path(), arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_ne!(output.status.code(), Some(0), "{arguments:?}: {text}");
        let control_letter = text.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(control_letter, None, "{arguments:?}: {text:?}");
    }
}

#[test]
fn an_unknown_option_before_the_program_is_named() {
    for option in ["--no-such-option", "-Z"] {
        let (status, _, errors) = run(&["record", "-o", "never.cmd", option, "/bin/true"]);
        assert!(errors.contains(&format!("unexpected argument '{option}'")), "{errors}");
        assert_eq!(status, 2);
    }
    assert!(!Path::new("never.cmd").exists());
}
