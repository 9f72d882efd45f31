//! Checks the card's frames with tshark.

use std::process::Command;

use hmtt_tests::{has, skip};

use crate::captures::{path, replay};

#[test]
fn tshark_accepts_every_frame() {
    if !has("tshark") {
        skip("tshark_accepts_every_frame", "tshark is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    replay("v08_ddr1_litedram", &["--granularity", "burst", "--fcs"], &file);
    let output = Command::new("tshark")
        .args(["-r", path(&file), "-o", "eth.fcs:TRUE", "-o", "eth.check_fcs:TRUE"])
        .args(["-T", "fields", "-e", "eth.fcs.status", "-e", "eth.dst", "-e", "eth.src"])
        .args(["-e", "eth.type", "-e", "frame.len"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut frames = 0;
    for (counter, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        // eth.fcs.status: 1 is "Good".
        assert_eq!(&fields[..2], ["1", "02:48:4d:54:54:00"], "{line}");
        assert_eq!(fields[2], format!("02:00:00:00:{:02x}:{:02x}", counter >> 8, counter & 255));
        assert_eq!(fields[3], "0x88b5");
        let length: usize = fields[4].parse().unwrap();
        assert!((64..=1518).contains(&length), "{line}");
        frames += 1;
    }
    assert!(frames > 40, "{frames} frames");
    // Dense traffic is sent in full frames.
    assert!(text.lines().filter(|line| line.ends_with("\t1518")).count() > frames / 2);
}
