//! Tests the end of a capture under failures: a stalled reader, a limit on file sizes, a disk that
//! fails late, a clock that is set back. Runs on real interfaces, as in `live`.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt::pcapng::PcapngReader;
use serde_json::Value;

use crate::live::{Play, Received, SEND_ALL, frames_of, perform, session};
use crate::series::{files, folder};
use crate::{info, scratch, skipped};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the number after `name` in the summary on standard error.
fn summary_count(log: &str, name: &str) -> u64 {
    let line = log.lines().find(|line| line.starts_with(name)).expect(name);
    line[name.len()..].trim().parse().unwrap()
}

/// Runs a receiver that writes into a pipe of 64 KiB without a reader, until one SIGINT or the
/// options `until` end it. What is read from the pipe after that is in the returned file.
fn stalled_capture(name: &str, file: &str, until: &[&str]) -> Option<(Received, PathBuf)> {
    let interrupt = if until.is_empty() { "kill -INT $receiver" } else { ":" };
    let [fifo, read] = [format!("{name}.fifo"), format!("{name}.pcapng")].map(|of| scratch(&of));
    let prepare = format!(
        "mkfifo '{fifo}'; exec 3<>'{fifo}' 6>&1; [ '{file}' != - ] || exec >&3",
        fifo = text(&fifo)
    );
    let play = format!(
        r#"exec >&6
        send "$ALL"; sleep 0.5; {interrupt}
        for _ in $(seq 1000); do kill -0 $receiver 2>/dev/null || break; sleep 0.02; done
        if kill -0 $receiver 2>/dev/null; then echo 'it hangs' >&2; kill -KILL $receiver; fi
        timeout 10 cat <'{fifo}' >'{read}' & exec 3>&-"#,
        fifo = text(&fifo),
        read = text(&read)
    );
    let play = Play { prepare: &prepare, play: &play, after: "wait" };
    let file = if file == "-" { file } else { text(&fifo) };
    let words = [&["veth1", "-w", file], until].concat();
    let received = perform(name, &session(2000), play, &words)?;
    Some((received, read))
}

#[test]
fn a_capture_with_a_stalled_reader_ends_by_one_signal_or_its_limit() {
    let time = &["-a", "duration:3"];
    // At once, because each spends its time waiting.
    std::thread::scope(|scope| {
        for (name, file, until, output) in [
            ("stalled-stdout", "-", &[][..], "standard output"),
            ("stalled-fifo", "fifo", &[], "stalled-fifo.fifo"),
            ("stalled-time", "-", time, "standard output"),
        ] {
            scope.spawn(move || ends_without_its_reader(name, file, until, output));
        }
    });
}

fn ends_without_its_reader(name: &str, file: &str, until: &[&str], output: &str) {
    let Some((received, read)) = stalled_capture(name, file, until) else { return };
    let log = &received.log;
    assert!(!log.contains("it hangs"), "{log}");
    assert_eq!(received.status, 1, "{log}");
    let printed = format!("{output} was given up: its reader stopped reading");
    assert!(log.contains("the capture ended early: ") && log.contains(&printed), "{log}");
    let mut reader = PcapngReader::open(&read).unwrap();
    let mut written = 0;
    while let Ok(Some(_)) = reader.next_packet() {
        written += 1;
    }
    let captured = log.lines().find_map(|line| line.split_once(" frames captured in ")).unwrap();
    assert_eq!(captured.0, "2002", "{log}");
    let unwritten = summary_count(log, "captured, NOT written");
    assert!(written > 10 && written + unwritten == 2002, "{written} written: {log}");
}

#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_ignored() {
    let file = scratch("nohup.pcapng");
    let play = r#"send "$FIRST"; sleep 0.3; kill -HUP $receiver; sleep 0.5; send "$LAST""#;
    let play = Play { prepare: "trap '' HUP", play, after: "" };
    let frames = session(100);
    let arguments = ["veth1", "--until-end", "-w", text(&file)];
    let Some(received) = perform("nohup", &frames, play, &arguments) else { return };
    assert_eq!(received.status, 0, "{}", received.log);
    assert!(frames_of(&file) == frames, "{}", received.log);
}

