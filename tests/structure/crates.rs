//! Checks the dependencies between crates as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::source::Crate;

/// Crates of the workspace that each crate may use, except in tests. ARCHITECTURE.md has the same
/// list.
const ALLOWED: [(&str, &[&str]); 14] = [
    ("hmtt-format", &[]),
    ("hmtt-files", &["hmtt-format"]),
    ("hmtt-paths", &[]),
    ("gateware", &["hmtt-format"]),
    (
        "hmtt-sim",
        &[
            "hmtt-format",
            "hmtt-files",
            "gateware",
            "hmtt",
            "hmtt-paths",
            "hmtt-probe",
            "hmtt-translator",
        ],
    ),
    ("hmtt", &["hmtt-format", "hmtt-files"]),
    ("hmtt-host", &["hmtt-format", "hmtt", "hmtt-paths"]),
    ("hmtt-probe", &["hmtt-format", "hmtt-files", "hmtt-paths"]),
    ("hmtt-translator", &["hmtt-format", "hmtt-files", "hmtt-paths", "hmtt-probe"]),
    ("hmtt-dataset", &["hmtt-format", "hmtt-files", "hmtt", "hmtt-paths"]),
    (
        "hmtt-cli",
        &[
            "hmtt-format",
            "hmtt-files",
            "hmtt",
            "hmtt-dataset",
            "hmtt-host",
            "hmtt-paths",
            "hmtt-probe",
            "hmtt-translator",
        ],
    ),
    ("hmtt-test-support", &["hmtt-format", "hmtt-files", "hmtt"]),
    (
        "hmtt-fuzz",
        &[
            "hmtt-format",
            "hmtt-files",
            "hmtt",
            "hmtt-dataset",
            "hmtt-sim",
            "hmtt-probe",
            "hmtt-translator",
            "hmtt-test-support",
        ],
    ),
    (
        "hmtt-tests",
        &[
            "hmtt-format",
            "hmtt-files",
            "hmtt",
            "hmtt-sim",
            "hmtt-probe",
            "hmtt-translator",
            "hmtt-test-support",
            "hmtt-fuzz",
        ],
    ),
];

/// The direct dependencies of the receiver, the only program that needs a privilege.
const RECEIVER: [&str; 17] = [
    "anyhow",
    "clap",
    "hmtt",
    "hmtt-format",
    "hmtt-paths",
    "libc",
    "nix",
    "pnet_datalink",
    "prometheus",
    "ratatui",
    "rustix",
    "serde",
    "serde_json",
    "signal-hook",
    "thiserror",
    "time",
    "zstd",
];

/// Crates that the receiver must not depend on, directly or indirectly.
const HEAVY: [&str; 8] =
    ["csv", "gimli", "hmtt-probe", "iced-x86", "inferno", "object", "parquet", "rust-hdl"];

/// Runs cargo in the workspace. Returns what it prints.
pub fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// Returns the names of the packages that a program depends on, to a depth.
fn tree(package: &str, depth: &[&str]) -> BTreeSet<String> {
    let own = ["tree", "--offline", "-e", "normal", "--prefix", "none", "-p", package];
    let names = cargo(&[&own[..], &["--format", "{p}"], depth].concat());
    let names = names.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != package && !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn crates_use_only_allowed_crates() {
    let metadata = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let name = |value: &Value| value["name"].as_str().expect("it has a name").to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut used = BTreeMap::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array().expect("there is a list");
        let normal = dependencies.iter().filter(|one| one["kind"].is_null()).map(name);
        used.insert(name(package), normal.filter(|one| ours.contains(one)).collect());
    }
    let allowed: BTreeMap<String, BTreeSet<String>> = ALLOWED
        .iter()
        .map(|(name, used)| (name.to_string(), used.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(used, allowed);
}

/// Modules of the library that the simulator uses. Others decode frames, and the simulator checks
/// frames independently.
const OF_SIMULATOR: [&str; 2] = ["access_trace", "cache"];

/// The modules of the library that a crate names, besides the allowed ones.
fn other_modules(examined_crate: &Crate) -> BTreeSet<String> {
    let paths = examined_crate.modules.iter().flat_map(|module| &module.paths);
    let of_library = paths.filter(|path| path[0] == "hmtt");
    let names = of_library.map(|path| path.get(1).cloned().unwrap_or_default());
    names.filter(|name| !OF_SIMULATOR.contains(&name.as_str())).collect()
}

#[test]
fn the_simulator_decodes_no_frames_with_the_library() {
    for root in ["sim/src/lib.rs", "sim/src/bin/hmtt-sim/main.rs"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(root);
        assert_eq!(other_modules(&Crate::read(&file)), BTreeSet::new(), "{root}");
    }
    let wrong = "use hmtt::{cache::Hierarchy, decode}; mod a { fn f() { hmtt::Trace::open(1) } }";
    let expected = ["Trace", "decode"].map(str::to_owned);
    assert_eq!(other_modules(&Crate::parse(wrong)), expected.into_iter().collect());
}

#[test]
fn the_receiver_has_few_dependencies() {
    let direct = tree("hmtt-host", &["--depth", "1"]);
    println!("hmtt-host uses: {direct:?}");
    assert_eq!(direct, RECEIVER.iter().map(ToString::to_string).collect());
    let dependencies = tree("hmtt-host", &[]);
    println!("which use {} crates: {dependencies:?}", dependencies.len());
    let heavy: Vec<&str> = HEAVY.into_iter().filter(|name| dependencies.contains(*name)).collect();
    assert!(heavy.is_empty(), "{heavy:?}");
    // The heavy crates are found in a program that uses them.
    let dependencies = tree("hmtt-cli", &[]);
    let missed: Vec<&str> =
        HEAVY.into_iter().filter(|name| !dependencies.contains(*name)).collect();
    assert_eq!(missed, ["rust-hdl"]);
}

#[test]
fn the_format_has_no_dependencies_without_features() {
    assert_eq!(tree("hmtt-format", &["--no-default-features"]), BTreeSet::new());
}

#[test]
fn the_demonstration_compiles_no_tags_and_no_parquet() {
    let dependencies = tree("hmtt-cli", &["--no-default-features"]);
    let heavy = HEAVY.into_iter().filter(|name| dependencies.contains(*name)).collect::<Vec<_>>();
    // HMTT's tables as CSV come with the command's first subcommand, `decode`.
    assert_eq!(heavy, ["csv"]);
}
