//! Writes the commands of `hmtt ctl` among the accesses of recordings, and checks what the card
//! makes of them.

use std::path::Path;

use hmtt_format::header::{HeaderText, Line};
use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::traffic::Traffic;
use hmtt_tests::{gunzip, succeed, vector};
use serde_json::{Value, json};

use crate::captures::{comments, decode, lines, path, replay_file};

/// The memory description, in TOML.
pub const MEMORY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../gateware/memories/ddr1-512m.toml");

/// Appends the commands of `hmtt ctl` to a recording.
pub fn control(recording: &Path, words: &str) {
    let mut arguments = vec!["ctl", "--memory", MEMORY, "--record", path(recording)];
    arguments.extend(words.split(' '));
    succeed("hmtt", &arguments);
}

fn last_clock(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("last_clock=")).unwrap();
    line.trim().parse().unwrap()
}

/// Appends traffic that begins with closed banks. Returns its accesses, as `decode` prints them.
pub fn append(recording: &Path, memory: &MemoryDescription, traffic: &Traffic) -> Vec<String> {
    let text = std::fs::read_to_string(recording).unwrap();
    let from = last_clock(&text) + 1;
    let body = text.split_once("---\n").unwrap().1;
    let last_clock = from + traffic.clocks() + 20;
    let mut joined = HeaderText { memory, page_policy: "any", last_clock }.to_string();
    joined += body;
    for (clock, pins) in traffic.commands() {
        let line = Line::of_command(memory, from + clock, pins);
        joined += std::str::from_utf8(line.as_bytes()).unwrap();
    }
    // The next controller finds open banks.
    std::fs::write(recording, joined).unwrap();
    let accesses = traffic.truth().iter().map(|access| {
        let (clock, letter) = (from + access.clock.0, access.direction.letter());
        format!("{clock} {letter} {:x}", access.address.0)
    });
    accesses.collect()
}

/// Reads and writes of whole bursts in some rows of all banks.
fn traffic(memory: &MemoryDescription, at: u64) -> Traffic {
    let mut traffic = Traffic::new(memory.clone());
    for step in 0..60 {
        let address = at + step % 7 * 0x1_4020 + step * 0x40;
        if step % 3 == 0 {
            traffic.write(address)
        } else {
            traffic.read(address)
        };
    }
    traffic
}

#[test]
fn commands_of_ctl_among_accesses_set_marks_and_settings() {
    let memory = toml_memory::parse(&std::fs::read_to_string(MEMORY).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (input, capture) = (folder.path().join("ctl.cmd"), folder.path().join("ctl.pcapng"));
    control(&input, "reset granularity burst mode line start mark 5");
    let first = append(&input, &memory, &traffic(&memory, 0x40_0000));
    control(&input, "mark kernel-enter stop");
    let unseen = append(&input, &memory, &traffic(&memory, 0x80_0000));
    control(&input, "tag-base 0x12340000 tag-window on mode page slice 50us start mark 255");
    append(&input, &memory, &traffic(&memory, 0xc0_0000));
    // The card starts in frequency mode, from which the first command leads it.
    replay_file(&input, &["--mode", "frequency", "--slice", "1ms"], &capture);
    let text = decode(&capture);
    let marks: Vec<&str> =
        comments(&text, "mark").iter().map(|mark| mark.split_once(' ').unwrap().1).collect();
    assert_eq!(marks, ["105 free 5", "60 kernel_enter", "1ff free 255"]);
    assert_eq!(comments(&text, "fault"), Vec::<&str>::new());
    let output_lines = lines(&text);
    let at =
        output_lines.iter().position(|line| *line == first[0]).expect("the first access is there");
    assert_eq!(output_lines[at..at + first.len()], first);
    assert!(unseen.iter().all(|access| !output_lines.contains(&access.as_str())));
    assert!(output_lines.iter().any(|line| line.contains(" P c00000 ")), "{text}");
    let info = succeed("hmtt", &["info", "--json", path(&capture)]);
    let info: Value = serde_json::from_str(&info).unwrap();
    let settings = &info["cards"][0]["settings"];
    for (name, value) in [
        ("mode", json!("page")),
        ("granularity", json!("burst")),
        ("slice_us", json!(50)),
        ("tag_window_address", json!("0x12340000")),
        ("tags", json!(3)),
        ("faults", json!(0)),
    ] {
        assert_eq!(settings[name], value, "{name}: {settings}");
    }
}

#[test]
fn commands_of_ctl_follow_recordings_of_other_controllers_without_a_fault() {
    for name in
        ["v09_ddr2_open", "v11_ddr3_xor_open", "v18_ddr4_open", "v04_ddr1_medium_closed_bl4"]
    {
        let folder = tempfile::tempdir().unwrap();
        let (input, capture) = (folder.path().join("v.cmd"), folder.path().join("v.pcapng"));
        std::fs::write(&input, gunzip(&vector(name, "cmd.gz"))).unwrap();
        let from = last_clock(&std::fs::read_to_string(&input).unwrap());
        succeed("hmtt", &["ctl", "--record", path(&input), "mark", "7", "mark", "8"]);
        replay_file(&input, &["--granularity", "burst"], &capture);
        let text = decode(&capture);
        let marks = comments(&text, "mark");
        assert_eq!(marks.len(), 2, "{name}: {marks:?}");
        for (mark, number) in marks.iter().zip(["107 free 7", "108 free 8"]) {
            let (clock, register) = mark.split_once(' ').unwrap();
            assert_eq!(register, number, "{name}");
            assert!(clock.parse::<u64>().unwrap() > from, "{name}: {mark}");
        }
        let faults = comments(&text, "fault");
        assert_eq!(faults, Vec::<&str>::new(), "{name}");
    }
}