#[test]
fn a_limit_of_file_sizes_ends_the_capture_with_a_complete_file() {
    let frames = session(2000);
    for zstd in [&[][..], &["--zstd=1"]] {
        let folder = folder("limited");
        let file = folder.join("a.pcapng");
        // The unit of `ulimit -f` is 1024 bytes.
        let play = Play { prepare: "ulimit -f 1024", play: SEND_ALL, after: "" };
        let own = ["veth1", "--json", "--until-end", "-w", text(&file)];
        let Some(received) = perform("limited", &frames, play, &[&own[..], zstd].concat()) else {
            return;
        };
        assert_eq!(received.status, 1, "{}", received.log);
        assert!(
            received.log.contains("has reached the limit on the size of files"),
            "{}",
            received.log
        );
        let file = &files(&folder)[0];
        let length = file.metadata().unwrap().len();
        assert!(length <= 1 << 20, "{length}");
        assert_eq!(received.summary["written_bytes"], length);
        let written = frames_of(file);
        // A compressed frame of 2 MiB is in the file completely or not at all.
        assert!(written.len() > 100 || !zstd.is_empty(), "{}", written.len());
        assert!(written[..] == frames[..written.len()]);
        let unwritten = received.summary["unwritten_frames"].as_u64().unwrap();
        assert_eq!(received.summary["captured_frames"], written.len() as u64 + unwritten);
    }
}

#[test]
fn a_terminal_is_rejected_as_a_capture_file() {
    let recv = env!("CARGO_BIN_EXE_hmtt-recv");
    let inside = format!(
        "unshare -Urn sh -c 'ip link set lo up; {recv} lo -a duration:20 -w -; echo status $?'"
    );
    let output = Command::new("script").args(["-qec", &inside, "/dev/null"]).output();
    let output = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return skipped(format_args!("script: {error}")),
    };
    if output.starts_with("unshare:") {
        return skipped(output);
    }
    assert!(output.contains("standard output is a terminal"), "{output}");
    assert!(output.contains("status 1"), "{output}");
}

