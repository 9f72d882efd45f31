//! Tests `-` for standard input and output with every command that reads or writes a trace once.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::card::Card;
use crate::{capture, hmtt, scratch, skipped};

/// Runs `hmtt` with these bytes on a pipe, written in two pieces.
fn piped(bytes: &[u8], arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hmtt"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let (first, rest) = bytes.split_at(bytes.len().min(3));
    let (first, rest) = (first.to_vec(), rest.to_vec());
    let writer = std::thread::spawn(move || {
        // A command that does not read its input is recognised by its output.
        let _ = input.write_all(&first).and_then(|()| input.write_all(&rest));
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Runs `hmtt` with a file as its standard input.
fn redirected(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(arguments).stdin(File::open(file).unwrap()).output().unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a capture with a gap, and the path of its file.
fn sample(name: &str) -> (Vec<u8>, std::path::PathBuf) {
    let (mut frames, _) = Card::new().session(9, 100);
    frames.remove(4);
    let bytes = capture(&frames);
    let file = scratch(name);
    fs::write(&file, &bytes).unwrap();
    (bytes, file)
}

#[test]
fn a_capture_is_read_from_standard_input_as_from_a_file() {
    let (bytes, file) = sample("standard.pcapng");
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    for command in [&["decode"][..], &["info", "--json"], &["analysis"]] {
        let expected = hmtt(&[command, &[text(&file)]].concat());
        let arguments = [command, &["-"]].concat();
        for read in
            [piped(&bytes, &arguments), piped(&packed, &arguments), redirected(&file, &arguments)]
        {
            assert_eq!(read.status.code(), Some(3), "{command:?}: {}", complaint(&read));
            assert!(read.stdout == expected.stdout, "{command:?}");
            // The card did not analyse.
            let is_empty = *command == ["analysis"];
            let text = complaint(&read);
            assert_eq!(text.contains("no results of a card's analysis"), is_empty, "{text}");
            assert!(is_empty || text.is_empty(), "{command:?}: {text}");
        }
    }
}

#[test]
fn errors_in_standard_input_name_it() {
    let (bytes, _) = sample("standard-wrong.pcapng");
    let foreign = piped(b"no capture at all", &["decode", "-"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(complaint(&foreign).starts_with("hmtt: standard input: not a pcapng or pcap file"));
    let cut = piped(&bytes[..bytes.len() - 300], &["info", "-"]);
    assert_eq!(cut.status.code(), Some(3));
    assert!(complaint(&cut).contains("warning: standard input: ends within the block"));
    let empty = piped(b"", &["info", "-"]);
    assert_eq!(empty.status.code(), Some(1), "{}", complaint(&empty));
}

#[test]
fn a_conversion_reads_and_writes_standard_streams() {
    let (bytes, file) = sample("standard-convert.pcapng");
    let csv = scratch("standard-convert.csv");
    assert_eq!(hmtt(&["convert", text(&file), text(&csv)]).status.code(), Some(3));
    let csv = fs::read(&csv).unwrap();
    let from_capture = piped(&bytes, &["convert", "--from", "pcapng", "-", "--to", "csv", "-"]);
    assert_eq!(from_capture.status.code(), Some(3), "{}", complaint(&from_capture));
    assert!(from_capture.stdout == csv);
    let from_csv = piped(&csv, &["convert", "--from", "csv", "-", "--to", "csv", "-"]);
    assert_eq!(from_csv.status.code(), Some(3), "{}", complaint(&from_csv));
    assert!(from_csv.stdout == csv);
    let unsaid = piped(&csv, &["convert", "-", "--to", "csv", "-"]);
    assert!(complaint(&unsaid).contains("give --from"), "{}", complaint(&unsaid));
    let decoded = hmtt(&["decode", text(&file), "--format", "csv", "-o", "-"]);
    assert!(decoded.stdout == csv);
}

#[test]
fn inputs_that_must_be_files_are_rejected_on_a_stream() {
    let parquet = piped(b"PAR1", &["convert", "--from", "parquet", "-", "--to", "csv", "-"]);
    assert_eq!(parquet.status.code(), Some(1));
    assert!(complaint(&parquet).contains("Parquet begins at its end"), "{}", complaint(&parquet));
    let merge = piped(b"", &["merge", "-"]);
    assert_eq!(merge.status.code(), Some(1));
    assert!(complaint(&merge).contains("standard input is not"), "{}", complaint(&merge));
}

#[test]
fn a_capture_on_standard_input_is_never_its_own_output() {
    let (bytes, file) = sample("standard-own.pcapng");
    let refused = redirected(&file, &["decode", "-", "-f", "-o", text(&file)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint(&refused).contains("is the capture itself"), "{}", complaint(&refused));
    assert!(fs::read(&file).unwrap() == bytes);
}

#[test]
fn a_terminal_is_rejected_as_a_capture() {
    let ask = format!("{} info -", env!("CARGO_BIN_EXE_hmtt"));
    let output = Command::new("script").args(["-qec", &ask, "/dev/null"]).output();
    let Ok(output) = output else { return crate::skipped("no script") };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("standard input: cannot open the capture: it is a terminal"),
        "{printed}"
    );
    assert_eq!(output.status.code(), Some(1), "{printed}");
}

#[test]
fn a_failure_to_write_to_standard_output_is_named() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return skipped("no /dev/full");
    };
    let (_, file) = sample("standard-full.pcapng");
    let counts = scratch("standard-full.json");
    fs::write(&counts, r#"{ "functions": [{ "name": "f", "calls": 1 }] }"#).unwrap();
    let program = env!("CARGO_BIN_EXE_hmtt");
    for arguments in [
        &["info", text(&file)][..],
        &["info", "--json", text(&file)],
        &["completions", "bash"],
        &["man", env!("CARGO_TARGET_TMPDIR")],
        &["tag", "report", text(&counts)],
        &["tag", "report", "--json", text(&counts)],
        &["tag", "list", "-i", "main", program],
        &["tag", "list", "-i", "main", "--blocks", "main", program],
    ] {
        let mut command = Command::new(program);
        let output = command.args(arguments).stdout(full.try_clone().unwrap()).output().unwrap();
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complaint}");
        let expected = "hmtt: cannot write to standard output: No space left on device";
        assert!(complaint.starts_with(expected), "{arguments:?}: {complaint}");
    }
}
