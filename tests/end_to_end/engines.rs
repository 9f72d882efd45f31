//! Both engines on every vector: the same capture files, byte for byte, and the truth.

use hmtt_tests::{DDR1, LATER, accesses, succeed, vector};

use crate::captures::{comments, decode, lines, path};

/// Runs one half of the vectors, so that two test threads share the work.
fn compare(names: impl Iterator<Item = &'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let files = ["rust", "verilator"].map(|engine| {
            let file = folder.path().join(format!("{name}.{engine}.pcapng"));
            let (input, output) = (vector(name, "cmd.gz"), path(&file).to_string());
            let arguments =
                ["replay", path(&input), "--engine", engine, "--quiet", "-o", output.as_str()];
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

/// Burst records of the capture are the truth, its faults those put into the recording.
fn tells_the_truth(name: &str, capture: &std::path::Path) {
    let text = decode(capture);
    let expected: Vec<String> = accesses(name).iter().map(ToString::to_string).collect();
    assert!(lines(&text) == expected, "{name}: not the truth");
    let flags = std::fs::read_to_string(vector(name, "flags.txt")).unwrap_or_default();
    let flags: Vec<&str> = flags.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(comments(&text, "fault"), flags, "{name}");
}

/// Both engines on each vector, against its truth and each other.
fn both(names: impl Iterator<Item = &'static str>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let files = ["rust", "verilator"].map(|engine| {
            let file = folder.path().join(format!("{name}.{engine}.pcapng"));
            let (input, output) = (vector(name, "cmd.gz"), path(&file).to_string());
            let mut arguments = vec!["replay", path(&input), "--engine", engine, "--quiet"];
            arguments.extend(["--granularity", "burst", "-o", output.as_str()]);
            succeed("hmtt-sim", &arguments);
            file
        });
        tells_the_truth(name, &files[1]);
        let [reference, compiled] = files.map(|file| std::fs::read(file).unwrap());
        assert!(reference == compiled, "{name}: the engines differ");
    }
}

#[test]
fn both_engines_tell_the_truth_of_ddr2_and_ddr4() {
    both(LATER.into_iter().filter(|name| !name.contains("ddr3")));
}

#[test]
fn both_engines_tell_the_truth_of_ddr3() {
    both(LATER.into_iter().filter(|name| name.contains("ddr3") && !name.contains("xor")));
}

#[test]
fn both_engines_tell_the_truth_of_banks_that_are_sums() {
    both(LATER.into_iter().filter(|name| name.contains("xor")));
}
