//! Tests the commands as users run them: output, exit codes, errors.
//!
//! Golden files are in `tests/snapshots`. `INSTA_UPDATE=always cargo test -p hmtt-cli` updates
//! them.

use std::fs;
use std::path::Path;

use hmtt_format::FaultKind;
use hmtt_format::record::{PageRun, TagSource, WordRecord};
use hmtt_test_support::programs::transcript;

use crate::card::Card;
use crate::{capture, capture_file, hmtt, scratch, skipped};

/// Returns the frames of a session with an item of every kind, including two gaps.
fn sample() -> Vec<Vec<u8>> {
    let mut card = Card::new();
    card.tag_window = Some(0x1000_0000);
    let mut frames = vec![card.info(), card.data(6).0];
    card.data(4);
    frames.push(card.data(3).0);
    (card.lost, card.accesses) = (5, card.accesses + 2);
    let read = TagSource::Window(hmtt_format::Direction::Read);
    let records = [
        WordRecord::Tag { delta: 3, source: read, value: 0x20 },
        WordRecord::Tag { delta: 3, source: TagSource::Mark, value: 0x107 },
        WordRecord::Fault { delta: 3, kind: FaultKind::RefreshOpen, bank: 1 },
        WordRecord::Slice { code: 0, partial: None, start: 0, reads: 4, writes: 2 },
        WordRecord::Slice { code: 0, partial: Some(30), start: 100, reads: 1, writes: 1 },
    ];
    frames.push(card.records(&records, 1, 9));
    card.unit_log2 = 12;
    let run = PageRun { number: 0x1f, reads: 2, writes: 1, duration: 20 };
    frames.push(card.records(&[WordRecord::Page { delta: 4, run }], 3, 4));
    frames.extend([card.end(), card.end(), card.end()]);
    frames
}

pub fn check(name: &str, shown: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
        filters => vec![(scratch_pattern().as_str(), "SCRATCH/")],
    }, { insta::assert_snapshot!(name, shown) });
}

/// Returns a pattern that matches the scratch folder literally.
fn scratch_pattern() -> String {
    let folder = format!("{}/", env!("CARGO_TARGET_TMPDIR"));
    folder
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '/' {
                letter.to_string()
            } else {
                format!("\\{letter}")
            }
        })
        .collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn help_lists_commands_and_options() {
    check("help-hmtt", &transcript(&hmtt(&["--help"])));
    check("help-hmtt-decode", &transcript(&hmtt(&["decode", "--help"])));
    check("help-hmtt-convert", &transcript(&hmtt(&["convert", "--help"])));
    check("help-hmtt-info", &transcript(&hmtt(&["info", "--help"])));
    check("help-hmtt-ctl", &transcript(&hmtt(&["ctl", "--help"])));
}

#[test]
fn every_format_states_accesses_and_gaps() {
    let file = capture_file("sample-decode.pcapng", &sample());
    for format in ["text", "csv", "jsonl"] {
        let output = hmtt(&["decode", text(&file), "--format", format]);
        check(&format!("decode-{format}"), &transcript(&output));
    }
}

#[test]
fn info_prints_the_description_of_a_capture() {
    let file = capture_file("sample-info.pcapng", &sample());
    check("info", &transcript(&hmtt(&["info", text(&file)])));
    check("info-json", &transcript(&hmtt(&["info", text(&file), "--json"])));
}

#[test]
fn a_decoded_capture_equals_its_truth_file() {
    let (frames, truth) = Card::new().session(50, 370);
    let mut expected = String::from("# clock R|W physical_byte_address_hex\n");
    truth.iter().for_each(|access| expected += &format!("{access}\n"));
    let file = capture_file("truth.pcapng", &frames);
    let written = scratch("truth.txt");
    let output = hmtt(&["decode", text(&file), "-o", text(&written)]);
    assert_eq!(transcript(&output), "--- exit code 0\n");
    assert!(fs::read_to_string(written).unwrap() == expected);
}

