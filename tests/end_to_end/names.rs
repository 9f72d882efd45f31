//! Every key that the simulator and reports of tags in a trace write is in the glossary's list of
//! names.

use hmtt_test_support::names::assert_json_documented;
use hmtt_tests::{succeed, vector};

fn assert_printed(arguments: &[&str]) {
    let printed = serde_json::from_str(&succeed("hmtt-sim", arguments)).unwrap();
    assert_json_documented(&format!("hmtt-sim {arguments:?}"), &printed);
}

#[test]
fn keys_of_the_simulator_are_documented() {
    let [commands, truth] =
        ["cmd.gz", "truth.gz"].map(|suffix| vector("v01_ddr1_tiny_open", suffix));
    let [commands, truth] = [&commands, &truth].map(|path| path.to_str().unwrap());
    let engine = ["--engine", "verilator", "--json"];
    assert_printed(&[&["replay", commands, "--truth", truth][..], &engine].concat());
    assert_printed(&[&["saturate", "--clocks", "20000"][..], &engine].concat());
    let directory = tempfile::tempdir().unwrap();
    let [accesses, output] = ["accesses", "x.cmd"].map(|name| directory.path().join(name));
    std::fs::write(&accesses, "R,1000,8\n").unwrap();
    let [accesses, output] = [&accesses, &output].map(|path| path.to_str().unwrap());
    assert_printed(&["record", "--accesses", accesses, "-o", output, "--json"]);
}
