//! Tests that Wireshark's tools read our captures and count what we count. The tests are reported
//! as skipped if the tools are not installed.

use std::path::Path;
use std::process::Command;

use crate::card::Card;
use crate::{capture_file, skipped};

/// Returns the output of a tool; `None` if it is not installed.
fn run(tool: &str, arguments: &[&str], file: &Path) -> Option<String> {
    match Command::new(tool).args(arguments).arg(file).output() {
        Err(error) => {
            skipped(format_args!("{tool}: {error}"));
            None
        }
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{tool}: {complaint}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
    }
}

#[test]
fn capinfos_counts_the_frames() {
    let (frames, _) = Card::new().session(30, 370);
    let file = capture_file("capinfos.pcapng", &frames);
    let Some(printed) = run("capinfos", &["-M"], &file) else { return };
    for expected in [
        "Encapsulation = Ethernet",
        "File timestamp precision:  nanoseconds (9)",
        "Number of packets:   32",
        "Capture application: hmtt-recv",
        "Name = veth1",
        "Hardware = HMTT card",
        "Number of stat entries = 1",
    ] {
        assert!(printed.contains(expected), "{expected} is not in\n{printed}");
    }
}

#[test]
fn tshark_reads_addresses_times_and_kinds() {
    let (frames, _) = Card::new().session(2, 370);
    let file = capture_file("tshark.pcapng", &frames);
    let fields = ["-e", "frame.time_epoch", "-e", "eth.src", "-e", "eth.type", "-e", "frame.len"];
    let arguments = [&["-n", "-T", "fields"], &fields[..], &["-r"]].concat();
    let Some(printed) = run("tshark", &arguments, &file) else { return };
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), frames.len());
    assert_eq!(lines[1], "1700000000.000001000\t02:00:00:00:00:01\t0x88b5\t1514");
}

#[test]
fn tshark_reads_the_start_of_the_capture_from_the_statistics() {
    let file = capture_file("tshark-blocks.pcapng", &[]);
    let arguments = ["-X", "read_format:MIME Files Format", "-V", "-r"];
    let Some(printed) = run("tshark", &arguments, &file) else { return };
    let (_, statistics) = printed.split_once("Block: Interface Statistics Block").expect("a block");
    assert!(statistics.contains("Option: Start Time"), "{printed}");
    assert!(statistics.contains("Option: End Time"), "{printed}");
}
