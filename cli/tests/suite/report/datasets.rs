//! Tests analyses and reports of data sets, and what a cluster is not asked for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;
use tempfile::TempDir;

use super::{card_capture, text};
use crate::hmtt;

/// A capture, and a data set of it, in one hour and so of one piece.
fn sample(name: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (capture, data) = (card_capture(name, true), folder.path().join("data"));
    let output = hmtt(&["dataset", "add", text(&data), text(&capture)]);
    // A frame is missing.
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    (folder, capture, data)
}

fn json(words: &[&str], source: &Path) -> (Value, Option<i32>) {
    let output = hmtt(&[words, &["--json", text(source)]].concat());
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_data_set_has_the_results_of_its_capture() {
    let (_folder, capture, data) = sample("report-data-set.pcapng");
    for command in ["stats", "hot", "reuse", "mrc", "streams", "rows", "phases", "check", "report"]
    {
        let (expected, status) = json(&[command], &capture);
        let (document, of_data) = json(&[command], &data);
        assert_json_documented(command, &document);
        assert_eq!((&document[command], of_data), (&expected[command], status), "{command}");
        for name in ["complete", "missing", "notes", "not_known"] {
            assert_eq!(document[name], expected[name], "{command}: {name}");
        }
    }
}

fn complaint(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn what_data_sets_and_clusters_cannot_do_is_an_error() {
    let (folder, capture, data) = sample("report-cluster.pcapng");
    let page = folder.path().join("page.html");
    let report = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["report", "-o", text(&page)]).args(arguments);
        complaint(&command.env("PATH", folder.path()).output().unwrap())
    };
    for (arguments, status, expected) in [
        (&["--by", "kernel", text(&data)][..], 1, "--by needs the marks"),
        (
            &["--cluster", "host", text(&capture)],
            1,
            "is no data set; a cluster reads data sets only",
        ),
        (
            &["--cluster", "host", text(&data)],
            1,
            "hmtt-report-cluster is neither beside hmtt nor in PATH",
        ),
        (&["--cluster", "host", "--by", "kernel", text(&data)], 2, "cannot be used with"),
        (&["--cluster", "host", "--compare", text(&data)], 2, "cannot be used with"),
    ] {
        let (complaint, code) = report(arguments);
        assert!(code == Some(status) && complaint.contains(expected), "{arguments:?}: {complaint}");
        assert!(!page.exists());
    }
    // A damaged part: what precedes it was analysed.
    let part = data.join("kind=accesses/run=report-cluster/board=veth1");
    let part = std::fs::read_dir(part).unwrap().next().unwrap().unwrap().path();
    let part = std::fs::read_dir(part).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&part, b"PAR1 no part PAR1").unwrap();
    let (complaint, status) = complaint(&hmtt(&["stats", text(&data)]));
    assert!(status == Some(1) && complaint.contains(text(&part)), "{complaint}");
}
