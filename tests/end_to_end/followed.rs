//! Follows a receiver that captures on a veth pair into a series of files, with two followers at
//! the same time, of which both are killed: everything that was captured is in the data set, once.

use std::path::PathBuf;
use std::process::Command;

use hmtt_tests::{accesses, program, skip, succeed, vector};
use serde_json::Value;

use crate::captures::path;
use crate::wire::wires_work;

/// What the card sends, one recording after the other.
const VECTORS: [&str; 3] =
    ["v01_ddr1_tiny_open", "v08_ddr1_litedram", "v04_ddr1_medium_closed_bl4"];

/// The script, run in its own user and network namespaces. Arguments: folder, recordings.
const SCRIPT: &str = r#"
set -eu
PATH=$PATH:/usr/sbin
folder=$1
shift
ip link add card type veth peer name eth1
for end in card eth1; do
    echo 1 >"/proc/sys/net/ipv6/conf/$end/disable_ipv6" 2>/dev/null || :
    ip link set "$end" up
done
"$RECV" eth1 -w "$folder/trace.pcapng" -b filesize:2 --json >"$folder/json" 2>"$folder/log" &
receiver=$!
"$HMTT" dataset follow "$folder/data" "$folder/trace.pcapng" >"$folder/one" 2>&1 &
one=$!
"$HMTT" dataset follow "$folder/data" "$folder/trace.pcapng" >"$folder/other" 2>&1 &
other=$!
trap 'kill -KILL "$receiver" "$one" "$other" 2>/dev/null || :' EXIT
await() { # condition, of a running receiver
    tries=0
    until eval "$1"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ] || ! kill -0 "$receiver"; then cat "$folder/log" >&2; exit 9; fi
        sleep 0.1
    done
}
await "grep -q '^capturing on' '$folder/log'"
for recording; do
    "$SIM" replay "$recording" --granularity burst -i card --quiet
    # The followers add what is finished while the receiver runs.
    await "grep -q added '$folder/one' '$folder/other'"
done
kill -KILL "$other"
kill -INT "$receiver"
status=0; wait "$receiver" || status=$?
kill -KILL "$one"
[ "$status" = 0 ] || { cat "$folder/log" >&2; exit 8; }
"#;

#[test]
fn all_that_a_receiver_captures_in_a_series_of_files_is_in_the_data_set_once() {
    let name = "all_that_a_receiver_captures_in_a_series_of_files_is_in_the_data_set_once";
    if !wires_work() {
        return skip(name, "no user namespaces or veth pairs here");
    }
    let folder = tempfile::tempdir().unwrap();
    let recordings = VECTORS.map(|name| vector(name, "cmd.gz"));
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", SCRIPT, "sh"])
        .arg(folder.path())
        .args(&recordings)
        .env("RECV", program("hmtt-recv"))
        .env("SIM", program("hmtt-sim"))
        .env("HMTT", program("hmtt"))
        .output()
        .expect("unshare runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    let (data, file) = (folder.path().join("data"), folder.path().join("trace.pcapng"));
    succeed("hmtt", &["dataset", "follow", "--until-end", path(&data), path(&file)]);
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|found| found == "pcapng");
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let captures: Vec<PathBuf> = entries.filter(is_capture).collect();
    assert!(captures.len() > 5, "{captures:?}");
    let captures: Vec<&str> = captures.iter().map(|capture| path(capture)).collect();
    let check =
        succeed("hmtt", &[&["dataset", "check", "--json", path(&data)], &captures[..]].concat());
    let check: Value = serde_json::from_str(&check).unwrap();
    let truth: usize = VECTORS.iter().map(|name| accesses(name).len()).sum();
    assert_eq!(check["access_rows"], truth, "{check}");
    assert_eq!(check["captures"], captures.len(), "{check}");
    assert_eq!(check["recounted"], captures.len(), "{check}");
    assert_eq!(check["lost_accesses"], 0, "{check}");
}
