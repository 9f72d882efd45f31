//! Checks that a reader in another language, written from `docs/format.md` alone, reads the same
//! trace.

use std::path::Path;
use std::process::Command;

use hmtt_tests::{has, skip};

use crate::captures::{decode, lines, path, replay};

/// Runs the independent reader.
fn reader(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/hmtt_reader.py");
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_independent_reader_reads_the_same_trace() {
    if !has("python3") {
        skip("the_independent_reader_reads_the_same_trace", "python3 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    for (name, options) in [
        ("v19_ddr1_bl4_open_same_row", &["--granularity", "burst"][..]),
        ("v04_ddr1_medium_closed_bl4", &["--granularity", "line"]),
        ("v16_ddr1_faults", &["--mode", "page", "--frequency", "--slice", "10us"]),
        ("v08_ddr1_litedram", &["--mode", "frequency", "--slice", "1us"]),
    ] {
        replay(name, options, &file);
        let (ours, theirs) = (decode(&file), reader(&[path(&file)]));
        assert!(!lines(&ours).is_empty());
        assert_eq!(lines(&ours), lines(&theirs), "{name} {options:?}");
    }
}

#[test]
fn the_example_frames_of_the_document_decode_as_stated() {
    if !has("python3") {
        skip("the_example_frames_of_the_document_decode_as_stated", "python3 is not installed");
        return;
    }
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/format.md");
    reader(&["--check-document", path(&document)]);
}
