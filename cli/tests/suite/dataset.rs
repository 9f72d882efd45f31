//! Tests `hmtt dataset`: what it prints, its exit status, and names of its JSON.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use hmtt_test_support::call_log;
use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;

use crate::card::Card;
use crate::convert::samples::everything;
use crate::{capture_file, hmtt, skipped};

/// Runs `hmtt dataset` in a folder. Returns its output, without that folder's path, and its exit
/// status.
fn run(folder: &Path, arguments: &[&str]) -> (String, i32) {
    let Output { stdout, stderr, status } = hmtt(&[&["dataset"], arguments].concat());
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    let folder = format!("{}/", folder.display());
    (text.replace(&folder, ""), status.code().unwrap())
}

#[test]
fn captures_are_added_once_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (frames, _) = Card::new().session(20, 100);
    std::fs::copy(capture_file("dataset.pcapng", &frames), path("a.pcapng")).unwrap();
    std::fs::copy(capture_file("dataset-all.pcapng", &everything()), path("b.pcapng")).unwrap();
    let (data, a, b) = (path("data"), path("a.pcapng"), path("b.pcapng"));
    let add = |arguments: &[&str]| run(folder.path(), &[&["add", &data], arguments].concat());
    let first = "a.pcapng: 2000 accesses, 0 lost, added to run a in 2 parts\n";
    assert_eq!(add(&[&a]), (first.to_owned(), 0));
    assert_eq!(add(&["--run", "c", &a]), ("a.pcapng: in the data set already\n".to_owned(), 0));
    // What is lost is stated, as by `hmtt decode`.
    let (text, status) = add(&["--run", "night/1", "--receiver", "r7", "--json", &b]);
    let added: Value = serde_json::from_str(&text).unwrap();
    assert_json_documented("hmtt dataset add --json", &added);
    assert_eq!((status, &added["is_new"]), (3, &true.into()));
    assert!(folder.path().join("data/kind=runs/run=night%2F1/board=r7-veth1").is_dir());
    let (text, status) = run(folder.path(), &["check", &data, "--json", &a, &b]);
    let check: Value = serde_json::from_str(&text).unwrap();
    assert_json_documented("hmtt dataset check --json", &check);
    assert_eq!((status, &check["problem_count"], &check["recounted"]), (3, &0.into(), &2.into()));
}

#[test]
fn times_of_the_runs_of_a_board_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let stats = |path: &str| -> Value {
        let output = hmtt(&["stats", "--json", path]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["stats"].clone()
    };
    let (mut clocks, mut accesses) = (0, 0);
    for (run, frames) in [("a", 5), ("b", 9), ("c", 20)] {
        let capture =
            capture_file(&format!("dataset-run-{run}.pcapng"), &Card::new().session(frames, 100).0);
        let capture = capture.to_str().unwrap();
        let (text, status) = run_of(&data, run, capture);
        assert_eq!(status, 0, "{text}");
        let own = stats(capture);
        clocks += own["duration_clocks"].as_u64().unwrap();
        accesses += own["accesses"].as_u64().unwrap();
    }
    let sums = stats(&data);
    assert_eq!(sums["duration_clocks"], clocks);
    assert_eq!(sums["accesses"], accesses);
    let rate = sums["accesses_per_second"].as_f64().unwrap();
    let seconds = sums["duration_seconds"].as_f64().unwrap();
    assert!((rate * seconds / accesses as f64 - 1.0).abs() < 1e-9, "{sums}");
}

/// Adds a capture as a run.
fn run_of(data: &str, name: &str, capture: &str) -> (String, i32) {
    run(Path::new("/"), &["add", data, "--run", name, capture])
}

#[test]
fn a_follower_adds_a_capture_and_its_run_is_merged_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (frames, _) = Card::new().session(20, 100);
    for (number, frames) in [(1, &frames[..11]), (2, &frames[11..])] {
        let from = capture_file(&format!("dataset-follow-{number}.pcapng"), frames);
        let to = path(&format!("trace_{number:05}_20231114220000.pcapng"));
        std::fs::copy(from, to).unwrap();
    }
    let (data, file) = (path("data"), path("trace.pcapng"));
    let hmtt = |arguments: &[&str]| run(folder.path(), arguments);
    let (text, status) = hmtt(&["follow", "--until-end", &data, &file]);
    let first =
        "trace_00001_20231114220000.pcapng: 1000 accesses, 0 lost, added to run trace in 3 parts\n";
    assert!(text.starts_with(first) && status == 0, "{text}");
    let (text, status) = hmtt(&["compact", &data]);
    assert!(text.contains(" parts merged into ") && status == 0, "{text}");
    assert_eq!(hmtt(&["check", &data]).1, 0);
    let (text, status) = hmtt(&["drop", &data, "--run", "trace"]);
    assert!(text.ends_with(" parts removed\n") && status == 0, "{text}");
    assert_eq!(hmtt(&["drop", &data, "--run", "trace"]).1, 1);
}

