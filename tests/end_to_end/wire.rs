//! Runs pins -> card -> veth pair -> `hmtt-recv` -> `hmtt decode`, and compares the result with the
//! truth file byte for byte.

use std::process::Command;

use hmtt_tests::{DDR1, gunzip, program, skip, vector};

use crate::captures::{comments, decode, path};

/// The script, run in its own user and network namespaces. Arguments: vector, capture, engine.
const SCRIPT: &str = r#"
set -eu
PATH=$PATH:/usr/sbin
ip link add card type veth peer name eth1
for end in card eth1; do
    echo 1 >"/proc/sys/net/ipv6/conf/$end/disable_ipv6" 2>/dev/null || :
    ip link set "$end" up
done
"$RECV" eth1 -w "$2" --until-end -a duration:300 --json >"$2.json" 2>"$2.log" &
receiver=$!
tries=0
until grep -q '^capturing on' "$2.log"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$receiver"; then cat "$2.log" >&2; exit 9; fi
    sleep 0.1
done
"$SIM" replay "$1" --granularity burst --engine "$3" -i card --quiet
wait "$receiver"
"#;

/// Whether namespaces and veth pairs can be created on this machine.
pub fn wires_work() -> bool {
    let probe = "PATH=$PATH:/usr/sbin; ip link add card type veth peer name eth1";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "sh", "-c", probe]);
    unshare.output().is_ok_and(|output| output.status.success())
}

fn capture(name: &str, engine: &str, capture: &std::path::Path) {
    capture_file(&vector(name, "cmd.gz"), engine, capture);
}

/// Captures what a card sends for a recording.
pub fn capture_file(input: &std::path::Path, engine: &str, capture: &std::path::Path) {
    let name = input.display();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"])
        .args([path(input), path(capture), engine])
        .env("RECV", program("hmtt-recv"))
        .env("SIM", program("hmtt-sim"))
        .output()
        .expect("unshare runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{errors}", output.status);
}

fn check(name: &str, engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    capture(name, engine, &file);
    let text = decode(&file);
    let truth = gunzip(&vector(name, "truth.gz"));
    let flags = vector(name, "flags.txt");
    if !flags.is_file() {
        assert!(text == truth, "{name}: the decoded trace differs from the truth file");
        return;
    }
    let flags = std::fs::read_to_string(flags).unwrap();
    let expected: Vec<&str> = flags.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(comments(&text, "fault"), expected, "{name}");
    let without: String =
        text.split_inclusive('\n').filter(|l| !l.starts_with("# fault")).collect();
    assert!(without == truth, "{name}: the decoded trace differs from the truth file");
}

#[test]
fn every_vector_is_received_as_its_truth_file() {
    if !wires_work() {
        skip("every_vector_is_received_as_its_truth_file", "no user namespaces or veth pairs here");
        return;
    }
    for name in DDR1 {
        check(name, "verilator");
    }
}

#[test]
fn the_reference_engine_also_drives_the_wire() {
    if !wires_work() {
        skip("the_reference_engine_also_drives_the_wire", "no user namespaces or veth pairs here");
        return;
    }
    for name in ["v01_ddr1_tiny_open", "v16_ddr1_faults"] {
        check(name, "rust");
    }
}