#[test]
fn unreadable_captures_are_errors_with_position_and_advice() {
    let missing = scratch("missing.pcapng");
    check("decode-missing", &transcript(&hmtt(&["decode", text(&missing)])));
    let foreign = scratch("foreign.pcapng");
    fs::write(&foreign, [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    check("decode-foreign", &transcript(&hmtt(&["decode", text(&foreign)])));

    let mut bytes = capture(&Card::new().session(3, 4).0);
    let third = bytes.len() - 300;
    bytes[third..].fill(0xff);
    let damaged = scratch("damaged.pcapng");
    fs::write(&damaged, bytes).unwrap();
    check("decode-damaged", &transcript(&hmtt(&["decode", text(&damaged)])));
}

#[test]
fn a_capture_whose_writer_was_killed_is_read_to_its_end() {
    let mut bytes = capture(&Card::new().session(3, 4).0);
    bytes.truncate(bytes.len() - 500);
    let file = scratch("killed.pcapng");
    fs::write(&file, bytes).unwrap();
    check("decode-killed", &transcript(&hmtt(&["decode", text(&file)])));
}

#[test]
fn malformed_frames_are_reported_and_skipped() {
    let mut frames = Card::new().session(3, 4).0;
    frames[2][15] = 200;
    let file = capture_file("malformed.pcapng", &frames);
    check("decode-malformed", &transcript(&hmtt(&["decode", text(&file)])));
}

#[test]
fn a_capture_is_never_its_own_output() {
    let file = capture_file("own-output.pcapng", &sample());
    let before = fs::read(&file).unwrap();
    let output = hmtt(&["decode", text(&file), "-f", "-o", text(&file)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn decode_overwrites_only_with_force() {
    let file = capture_file("overwrite.pcapng", &sample());
    let existing = scratch("overwrite.csv");
    fs::write(&existing, "precious").unwrap();
    let refused = hmtt(&["decode", text(&file), "-o", text(&existing)]);
    let expected = format!("hmtt: {} exists; give -f to overwrite it\n", existing.display());
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), expected);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&existing).unwrap(), "precious");
    let forced = hmtt(&["decode", text(&file), "-f", "-o", text(&existing)]);
    assert_eq!(forced.status.code(), Some(3));
    let printed = hmtt(&["decode", text(&file), "--format", "csv"]).stdout;
    assert!(fs::read(&existing).unwrap() == printed);
}

#[test]
fn outputs_follow_no_link_of_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can give a link to another user");
    }
    let file = capture_file("foreign-link.pcapng", &sample());
    let (temporary, precious) = (tempfile::tempdir().unwrap(), scratch("foreign-link.csv"));
    let folder = temporary.path();
    fs::write(&precious, "precious").unwrap();
    for (name, target) in [("file", &*precious), ("folder", folder)] {
        std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        std::os::unix::fs::lchown(folder.join(name), Some(65534), None).unwrap();
    }
    for name in ["file", "folder/new"] {
        let output = folder.join(name);
        for command in [&["decode", "-f", "-o"][..], &["report", "-f", "-o"]] {
            let refused = hmtt(&[command, &[text(&output), text(&file)]].concat());
            let error = String::from_utf8(refused.stderr).unwrap();
            assert!(error.contains("symbolic link of user 65534"), "{command:?}: {error}");
            assert_eq!(refused.status.code(), Some(1));
        }
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(!folder.join("new").exists());
}

#[test]
fn a_capture_without_a_card_is_reported() {
    let file = capture_file("no-card.pcapng", &[vec![0xff; 60]]);
    check("decode-no-card", &transcript(&hmtt(&["decode", text(&file)])));
}

/// Writes a capture of two cards on two links: card 1 on the first, card 2 on the second.
fn two_links(name: &str) -> std::path::PathBuf {
    let frames = |counter, accesses| {
        let mut card = Card { counter, accesses, clock: accesses, ..Card::new() };
        card.session(2, 2).0
    };
    hmtt_test_support::captures::capture_of_links(name, &[frames(0, 0), frames(70, 1000)])
}

#[test]
fn cards_on_two_links_are_separated() {
    let file = two_links("two-links.pcapng");
    for format in ["text", "csv", "jsonl"] {
        let output = hmtt(&["decode", text(&file), "--format", format]);
        check(&format!("cards-{format}"), &transcript(&output));
    }
    check("cards-info", &transcript(&hmtt(&["info", text(&file)])));
    let info = hmtt(&["info", text(&file), "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["counts"]["accesses"], 8);
    for (card, interface, before) in [(0, "veth1", 0), (1, "veth3", 1000)] {
        let card = &info["cards"][card];
        assert_eq!(card["interface"], interface);
        assert_eq!(card["counts"]["accesses"], 4);
        assert_eq!(card["counts"]["accesses_before_start"], before);
    }
}

#[test]
fn one_card_of_several_can_be_chosen() {
    let file = two_links("chosen-card.pcapng");
    let first = hmtt(&["decode", text(&file), "--card", "1"]);
    let alone = capture_file("chosen-alone.pcapng", &Card::new().session(2, 2).0);
    assert_eq!(transcript(&first), transcript(&hmtt(&["decode", text(&alone)])));
    let none = hmtt(&["decode", text(&file), "--card", "3"]);
    assert_eq!(none.status.code(), Some(1));
    let complaint = String::from_utf8(none.stderr).unwrap();
    assert_eq!(complaint, "hmtt: there is no card 3; the capture has 2\n");
}
