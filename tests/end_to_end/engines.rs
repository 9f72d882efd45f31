//! Compares the capture files of both engines byte for byte, and with the truth, on every vector.
//! Of long vectors the first clocks are used.

use hmtt_tests::{DDR1, LATER, accesses, gunzip, header_number, succeed, vector};

use crate::captures::{comments, decode, lines, path, replay};

/// Runs one half of the vectors, so that two test threads share the work.
fn compare(names: impl Iterator<Item = &'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let start = folder.path().join(format!("{name}.cmd"));
        std::fs::write(&start, prefix(name, LONG_PREFIX)).unwrap();
        let files = ["rust", "verilator"].map(|engine| {
            let file = folder.path().join(format!("{name}.{engine}.pcapng"));
            let arguments =
                ["replay", path(&start), "--engine", engine, "--quiet", "-o", path(&file)];
            succeed("hmtt-sim", &arguments);
            std::fs::read(&file).unwrap()
        });
        assert!(files[0].len() > 1000, "{name}");
        assert!(files[0] == files[1], "{name}: the engines differ");
    }
}

#[test]
fn both_engines_send_the_same_frames_for_the_longest_vector() {
    compare(DDR1.into_iter().filter(|name| name.starts_with("v03")));
}

#[test]
fn both_engines_send_the_same_frames_for_the_other_vectors() {
    compare(DDR1.into_iter().filter(|name| !name.starts_with("v03")));
}

/// Checks that the capture's burst records equal the truth, and its faults those inserted into the
/// recording.
fn check_against_truth(name: &str, capture: &std::path::Path) {
    let text = decode(capture);
    let expected: Vec<String> = accesses(name).iter().map(ToString::to_string).collect();
    assert!(lines(&text) == expected, "{name}: not the truth");
    let flags = std::fs::read_to_string(vector(name, "flags.txt")).unwrap_or_default();
    let flags: Vec<&str> = flags.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(comments(&text, "fault"), flags, "{name}");
}

/// Clocks that the reference engine simulates of a vector of a later generation. The engine is
/// slow.
const PREFIX: u64 = 20_000;
/// Clocks that the reference engine simulates of a DDR1 vector.
const LONG_PREFIX: u64 = 100_000;

/// Writes the first clocks of a vector as a vector.
fn prefix(name: &str, most: u64) -> String {
    let clocks = most.min(header_number(name, "last_clock") + 1);
    let text = gunzip(&vector(name, "cmd.gz"));
    let (header, body) = text.split_once("\n---\n").expect("a header");
    let header = header.lines().map(|line| match line.split_once('=') {
        Some(("last_clock", _)) => format!("last_clock={}\n", clocks - 1),
        _ => format!("{line}\n"),
    });
    let within = |line: &&str| {
        let clock = line.split(' ').next().and_then(|clock| clock.parse::<u64>().ok());
        clock.is_some_and(|clock| clock < clocks)
    };
    let body = body.lines().take_while(within).map(|line| format!("{line}\n"));
    header.chain(["---\n".into()]).chain(body).collect()
}

/// Runs the compiled engine on each whole vector and compares it with the truth, and both engines
/// on the first clocks and compares them with each other.
fn both(names: impl Iterator<Item = &'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let whole = folder.path().join(format!("{name}.pcapng"));
        replay(name, &["--granularity", "burst"], &whole);
        check_against_truth(name, &whole);
        let start = folder.path().join(format!("{name}.cmd"));
        std::fs::write(&start, prefix(name, PREFIX)).unwrap();
        let files = ["rust", "verilator"].map(|engine| {
            let file = folder.path().join(format!("{name}.{engine}.pcapng"));
            let mut arguments = vec!["replay", path(&start), "--engine", engine, "--quiet"];
            arguments.extend(["--granularity", "burst", "-o", path(&file)]);
            succeed("hmtt-sim", &arguments);
            std::fs::read(file).unwrap()
        });
        assert!(files[0].len() > 1000, "{name}");
        assert!(files[0] == files[1], "{name}: the engines differ");
    }
}

#[test]
fn both_engines_record_the_truth_of_ddr2_and_ddr4() {
    both(LATER.into_iter().filter(|name| !name.contains("ddr3")));
}

#[test]
fn both_engines_record_the_truth_of_ddr3() {
    both(LATER.into_iter().filter(|name| name.contains("ddr3")));
}
