//! Tests `hmtt ctl`, and that the C header makes the same accesses.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_test_support::programs::transcript;

use crate::trace::{decoded, each_access, number};
use crate::{hmtt, scratch, skipped};

/// Commands of the C program, in its order.
const WORDS: &str = "reset mode line mode page mode frequency mode analysis tag-base 0x9876543210 \
    tag-window on tag-window off start mark 0 mark 255 mark kernel-enter mark kernel-exit stop";

fn ctl(options: &[&str], words: &str) -> std::process::Output {
    let words: Vec<&str> = words.split_whitespace().collect();
    hmtt(&[&["ctl"], options, &words[..]].concat())
}

/// Offsets of the accesses that `--dry-run` prints.
fn dry_run(words: &str) -> Vec<u64> {
    let output = ctl(&["--dry-run"], words);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let offsets = text.lines().map(|line| {
        let offset = line.strip_prefix("R,").and_then(|line| line.strip_suffix(",4"));
        number(offset.unwrap_or_else(|| panic!("{line}")))
    });
    offsets.collect()
}

#[test]
fn a_dry_run_reads_each_register_32_times() {
    let mut expected = vec![0x80; 32];
    expected.extend([0xc8; 32]);
    expected.extend([0x828; 32]);
    assert_eq!(dry_run("reset mode page mark 5"), expected);
}

#[test]
fn wrong_words_are_wrong_usage() {
    for words in ["", "restart", "mode fast", "mark 256", "slice"] {
        assert_eq!(ctl(&["--dry-run"], words).status.code(), Some(2), "{words}");
    }
}

#[test]
fn a_device_that_cannot_be_mapped_is_named_with_advice() {
    let short = scratch("ctl-short");
    std::fs::write(&short, [0; 4095]).unwrap();
    let short = short.to_str().unwrap();
    let cases = [
        ("/dev/no-such-device", "cannot open /dev/no-such-device"),
        (short, "4096 bytes are needed, 4095 are there; name a device that has all registers"),
        ("/dev/null", "it is no device or file that can be mapped"),
        ("/dev/zero:5", "a window begins at a multiple of 4096, not at 5"),
    ];
    for (device, reason) in cases {
        let output = ctl(&["--device", device], "start");
        assert_eq!(output.status.code(), Some(1), "{device}");
        let text = transcript(&output);
        assert!(text.contains(reason), "{device}: {text}");
    }
}

#[test]
fn commands_are_sent_to_a_mapped_file() {
    let file = scratch("ctl-registers");
    std::fs::write(&file, [0; 8192]).unwrap();
    let device = format!("{}:4096:4096", file.display());
    assert_eq!(transcript(&ctl(&["--device", &device], WORDS)), "--- exit code 0\n");
}

/// A memory description, in TOML.
const MEMORY: &str = "../gateware/memories/ddr1-512m.toml";

/// Writes commands into a recording. Returns the transcript.
fn record(file: &Path, words: &str) -> String {
    let file = file.to_str().unwrap();
    transcript(&ctl(&["--memory", MEMORY, "--record", file], words))
}

#[test]
fn recordings_are_extended_at_their_end() {
    let file = scratch("ctl-extended.cmd");
    let _ = std::fs::remove_file(&file);
    assert_eq!(record(&file, "start"), "--- exit code 0\n");
    let first = std::fs::read_to_string(&file).unwrap();
    assert_eq!(record(&file, "stop"), "--- exit code 0\n");
    let second = std::fs::read_to_string(&file).unwrap();
    let body = |text: &str| text.split_once("---\n").unwrap().1.to_owned();
    let added =
        body(&second).strip_prefix(&body(&first)).expect("the old lines are kept").to_owned();
    // READs of the column that address 0x90 has: RAS# 1, CAS# 0, WE# 1.
    assert_eq!(added.lines().filter(|line| line.ends_with(" 1 0 1 0 1 0 12")).count(), 32);
    let clock = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    let clocks: Vec<u64> = body(&second).lines().map(clock).collect();
    assert!(clocks.is_sorted_by(|one, other| one < other));
    let last = second.lines().find_map(|line| line.strip_prefix("last_clock=")).unwrap();
    assert!(last.trim().parse::<u64>().unwrap() > clocks[clocks.len() - 1]);
}

#[test]
fn recordings_that_cannot_be_extended_stay_as_they_are() {
    let file = scratch("ctl-template.cmd");
    let _ = std::fs::remove_file(&file);
    record(&file, "start");
    let good = std::fs::read_to_string(&file).unwrap();
    let last = good.lines().last().unwrap();
    let cases = [
        (good.replace("unlisted_clocks=deselect", "unlisted_clocks=none"), "a line for each clock"),
        (good.replace("clock cke cs_n", "clock cs_n cke"), "it has the columns clock cs_n cke"),
        (good.replace(last, &last.replacen(" 1 ", " 0 ", 1)), "it ends with CKE low"),
        (good.replace("---\n", ""), "its header"),
        (good.replace("generation=DDR1", "generation=DDR3"), "another generation"),
        (good.replace("last_clock=", "last_clock=999999999999"), "2^48"),
        (format!("{good}{}", "7".repeat(5000)), "a line is longer than 4096 bytes"),
    ];
    for (number, (text, reason)) in cases.iter().enumerate() {
        let file = scratch(&format!("ctl-refused-{number}.cmd"));
        std::fs::write(&file, text).unwrap();
        let shown = record(&file, "stop");
        assert!(shown.contains(reason) && shown.ends_with("exit code 1\n"), "{reason}: {shown}");
        assert!(std::fs::read_to_string(&file).unwrap() == *text, "{reason}");
        assert!(!file.with_extension("cmd.part").exists(), "{reason}");
    }
    let compressed = record(&scratch("ctl.cmd.gz"), "stop");
    assert!(compressed.contains("decompress one that ends in .cmd.gz"), "{compressed}");
    let new = ctl(&["--record", scratch("ctl-new.cmd").to_str().unwrap()], "stop");
    assert!(transcript(&new).contains("a new recording requires --memory FILE.toml"));
}

/// Builds a program that sends [`WORDS`] with the C header; `None` if there is no compiler.
fn c_program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = scratch("ctl-c-program");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-std=c11", "-I"]);
    command.arg(root.join("../probe/include")).arg("-o").arg(&program);
    let output = match command.arg(root.join("tests/suite/ctl/commands.c")).output() {
        Ok(output) => output,
        Err(error) => {
            skipped(format!("cc: {error}"));
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn the_c_header_makes_the_accesses_of_a_dry_run() {
    let Some(program) = c_program() else { return };
    let (registers, trace) = (scratch("ctl-c-registers"), scratch("ctl-c.acc"));
    std::fs::write(&registers, [0; 4096]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--overwrite", "-o"]).arg(&trace).arg("--");
    let output = command.arg(&program).arg(&registers).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let window = number(printed.trim().trim_start_matches("0x"));
    let mut offsets = Vec::new();
    each_access(&decoded(&trace), |(_, direction), address, size| {
        if let Some(offset) = address.checked_sub(window).filter(|offset| *offset < 4096)
            && size == 4
        {
            assert_eq!(direction, 'R');
            offsets.push(offset);
        }
    });
    assert_eq!(offsets, dry_run(WORDS));
}