/// Functions of the C library that simulate a failing disk or a change of the clock, which a test
/// must not cause on the machine itself.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Notes the path in $SYNC_LOG; fails if the path contains $SYNC_FAIL. */
int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    char link[64], path[PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    path[length < 0 ? 0 : length] = 0;
    if (getenv("SYNC_LOG")) {
        int log = open(getenv("SYNC_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
        dprintf(log, "%s\n", path);
        close(log);
    }
    if (getenv("SYNC_FAIL") && strstr(path, getenv("SYNC_FAIL"))) { errno = EIO; return -1; }
    return real(fd);
}

/* An hour early once there is a file $CLOCK_BACK. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    char *flag = clock == CLOCK_REALTIME ? getenv("CLOCK_BACK") : NULL;
    if (flag && access(flag, F_OK) == 0) time->tv_sec -= 3600;
    return result;
}
"#;

/// Builds the shim as a library for the test `name`; `None` if the test is skipped.
fn shim(name: &str) -> Option<PathBuf> {
    let [source, library] = ["c", "so"].map(|kind| scratch(&format!("{name}-shim.{kind}")));
    std::fs::write(&source, SHIM).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o", text(&library), text(&source), "-ldl"])
        .output();
    match compiled {
        Err(error) => {
            skipped(format_args!("cc: {error}"));
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
    }
}

/// Captures with the shim. `setting`: shell assignments that configure the shim.
fn shimmed(
    name: &str,
    frames: &[Vec<u8>],
    setting: &str,
    play: &str,
    arguments: &[&str],
) -> Option<Received> {
    let library = shim(name)?;
    let prepare = format!("export {setting} LD_PRELOAD='{}'", text(&library));
    // Only the receiver uses the shim.
    let play = format!("unset LD_PRELOAD; {play}");
    let play = Play { prepare: &prepare, play: &play, after: "" };
    perform(name, frames, play, arguments)
}

#[test]
fn each_file_and_its_directory_are_durable_at_the_end() {
    let (folder, log) = (folder("durable"), scratch("durable-synced.txt"));
    let base = folder.join("a.pcapng");
    let setting = format!("SYNC_LOG='{}'", text(&log));
    let own = ["veth1", "--until-end", "-w", text(&base), "-b", "packets:100"];
    let Some(received) = shimmed("durable", &session(250), &setting, SEND_ALL, &own) else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    let synced = std::fs::read_to_string(&log).unwrap();
    let expected: Vec<String> = files(&folder)
        .iter()
        .flat_map(|file| [text(file).to_owned(), text(&folder).to_owned()])
        .collect();
    assert_eq!(expected.len(), 6);
    assert_eq!(synced.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_that_cannot_be_made_durable_is_an_error() {
    let folder = folder("not-durable");
    // For a single file, for the first file of a series, and for a directory.
    for (name, fails, rotation) in [
        ("single.pcapng", "single", &[][..]),
        ("first.pcapng", "first_00001", &["-b", "packets:100"]),
        ("directory.pcapng", "not-durable", &[]),
    ] {
        let base = folder.join(name);
        let setting = format!("SYNC_FAIL='{}'", fails);
        let own = ["veth1", "--json", "--until-end", "-w", text(&base)];
        let arguments = [&own[..], rotation].concat();
        let received = shimmed("not-durable", &session(250), &setting, SEND_ALL, &arguments);
        let Some(received) = received else { return };
        assert_eq!(received.status, 1, "{}", received.log);
        assert!(received.log.contains("durable (fsync)"), "{}", received.log);
        assert!(received.log.contains("Input/output error"), "{}", received.log);
        let (captured, unwritten) =
            (&received.summary["captured_frames"], &received.summary["unwritten_frames"]);
        let written: usize = files(&folder)
            .iter()
            .filter(|file| text(file).contains(name.trim_end_matches(".pcapng")))
            .map(|file| frames_of(file).len())
            .sum();
        let unwritten = unwritten.as_u64().unwrap() as usize;
        assert_eq!(*captured, written + unwritten, "{}", received.log);
    }
}

#[test]
fn a_clock_that_is_set_back_is_reported_with_the_frame() {
    let (folder, flag) = (folder("clock-back"), scratch("clock-back.flag"));
    let base = folder.join("a.pcapng");
    let frames = session(100);
    let first = frames.len() - 20;
    let setting = format!("CLOCK_BACK='{}'", text(&flag));
    let play =
        format!(r#"send "$FIRST"; sleep 0.5; : >'{}'; sleep 0.5; send "$LAST""#, text(&flag));
    let own = ["veth1", "--json", "--until-end", "--fallback"];
    let arguments = [&own[..], &["-w", text(&base), "-b", "packets:50"]].concat();
    let Some(received) = shimmed("clock-back", &frames, &setting, &play, &arguments) else {
        return;
    };
    assert_eq!(received.status, 0, "{}", received.log);
    assert_eq!(received.summary["clock_step_count"], 1);
    let step = &received.summary["clock_steps"][0];
    assert!((step["step_seconds"].as_f64().unwrap() + 3600.0).abs() < 0.01, "{step}");
    assert_eq!(
        (&step["captured_frames"], &step["first_frame"]),
        (&first.into(), &(first + 1).into())
    );
    let printed = format!("seen first at captured frame {}", first + 1);
    assert!(received.log.contains("clock SET back by 3600.000 s"), "{}", received.log);
    assert!(received.log.contains(&printed), "{}", received.log);
    // Of the statistics in the files the latest counts apply, although their clock is earlier.
    let joined = scratch("clock-back.pcapng");
    let bytes: Vec<u8> =
        files(&folder).iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    std::fs::write(&joined, bytes).unwrap();
    let described = info(&joined);
    assert_eq!(
        (&described["counts"]["missing_frames"], &described["counts"]["gap_count"]),
        (&0.into(), &0.into())
    );
    assert_eq!(described["counts"]["complete_tail"], true);
    assert_eq!(
        described["interfaces"][0]["statistics"]["received_frames"],
        frames.len() as u64,
        "{described}"
    );
    assert_eq!(described["counts"]["frames"], frames.len() as u64);
    // A comment in the file states that its times are not continuous.
    let comment = described["interfaces"][0]["statistics_comment"].as_str().unwrap();
    let comment: Value = serde_json::from_str(comment).unwrap();
    assert_eq!(comment["clock_steps"][0], *step);
}
