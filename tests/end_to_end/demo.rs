//! The demonstration, with and without namespaces: both verify the accesses of a recording, and
//! those of a program.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hmtt_tests::{program, skip};

use crate::wire::wires_work;

const VERIFIED: &str = "verified: 18000 accesses, byte for byte those of the memory controller\n";

/// Runs the demonstration with programs of `first_in_path` preferred. Returns what it prints.
fn demonstrate(first_in_path: Option<&Path>) -> String {
    let programs = program("hmtt");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = first_in_path.map_or(path.clone(), |first| format!("{}:{path}", first.display()));
    let output = Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/demo.sh"))
        .env("HMTT_DEMO_PROGRAMS", programs.parent().expect("in a folder"))
        .env("PATH", path)
        .output()
        .expect("sh runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Checks that both acts were verified: the trace of the bus equals the list of accesses of each
/// recording.
fn assert_verified(text: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("verified: ")).collect();
    let [first, second] = lines[..] else { panic!("{text}") };
    assert_eq!(format!("{first}\n"), VERIFIED);
    let count = second.strip_prefix("verified: ").and_then(|rest| {
        rest.strip_suffix(" accesses, byte for byte those of the simulated memory controller")
    });
    assert!(
        count.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count > 1000),
        "{text}"
    );
    assert!(
        text.contains("\n5. hmtt-sim record runs sort,") && text.ends_with(&format!("{second}\n")),
        "{text}"
    );
}

#[test]
fn the_demonstration_verifies_over_a_wire() {
    if !wires_work() {
        return skip("the_demonstration_verifies_over_a_wire", "namespaces are not allowed");
    }
    let text = demonstrate(None);
    assert!(text.contains("3. the output of hmtt-recv"), "{text}");
    assert_verified(&text);
}

#[test]
fn the_demonstration_verifies_through_a_file_where_namespaces_are_not_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let refusing = folder.path().join("unshare");
    let script = "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n";
    std::fs::write(&refusing, script).unwrap();
    std::fs::set_permissions(&refusing, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = demonstrate(Some(folder.path()));
    assert!(text.starts_with("no virtual wire here"), "{text}");
    assert!(text.contains("Operation not permitted"), "the reason is given: {text}");
    assert_verified(&text);
}