#[test]
fn calls_of_logs_are_added_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, log) = (path("data"), path("prog.tags.4711"));
    let calls = call_log::write(log.as_ref(), 2, 5, 1_700_000_000_000_000_000, 3).len();
    let hmtt = |arguments: &[&str]| run(folder.path(), arguments);
    let (text, status) = hmtt(&["add", "--receiver", "r7", &data, &log]);
    let expected = format!(
        "prog.tags.4711: {calls} calls of 2 threads, 3 events lost, added to run prog in 2 parts\n"
    );
    assert_eq!((text, status), (expected, 3));
    assert!(folder.path().join("data/kind=calls/run=prog/board=r7-pid4711").is_dir());
    let (text, status) = hmtt(&["check", &data, &log]);
    assert!(text.contains(&format!("\n{calls} calls, 3 events lost\n")) && status == 3, "{text}");
    // `hmtt tag report` counts as many.
    let report = succeed(&["tag", "report", "--json", &log], 3);
    let report: Value = serde_json::from_str(&report).unwrap();
    let functions = report["functions"].as_array().unwrap().iter();
    let counted: u64 = functions.map(|function| function["calls"].as_u64().unwrap()).sum();
    assert_eq!(counted, calls as u64);
    let other = path("other");
    let (text, _) = hmtt(&["add", "--json", &other, &log]);
    assert_json_documented("hmtt dataset add --json", &serde_json::from_str(&text).unwrap());
    std::fs::remove_file(path("prog.tags.4711.json")).unwrap();
    let (text, status) = hmtt(&["add", &path("third"), &log]);
    assert!(text.contains("prog.tags.4711.json") && status == 1, "{text}");
}

/// Standard output of a command that ends with this status.
fn succeed(arguments: &[&str], expected: i32) -> String {
    let output = hmtt(arguments);
    assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn folders_that_are_no_data_sets_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let expected = "hmtt: data is no data set: it has no tables\n".to_owned();
    assert_eq!(run(folder.path(), &["check", data.to_str().unwrap()]), (expected, 1));
}

/// A user who is not root.
const NOBODY: u32 = 65534;

/// Commands that read a data set.
const READERS: [&[&str]; 5] =
    [&["stats"], &["hot"], &["rows"], &["report", "-o", "/dev/null", "-f"], &["dataset", "check"]];

/// Runs `hmtt` as another user if this one is root. `None` if that user may not execute it.
fn as_ordinary_user(arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(arguments).current_dir("/");
    if nix::unistd::Uid::effective().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            skipped("another user may not execute the program");
            None
        }
        output => Some(output.unwrap()),
    }
}

/// Makes a folder, its folders and its files of one mode and owner each.
fn set_all(folder: &Path, folder_mode: u32, file_mode: u32, owner: Option<u32>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => set_all(&path, folder_mode, file_mode, owner),
            kind if kind.is_file() => {
                std::fs::set_permissions(&path, Permissions::from_mode(file_mode)).unwrap();
                std::os::unix::fs::lchown(&path, owner, owner).unwrap();
            }
            _ => std::os::unix::fs::lchown(&path, owner, owner).unwrap(),
        }
    }
    std::os::unix::fs::lchown(folder, owner, owner).unwrap();
    std::fs::set_permissions(folder, Permissions::from_mode(folder_mode)).unwrap();
}

#[test]
fn a_data_set_is_read_by_another_user_where_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (frames, _) = Card::new().session(20, 100);
    std::fs::copy(capture_file("dataset-read.pcapng", &frames), path("a.pcapng")).unwrap();
    let data = path("data");
    assert_eq!(run(folder.path(), &["add", &data, &path("a.pcapng")]).1, 0);
    for has_staging in [true, false] {
        if !has_staging {
            std::fs::remove_dir_all(folder.path().join("data/.staging")).unwrap();
        }
        set_all(Path::new(&data), 0o555, 0o444, None);
        for reader in READERS {
            let arguments = [reader, &[&*data]].concat();
            let Some(output) = as_ordinary_user(&arguments) else { return };
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
            assert!(
                reader[0] == "report" || output.stdout == hmtt(&arguments).stdout,
                "{arguments:?}"
            );
        }
        set_all(Path::new(&data), 0o755, 0o644, None);
    }
}

#[test]
fn the_author_of_a_data_set_changes_no_file_of_who_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (frames, _) = Card::new().session(20, 100);
    std::fs::copy(capture_file("dataset-author.pcapng", &frames), path("a.pcapng")).unwrap();
    let (data, own) = (path("data"), path("own"));
    assert_eq!(run(folder.path(), &["add", &data, &path("a.pcapng")]).1, 0);
    std::fs::create_dir(&own).unwrap();
    std::fs::write(path("own/keys"), "own").unwrap();
    // What an archive unpacks: a link out of the data set, and a change that was interrupted.
    symlink(&own, path("data/x")).unwrap();
    std::fs::create_dir(path("data/.staging/1-1")).unwrap();
    std::fs::write(path("data/.staging/1-1.lock"), "").unwrap();
    std::fs::write(path("data/.staging/1-1/0"), "other").unwrap();
    let journal = r#"[{"place":{"staged":"0","path":"x/keys"}}]"#;
    std::fs::write(path("data/.staging/1-1/journal"), journal).unwrap();
    let other = nix::unistd::Uid::effective().is_root().then_some(NOBODY);
    set_all(folder.path(), 0o755, 0o644, other);
    let capture = path("a.pcapng");
    let writers: [&[&str]; 3] = [
        &["dataset", "add", &data, &capture],
        &["dataset", "compact", &data],
        &["dataset", "drop", "--run", "a", &data],
    ];
    let readers = READERS.map(|reader| [reader, &[&*data]].concat());
    for arguments in readers.iter().map(|reader| &reader[..]).chain(writers) {
        // As the user to whom all of it belongs, and as root.
        let Some(output) = as_ordinary_user(arguments) else { return };
        for output in [output, hmtt(arguments)] {
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
            let names_reason =
                text.contains("journal: damaged") || text.contains("only the user who owns");
            assert!(names_reason, "{arguments:?}: {text}");
        }
        assert_eq!(std::fs::read(path("own/keys")).unwrap(), b"own", "{arguments:?}");
        assert_eq!(std::fs::read(path("data/.staging/1-1/0")).unwrap(), b"other", "{arguments:?}");
    }
}
