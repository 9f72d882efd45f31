//! Stops the DDR clock: the card reports the stop, every reader shows it, and nothing is lost.

use std::path::Path;
use std::process::Command;

use hmtt_tests::{has, skip, succeed, vector};

use crate::captures::{comments, decode, lines, path};

const VECTOR: &str = "v16_ddr1_faults";

fn replay(engine: &str, stop: &[&str], capture: &Path) {
    let input = vector(VECTOR, "cmd.gz");
    let mut arguments = vec!["replay", path(&input), "--engine", engine, "--quiet"];
    arguments.extend(["-o", path(capture)]);
    arguments.extend(stop);
    succeed("hmtt-sim", &arguments);
}

#[test]
fn a_stopped_clock_is_reported_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // The clock stops after 5 us, for 30 us. 1024 transmit clocks of 8 ns without an edge are a
    // loss.
    let stop = ["--stop-clock", "500:30000"];
    replay("rust", &[], &file("whole"));
    replay("rust", &stop, &file("rust"));
    replay("verilator", &stop, &file("verilator"));
    assert!(std::fs::read(file("rust")).unwrap() == std::fs::read(file("verilator")).unwrap());

    let (whole, stopped) = (decode(&file("whole")), decode(&file("rust")));
    assert_eq!(lines(&whole), lines(&stopped));
    assert!(comments(&whole, "DDR").is_empty());
    let told = comments(&stopped, "DDR");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("clock lost at 0.013 ms"), "{told:?}");
    assert!(told[1].starts_with("clock found again at 0.035 ms"), "{told:?}");
    assert!(comments(&stopped, "gap").is_empty());

    let json = succeed("hmtt", &["decode", path(&file("rust")), "--format", "jsonl"]);
    let lost = r#"{"kind":"ddr_clock","running":false,"lost":1,"losses":1,"#;
    assert!(json.contains(lost), "{json}");
    let info = succeed("hmtt", &["info", path(&file("rust"))]);
    assert!(info.contains("warning: DDR clock lost 1 times; at last: DDR clock found again"));

    if !has("python3") {
        skip("a_stopped_clock_is_reported_and_loses_nothing", "python3 is not installed");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/hmtt_reader.py");
    let read = Command::new("python3").arg(script).arg(file("rust")).output().unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    assert_eq!(comments(&read, "DDR"), told);
    assert_eq!(lines(&read), lines(&stopped));
}

#[test]
fn short_stops_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    replay("rust", &["--stop-clock", "500:7000"], &file);
    assert!(comments(&decode(&file), "DDR").is_empty());
}
