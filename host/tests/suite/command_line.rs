//! Tests the command line of `hmtt-recv`: help, rejected arguments and their messages.

use std::fs;
use std::process::{Command, Output};

use hmtt_host::files::{DiskFile, Entry};
use hmtt_test_support::programs::transcript;

use crate::live::{Play, SEND_ALL, frames_of, perform, session};
use crate::online::golden;
use crate::{scratch, skipped};

fn hmtt_recv(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt-recv"))
        .args(arguments)
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

/// Checks that a command line is rejected with this text.
fn assert_wrong_usage(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(words), "{complaint}");
}

#[test]
fn help_lists_the_options() {
    golden("help-hmtt-recv", &transcript(&hmtt_recv(&["--help"])));
}

#[test]
fn a_limit_of_zero_is_rejected_with_the_reason() {
    assert_wrong_usage(&hmtt_recv(&["lo", "-c", "0"]), "a capture of 0 frames keeps nothing");
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
fn an_interface_can_be_named_only_once() {
    let refused = hmtt_recv(&["-i", "veth0", "veth2", "--interface", "veth2"]);
    assert_wrong_usage(&refused, "interface veth2 is named twice");
}

#[test]
fn a_directory_is_rejected_as_a_capture_file() {
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
fn a_capture_can_be_written_to_a_named_pipe() {
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
fn a_series_cannot_be_written_to_a_named_pipe() {
    let pipe = scratch("series.fifo");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return skipped("no mkfifo");
    }
    let arguments = ["veth1", "-w", pipe.to_str().unwrap(), "-b", "packets:5"];
    let Some(refused) = perform("series", &session(1), Play::default(), &arguments) else { return };
    assert!(refused.log.contains("is a named pipe, which cannot be rotated"), "{}", refused.log);
}
#[test]
fn a_missing_interface_is_an_error() {
    let output = hmtt_recv(&["no-such-interface"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.starts_with("hmtt-recv: no interface no-such-interface; there are: lo"));
}

#[test]
fn a_rejected_command_line_has_its_own_exit_code() {
    for wrong in [
        &["lo", "-a", "filesize:3"][..],
        &[],
        &["lo", "--ring-mb", "0"],
        &["lo", "-a", "hours:3"],
        &["lo", "-a", "files:3"],
        &["lo", "-b", "filesize:3"],
        &["lo", "-w", "x.pcapng", "-b", "files:3"],
        &["lo", "-w", "-", "--json"],
        &["lo", "lo"],
        &["lo", "-i", "lo"],
    ] {
        assert_eq!(hmtt_recv(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn an_existing_capture_is_overwritten_only_with_force() {
    let path = scratch("existing.pcapng");
    fs::write(&path, "precious").unwrap();
    let entry = Entry::find(&path).unwrap().unwrap();
    let error = DiskFile::create(&entry, 0o600, false).err().unwrap();
    assert_eq!(error.to_string(), format!("{} exists; give -f to overwrite it", path.display()));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    DiskFile::create(&entry, 0o600, true).unwrap().finish().result.unwrap();
    assert_ne!(fs::read(&path).unwrap(), b"precious");
}

/// Root of a user namespace has no rights over the interfaces outside it.
#[test]
fn the_error_for_a_missing_privilege_says_how_to_give_it() {
    let recv = env!("CARGO_BIN_EXE_hmtt-recv");
    let output = match Command::new("unshare").args(["-Ur", recv, "lo"]).output() {
        Ok(output) if output.status.code() == Some(1) => output,
        other => return skipped(format_args!("no user namespaces: {other:?}")),
    };
    let complaint = String::from_utf8(output.stderr).unwrap();
    if complaint.starts_with("unshare:") {
        return skipped(complaint);
    }
    let remedy = format!("sudo setcap cap_net_raw+ep {recv}");
    assert!(complaint.contains(&remedy), "{complaint}");
}
