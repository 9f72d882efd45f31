//! Tests which command lines are rejected, and the reasons that are printed.

use std::path::Path;
use std::process::Output;

use crate::hmtt;

/// Checks that a command line is rejected with this text.
fn assert_wrong_usage(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(words), "{complaint}");
}

#[test]
fn formats_are_listed_where_they_can_be_used() {
    let refused = hmtt(&["convert", "in.csv", "out", "--to", "pcapng"]);
    let tables = "[possible values: parquet, csv, jsonl, text, hmtt6, ramulator, dramsim3, dramsys, \
                  libcachesim";
    assert_wrong_usage(&refused, &format!("{tables}, champsim, lackey, drmemtrace]"));
    let refused = hmtt(&["convert", "in", "out.csv", "--from", "text"]);
    let from = "[possible values: pcapng, parquet, csv, jsonl, hmtt6, ramulator, dramsim3, dramsys, libcachesim, \
                champsim, lackey, drmemtrace, perf, gem5]";
    assert_wrong_usage(&refused, from);
    let refused = hmtt(&["merge", "in.pcapng", "--format", "pcapng"]);
    assert_wrong_usage(&refused, &format!("{tables}]"));
}

#[test]
fn man_pages_do_not_create_a_directory() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-such-folder/man1");
    let output = hmtt(&["man", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains(&format!("mkdir -p {}", folder.display())), "{complaint}");
    assert!(!folder.parent().unwrap().exists());
}

#[test]
fn an_unknown_option_before_the_program_is_named() {
    for command in ["trace", "monitor", "tag"] {
        for option in ["--no-such-option", "-Z"] {
            let refused = hmtt(&[command, "run", option, "/bin/true"]);
            assert_wrong_usage(&refused, &format!("unexpected argument '{option}'"));
        }
    }
}

#[test]
fn options_behind_the_program_are_its_own() {
    for (name, separator) in [("usage-own-1", &[][..]), ("usage-own-2", &["--"])] {
        let profile = crate::scratch(name);
        let own = ["monitor", "run", "-o", profile.to_str().unwrap()];
        let program = ["echo", "--no-such-option", "-o", "--"];
        let output = hmtt(&[&own[..], separator, &program].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("--no-such-option -o --\n"), "{text}\n{errors}");
        assert!(profile.is_file(), "{errors}");
    }
}

#[test]
fn control_characters_in_arguments_are_escaped() {
    let refused = hmtt(&["info", "--\u{1b}[2J\u{202e}forged"]);
    assert_wrong_usage(&refused, "\\u{202e}forged");
    let refused = hmtt(&["info", "--http://me:secret@host/?sig=secret"]);
    assert_wrong_usage(&refused, "http://***@host/?sig' found");
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("secret"));
}
