//! What end-to-end tests and benchmarks share: where the programs and the vectors are, and how a
//! program is run.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use hmtt_format::{Access, truth};

pub mod forged;
pub mod fuzz;
pub mod hostile;
pub mod load;
pub mod measure;
pub mod oracle;

/// The DDR1 vectors.
pub const DDR1: [&str; 12] = [
    "v01_ddr1_tiny_open",
    "v02_ddr1_tiny_rtl_init",
    "v03_ddr1_medium_open",
    "v04_ddr1_medium_closed_bl4",
    "v05_ddr1_medium_rtl",
    "v06_ddr1_powerdown_closed",
    "v07_ddr1_selfrefresh_open",
    "v08_ddr1_litedram",
    "v12_ddr1_directed",
    "v13_ddr1_directed_bl8",
    "v16_ddr1_faults",
    "v19_ddr1_bl4_open_same_row",
];

/// The vectors of the later generations.
pub const LATER: [&str; 7] = [
    "v09_ddr2_open",
    "v10_ddr3_open",
    "v11_ddr3_xor_open",
    "v14_ddr2_directed",
    "v15_ddr3_directed_OTF",
    "v17_ddr3_faults",
    "v18_ddr4_open",
];

/// A file of a vector: `cmd.gz`, `truth.gz` or `flags.txt`.
pub fn vector(name: &str, suffix: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(format!("{name}.{suffix}"))
}

/// The text of a gzip-compressed file.
pub fn gunzip(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a vector is gzip text");
    text
}

/// The accesses a vector really holds.
pub fn accesses(name: &str) -> Vec<Access> {
    let text = gunzip(&vector(name, "truth.gz"));
    text.lines().filter_map(|line| truth::parse_line(line).expect("a truth line")).collect()
}

/// The first number behind `key=` in a vector's header.
pub fn header_number(name: &str, key: &str) -> u64 {
    let text = gunzip(&vector(name, "cmd.gz"));
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} has no {key}="))
}

/// Path of one of the programs, built if need be by the cargo that runs the tests, in their profile.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows its own path");
        let mut folder = test.parent().expect("in a folder").to_path_buf();
        if folder.ends_with("deps") {
            folder.pop();
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "hmtt-sim", "-p", "hmtt-host", "--bins"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let target = folder.parent().expect("target/PROFILE");
        cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().expect("cargo runs").success(), "the programs build");
        folder
    });
    folder.join(name)
}

/// Runs a program to its end.
pub fn run(name: &str, arguments: &[&str]) -> Output {
    let path = program(name);
    Command::new(&path)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a program that must succeed; its standard output.
pub fn succeed(name: &str, arguments: &[&str]) -> String {
    let output = run(name, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("programs print text")
}

/// Says, past the test harness's capture, that a test was skipped.
pub fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "skipped: {test}: {reason}");
}

/// Whether a tool is there, asked with `--version`.
pub fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}
