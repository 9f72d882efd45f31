//! Stops the DDR clock: the card reports the stop and restarts, every reader shows it, and what is
//! lost is reported.

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

/// Of each line its clock, and the rest.
fn clocked(lines: &[&str]) -> Vec<(u64, String)> {
    let clocked = |line: &&str| {
        let (clock, rest) = line.split_once(' ').expect("a clock");
        (clock.parse().expect("a clock"), rest.to_string())
    };
    lines.iter().map(clocked).collect()
}

/// Requires the trace of a card that restarted to be that of one that did not, without what was
/// lost between.
fn is_all_but_the_loss(stopped: &str, whole: &str) {
    let (before, after) = stopped.split_once("# card restarted\n").expect("one restart");
    assert!(before.ends_with("# no end frame: the tail may be missing\n"), "{before}");
    let (whole, before, after) = (lines(whole), lines(before), lines(after));
    assert!(whole.starts_with(&before) && !after.is_empty());
    let (whole, after) = (clocked(&whole), clocked(&after));
    // Both end with the recording.
    let (last, end) = (&after[after.len() - 1], &whole[whole.len() - 1]);
    assert_eq!(last.1, end.1);
    let shift = end.0 - last.0;
    // The first one may be a burst whose line began before.
    for (clock, rest) in &after[1..] {
        let line = (clock + shift, rest.clone());
        assert!(whole.contains(&line), "{line:?} is not in the whole trace");
    }
    assert!(before.len() + after.len() < whole.len(), "nothing was lost");
}

#[test]
fn a_lost_clock_restarts_the_card_and_every_reader_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // 50 us in, for 30 us: 1024 transmit clocks of 8 ns without an edge are a loss.
    let stop = ["--stop-clock", "5000:30000"];
    replay("rust", &[], &file("whole"));
    replay("rust", &stop, &file("rust"));
    replay("verilator", &stop, &file("verilator"));
    assert!(std::fs::read(file("rust")).unwrap() == std::fs::read(file("verilator")).unwrap());

    let (whole, stopped) = (decode(&file("whole")), decode(&file("rust")));
    is_all_but_the_loss(&stopped, &whole);
    assert!(comments(&whole, "DDR").is_empty());
    let printed = comments(&stopped, "DDR");
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert!(printed[0].starts_with("clock lost at 0.058 ms"), "{printed:?}");
    assert!(printed[1].starts_with("clock found again at 0.080 ms"), "{printed:?}");
    assert!(comments(&stopped, "gap").is_empty());

    let json = succeed("hmtt", &["decode", path(&file("rust")), "--format", "jsonl"]);
    let lost = r#"{"kind":"ddr_clock","running":false,"new_losses":1,"losses":1,"#;
    assert!(json.contains(lost), "{json}");
    let info = succeed("hmtt", &["info", path(&file("rust"))]);
    assert!(info.contains("warning: DDR clock lost 1 times; at last: DDR clock found again"));

    if !has("python3") {
        skip(
            "a_lost_clock_restarts_the_card_and_every_reader_shows_it",
            "python3 is not installed",
        );
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/hmtt_reader.py");
    let read = Command::new("python3").arg(script).arg(file("rust")).output().unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    assert_eq!(comments(&read, "DDR"), printed);
    assert_eq!(comments(&read, "card"), comments(&stopped, "card"));
    assert_eq!(lines(&read), lines(&stopped));
}

#[test]
fn short_stops_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    replay("rust", &["--stop-clock", "500:7000"], &file);
    assert!(comments(&decode(&file), "DDR").is_empty());
}
