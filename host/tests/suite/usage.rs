//! What the commands refuse, and why they say they do.

use std::path::Path;
use std::process::{Command, Output};

use crate::live::{Play, SEND_ALL, frames_of, perform, session};
use crate::{hmtt, scratch, skipped};

fn hmtt_recv(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt-recv")).args(arguments).output().unwrap()
}

/// Checks that this is wrong usage, and that the complaint has these words.
fn assert_wrong_usage(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(words), "{complaint}");
}

#[test]
fn a_limit_of_nothing_is_wrong_usage_and_says_why() {
    assert_wrong_usage(&hmtt_recv(&["lo", "-c", "0"]), "after 0 frames nothing is captured");
    assert_wrong_usage(&hmtt_recv(&["lo", "-c", "many"]), "expected a number of frames");
    for name in ["duration", "filesize", "files", "packets"] {
        let condition = format!("{name}:0");
        for option in ["-a", "-b"] {
            let refused = hmtt_recv(&["lo", "-w", "x.pcapng", option, &condition]);
            assert_wrong_usage(&refused, &format!("{condition} is met before the first frame"));
        }
    }
}

#[test]
fn an_interface_is_named_once_whichever_way() {
    let refused = hmtt_recv(&["-i", "veth0", "veth2", "--interface", "veth2"]);
    assert_wrong_usage(&refused, "interface veth2 is named twice");
}

#[test]
fn formats_are_offered_where_they_can_be_used() {
    let refused = hmtt(&["convert", "in.csv", "out", "--to", "pcapng"]);
    assert_wrong_usage(&refused, "[possible values: parquet, csv, jsonl, text, hmtt6]");
    let refused = hmtt(&["convert", "in", "out.csv", "--from", "text"]);
    assert_wrong_usage(&refused, "[possible values: pcapng, parquet, csv, jsonl, hmtt6]");
    let refused = hmtt(&["merge", "in.pcapng", "--format", "pcapng"]);
    assert_wrong_usage(&refused, "[possible values: parquet, csv, jsonl, text, hmtt6]");
}

#[test]
fn man_pages_make_no_folder() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-such-folder/man1");
    let output = hmtt(&["man", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains(&format!("mkdir -p {}", folder.display())), "{complaint}");
    assert!(!folder.parent().unwrap().exists());
}

#[test]
fn a_folder_takes_no_capture() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    for extra in [&[][..], &["-f"], &["-b", "files:2", "-b", "packets:5"]] {
        let arguments = [&["veth1", "-w", folder], extra].concat();
        let Some(refused) = perform("folder", &session(1), Play::default(), &arguments) else {
            return;
        };
        assert!(refused.log.contains("is a directory; name a file in it"), "{}", refused.log);
    }
}

#[test]
fn a_named_pipe_takes_a_capture_as_a_stream() {
    let frames = session(300);
    for (name, extra) in [("pipe", &[][..]), ("pipe-forced", &["-f"]), ("pipe-zstd", &["--zstd"])] {
        let pipe = scratch(&format!("{name}.fifo"));
        let read = scratch(&format!("{name}-read.pcapng"));
        let prepare = format!(
            "mkfifo '{pipe}'; cat '{pipe}' >'{read}' & reader=$!",
            pipe = pipe.display(),
            read = read.display()
        );
        let play = Play { prepare: &prepare, play: SEND_ALL, after: "wait $reader" };
        let arguments = [&["veth1", "--until-end", "-w", pipe.to_str().unwrap()], extra].concat();
        let Some(received) = perform(name, &frames, play, &arguments) else { return };
        assert_eq!(received.status, 0, "{}", received.log);
        assert!(frames_of(&read) == frames, "{}", received.log);
    }
}

#[test]
fn a_named_pipe_takes_no_series() {
    let pipe = scratch("series.fifo");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return skipped("no mkfifo");
    }
    let arguments = ["veth1", "-w", pipe.to_str().unwrap(), "-b", "packets:5"];
    let Some(refused) = perform("series", &session(1), Play::default(), &arguments) else { return };
    assert!(refused.log.contains("is a named pipe: it takes one capture"), "{}", refused.log);
}
