//! Tests the exit status of `hmtt` for captures with and without losses.

use std::path::Path;

use crate::card::Card;
use crate::{capture, hmtt, scratch};

/// Returns the exit statuses of `info`, `decode`, `convert` and `merge`.
fn statuses(name: &str, capture: &[u8]) -> [Option<i32>; 4] {
    let file = scratch(&format!("{name}.pcapng"));
    let table = scratch(&format!("{name}.csv"));
    std::fs::write(&file, capture).unwrap();
    let (file, table) = (text(&file), text(&table));
    [&["info", file][..], &["decode", file], &["convert", file, table], &["merge", file]]
        .map(|arguments| hmtt(arguments).status.code())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn records_before_the_first_frame_are_no_loss() {
    let (frames, _) = Card::new().session(5, 100);
    let bytes = capture(&frames[2..]);
    assert_eq!(statuses("status-later", &bytes), [Some(0); 4]);
    let info = hmtt(&["info", text(&scratch_of("status-later.pcapng"))]);
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(info.contains("gap at start: 100 accesses before clock"), "{info}");
    // Such records are no loss in a table of the capture either.
    let csv = scratch_of("status-later.csv");
    let copy = scratch("status-later.jsonl");
    assert_eq!(hmtt(&["convert", text(&csv), text(&copy)]).status.code(), Some(0));
}

#[test]
fn missing_frames_are_a_loss() {
    let (mut frames, _) = Card::new().session(5, 100);
    frames.remove(3);
    assert_eq!(statuses("status-gap", &capture(&frames)), [Some(3); 4]);
    let csv = scratch_of("status-gap.csv");
    let copy = scratch("status-gap.jsonl");
    assert_eq!(hmtt(&["convert", text(&csv), text(&copy)]).status.code(), Some(3));
}

#[test]
fn records_for_other_bursts_than_the_card_counted_are_reported() {
    let session = |more_bursts| {
        let mut card = Card::new();
        let mut frames = vec![card.info(), card.data(100).0];
        card.more_bursts = more_bursts;
        frames.push(card.end());
        capture(&frames)
    };
    // Lines have two bursts.
    assert_eq!(statuses("status-bursts", &session(100)), [Some(0); 4]);
    assert_eq!(statuses("status-bursts", &session(101)), [Some(3); 4]);
    let file = scratch_of("status-bursts.pcapng");
    let info = String::from_utf8(hmtt(&["info", text(&file)]).stdout).unwrap();
    let warning = "warning: 201 bursts on the card, its records stand for 100 to 200\n";
    assert!(info.contains(warning), "{info}");
    let info = hmtt(&["info", text(&file), "--json"]).stdout;
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["counts"]["captures_mismatched"], 1);
    assert_eq!(info["cards"][0]["counts"]["burst_mismatches"][0]["card_bursts"], 201);
}

/// The reason is given in docs/recv.md.
#[test]
fn records_before_the_first_frame_after_a_restart_are_reported_and_no_loss() {
    let (first, _) = Card::new().session(100, 10);
    let (second, _) = Card::new().session(50, 7);
    let frames = [&first[..90], &second[3..]].concat();
    // There is no merge, because the clocks before and after the restart are unrelated.
    assert_eq!(statuses("status-restart", &capture(&frames))[..3], [Some(0); 3]);
    let decoded = hmtt(&["decode", text(&scratch_of("status-restart.pcapng"))]);
    let trace = String::from_utf8(decoded.stdout).unwrap();
    let comments: Vec<&str> = trace.lines().filter(|line| line.starts_with("# ")).collect();
    let [_, no_end, restarted, gap] = comments[..] else { panic!("{comments:?}") };
    assert!(no_end.starts_with("# no end frame"), "{no_end}");
    assert_eq!(restarted, "# card restarted");
    assert!(gap.starts_with("# gap at start: 14 accesses before clock"), "{gap}");
}

#[test]
fn a_file_that_ends_within_a_block_is_cut() {
    let (frames, _) = Card::new().session(5, 100);
    let bytes = capture(&frames);
    assert_eq!(statuses("status-whole", &bytes), [Some(0); 4]);
    assert_eq!(statuses("status-cut", &bytes[..bytes.len() - 500]), [Some(3); 4]);
}

/// Returns the path of a file that a test has written.
fn scratch_of(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
