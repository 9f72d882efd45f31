//! Tests `hmtt tag` on programs that restrict their system calls, use the resources of tags, or
//! lie: they continue as without tags, and no other process is affected.

mod libraries;
mod memory;
mod own_signals;
pub mod programs;
mod random;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, skipped, wait_for};

/// Builds one of [`programs`].
fn program(name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    build(&format!("tag-hostile-{name}"), &format!("{}{source}", programs::COMMON), flags)
}

/// Whether seccomp filters of other processes can be read, which the kernel allows to root outside
/// of containers.
fn can_read_filters() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_free = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "0"]));
    // SAFETY: geteuid takes no arguments and cannot fail.
    let can = is_free && unsafe { libc::geteuid() } == 0;
    if !can {
        skipped("reading seccomp filters takes root that has none itself");
    }
    can
}

/// A program that runs in parallel and communicates by lines.
struct Companion {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Companion {
    fn start(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        Companion::from_child(command.spawn().unwrap())
    }

    fn from_child(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        Companion { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Returns the remaining output and the exit status.
    fn end(mut self) -> (String, Option<i32>) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap().code())
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_process_with_a_seccomp_filter_is_refused_and_continues() {
    let Some(program) = program("restrained", programs::RESTRAINED, &[]) else { return };
    for how in ["s", "k", "t", "e", "a"] {
        let mut companion = Companion::start(&program, &[how]);
        assert_eq!(companion.line(), "restrained");
        let refused = hmtt_tag(&["attach", &companion.pid()]).output().unwrap();
        let mode = if how == "s" { "strict mode" } else { "filter mode" };
        assert_eq!(refused.status.code(), Some(1), "{how}");
        assert!(errors(&refused).contains(&format!("seccomp in {mode}")), "{}", errors(&refused));
        let (text, status) = companion.end();
        assert_eq!((text.as_str(), status), ("end\n", Some(3)), "{how}");
    }
}

#[test]
fn with_force_only_calls_that_the_filters_allow_are_made() {
    let Some(program) = program("forced", programs::RESTRAINED, &[]) else { return };
    if !can_read_filters() {
        return;
    }
    let reasons = [("s", "strict mode"), ("k", "KILL"), ("t", "TRAP"), ("e", "ERRNO")];
    for (how, why) in reasons {
        let mut companion = Companion::start(&program, &[how]);
        companion.line();
        let refused = hmtt_tag(&["attach", "--force", &companion.pid()]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{how}");
        assert!(errors(&refused).contains(why), "{how}: {}", errors(&refused));
        assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)), "{how}");
    }
    let mut companion = Companion::start(&program, &["a"]);
    companion.line();
    let counts = scratch("tag-hostile-allowed.json");
    let words =
        ["attach", "--force", "--overwrite", "-o", counts.to_str().unwrap(), &companion.pid()];
    let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    let maps = format!("/proc/{}/maps", companion.pid());
    wait_for(&mut tag, "there is memory of tags", || {
        std::fs::read_to_string(&maps).unwrap().contains("hmtt-tag-")
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    companion.child.stdin.as_mut().unwrap().write_all(b"12345").unwrap();
    assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)));
    let tag = tag.wait_with_output().unwrap();
    assert_eq!(tag.status.code(), Some(3), "{}", errors(&tag));
    assert_eq!(calls(&counts)["work"], 5);
}

#[test]
fn filters_of_others_are_not_taken_for_those_of_hmtt() {
    let Some(restrained) = program("others", programs::RESTRAINED, &[]) else { return };
    let Some(allows) = program("allows", programs::ALLOWS, &[]) else { return };
    let mut companion = Companion::start(&restrained, &["k"]);
    assert_eq!(companion.line(), "restrained");
    let mut tag = Command::new(&allows);
    let tag = tag.args([env!("CARGO_BIN_EXE_hmtt"), "tag", "attach", "--force", &companion.pid()]);
    let refused = tag.output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", errors(&refused));
    assert_eq!(companion.end(), ("end\n".to_owned(), Some(3)));
    // Filters that the program inherited from hmtt are recognised.
    let counts = scratch("tag-hostile-inherits.json");
    let mut tag = Command::new(&allows);
    let tag = tag.args([env!("CARGO_BIN_EXE_hmtt"), "tag", "run", "--overwrite", "-o"]);
    let tagged = tag.arg(&counts).arg("--").args([&restrained, &PathBuf::from("none")]);
    let tagged = tagged.stdin(Stdio::null()).output().unwrap();
    assert_eq!(tagged.status.code(), Some(3), "{}", errors(&tagged));
    assert_eq!(calls(&counts)["work"], 100);
}

/// Runs a program that restricts itself after it was tagged.
fn run_restrained(program: &Path, options: &[&str], how: &str) -> Output {
    let mut command = hmtt_tag(&["run"]);
    let command = command.args(options).arg("--").arg(program).args([how, "later"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"go").unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn tags_without_system_calls_work_after_a_later_filter() {
    let Some(program) = program("later", programs::RESTRAINED, &[]) else { return };
    for how in ["k", "t", "e"] {
        let counts = scratch(&format!("tag-hostile-later-{how}.json"));
        let tagged =
            run_restrained(&program, &["--overwrite", "-o", counts.to_str().unwrap()], how);
        assert_eq!(tagged.stdout, b"ready\nrestrained\nend\n", "{how}: {}", errors(&tagged));
        assert_eq!(tagged.status.code(), Some(3), "{how}");
        assert_eq!(calls(&counts)["work"], 200_101, "{how}");
    }
}

#[test]
fn a_log_drops_events_if_waiting_is_not_allowed() {
    let Some(program) = program("log", programs::RESTRAINED, &[]) else { return };
    if !can_read_filters() {
        return;
    }
    let log = scratch("tag-hostile.tags");
    let small = ["--sink", "log", "--full", "wait", "--buffer-kb", "8", "--buffers", "2"];
    let options = [&small[..], &["--overwrite", "-o", log.to_str().unwrap()]].concat();
    for how in ["k", "t", "e"] {
        let tagged = run_restrained(&program, &options, how);
        assert_eq!(tagged.stdout, b"ready\nrestrained\nend\n", "{how}: {}", errors(&tagged));
        assert!(
            errors(&tagged).contains("drop records that do not fit"),
            "{how}: {}",
            errors(&tagged)
        );
        assert!(errors(&tagged).contains("were dropped"), "{how}: {}", errors(&tagged));
    }
    // Filters that allow the call have no effect.
    let tagged = run_restrained(&program, &options, "a");
    assert!(!errors(&tagged).contains("warning"), "{}", errors(&tagged));
}

#[test]
fn memory_that_cannot_be_removed_is_reported_and_harmless() {
    let Some(program) = program("stays", programs::RESTRAINED, &[]) else { return };
    let mut command = hmtt_tag(&["run", "--", program.to_str().unwrap(), "k", "later"]);
    // Standard error is a file, because the program keeps it open.
    let messages = scratch("tag-hostile-stays.txt");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let command = command.stderr(std::fs::File::create(&messages).unwrap());
    let mut tag = Companion::from_child(command.spawn().unwrap());
    assert_eq!(tag.line(), "ready");
    tag.child.stdin.as_mut().unwrap().write_all(b"g").unwrap();
    assert_eq!(tag.line(), "restrained");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let status = Command::new("kill").args(["-INT", &tag.pid()]).status().unwrap();
    assert!(status.success());
    // The program continues, and prints its last line after its input has ended.
    let input = tag.child.stdin.take();
    assert_eq!(tag.child.wait().unwrap().code(), Some(0));
    let text = std::fs::read_to_string(messages).unwrap();
    assert!(text.contains("memory stays"), "{text}");
    drop(input);
    assert_eq!(tag.line(), "end");
}

#[test]
fn a_file_that_a_process_passes_off_as_memory_is_not_changed() {
    let Some(program) = program("lies", programs::LIES, &[]) else { return };
    if !can_read_filters() {
        return;
    }
    let victim = scratch("tag-hostile-victim");
    std::fs::write(&victim, "kept").unwrap();
    let mut companion = Companion::start(&program, &[victim.to_str().unwrap()]);
    let pid = companion.line();
    for (option, why) in [(&[][..], "seccomp in filter mode"), (&["--force"], "USER_NOTIF")] {
        let words = [&["attach"], option, &[pid.as_str()]].concat();
        let refused = hmtt_tag(&words).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains(why), "{}", errors(&refused));
        assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    }
    assert_eq!(companion.end().1, Some(3));
}

#[test]
fn overwritten_records_are_reported_as_damage() {
    let Some(program) = program("scribbles", programs::SCRIBBLES, &[]) else { return };
    let log = scratch("tag-hostile-scribbles.tags");
    let options = ["run", "--sink", "log", "--overwrite", "-o", log.to_str().unwrap(), "--"];
    for word in ["0xfffffffe", "0xffffffff", "0x7fffffff", "100"] {
        let tagged = hmtt_tag(&options).arg(&program).arg(word).output().unwrap();
        let text = errors(&tagged);
        assert_eq!((tagged.status.code(), &tagged.stdout[..]), (Some(3), &b"end\n"[..]), "{text}");
        assert!(text.contains("1 records are invalid"), "{text}");
        let report = hmtt_tag(&["report", "--json", log.to_str().unwrap()]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["lost"]["damaged"], 1, "{word}");
    }
}

#[test]
fn overwritten_counts_are_reported_as_damage() {
    let flags = ["-mfsgsbase"];
    let Some(program) = program("counts-wrong", programs::COUNTS_WRONG, &flags) else { return };
    let tagged = hmtt_tag(&["run", "--"]).arg(&program).output().unwrap();
    let text = errors(&tagged);
    assert_eq!((tagged.status.code(), &tagged.stdout[..]), (Some(3), &b"end\n"[..]), "{text}");
    assert!(text.contains("counts are invalid"), "{text}");
}

#[test]
fn a_program_that_sets_gs_is_refused_or_loses_its_tags() {
    let flags = ["-mfsgsbase"];
    let hidden = ["-mfsgsbase", "-DHIDDEN"];
    let Some(open) = program("gs", programs::TAKES_GS, &flags) else { return };
    let Some(hidden) = program("gs-hidden", programs::TAKES_GS, &hidden) else { return };
    let refused = hmtt_tag(&["run", "--"]).arg(&open).output().unwrap();
    assert_eq!((refused.status.code(), &refused.stdout[..]), (Some(1), &b""[..]));
    assert!(errors(&refused).contains("sets the register gs"), "{}", errors(&refused));
    let none = hmtt_tag(&["run", "--sink", "none", "--"]).arg(&open).output().unwrap();
    assert_eq!((none.status.code(), &none.stdout[..]), (Some(0), &b"1 0 1\n"[..]));
    let log = scratch("tag-hostile-gs.tags");
    let counts = scratch("tag-hostile-gs.json");
    let sinks = [
        ["--sink", "count", "--overwrite", "-o", counts.to_str().unwrap()],
        ["--sink", "log", "--overwrite", "-o", log.to_str().unwrap()],
    ];
    for (program, option) in [(&open, &["--force"][..]), (&hidden, &[])] {
        for sink in sinks {
            let words = [&["run"], option, &sink[..], &["--"]].concat();
            let tagged = hmtt_tag(&words).arg(program).output().unwrap();
            let text = errors(&tagged);
            assert_eq!(tagged.stdout, b"1 0 1\n", "{text}");
            assert_eq!(tagged.status.code(), Some(3), "{text}");
            assert!(text.contains("has taken the register gs"), "{text}");
        }
        // Calls before that are still counted.
        assert_eq!(calls(&counts)["work"], 10);
    }
}

#[test]
fn a_program_that_loads_the_segment_register_is_refused() {
    let Some(program) = program("gs-loads", programs::LOADS_GS, &[]) else { return };
    let refused = hmtt_tag(&["run", "--"]).arg(&program).output().unwrap();
    assert_eq!((refused.status.code(), &refused.stdout[..]), (Some(1), &b""[..]));
    assert!(errors(&refused).contains("sets the register gs"), "{}", errors(&refused));
    let none = hmtt_tag(&["run", "--sink", "none", "--"]).arg(&program).output().unwrap();
    assert_eq!((none.status.code(), &none.stdout[..]), (Some(3), &b"end\n"[..]));
}

#[test]
fn a_program_that_takes_gs_and_ends_at_once_is_reported() {
    let Some(program) = program("gs-ends", programs::ENDS_WITH_GS, &[]) else { return };
    let log = scratch("tag-hostile-gs-ends.tags");
    let counts = scratch("tag-hostile-gs-ends.json");
    let sinks = [("count", &counts), ("log", &log)];
    let ways = [(None, "r"), (None, "w"), (None, "t"), (None, "k"), (Some("-f"), "r")];
    for (sink, file) in sinks {
        for (follow, how) in ways {
            let mut command = hmtt_tag(&["run", "--sink", sink, "--overwrite", "-o"]);
            let command = command.arg(file).args(follow).arg("--").arg(&program).arg(how);
            let tagged = command.output().unwrap();
            let text = format!("{sink} {how} {follow:?} {:?}: {}", tagged.status, errors(&tagged));
            assert!(text.contains("has taken the register gs"), "{text}");
            // The program's own end is passed on.
            match how {
                "k" => assert_eq!(tagged.status.signal(), Some(libc::SIGKILL), "{text}"),
                "r" => assert_eq!(tagged.status.code(), Some(3), "{text}"),
                _ => assert_eq!(tagged.status.code(), Some(4), "{text}"),
            }
        }
    }
}

#[test]
fn forged_tag_memory_does_not_block_controllers_and_is_not_unmapped() {
    let Some(program) = program("forges", programs::FORGES, &[]) else { return };
    let mut companion = Companion::start(&program, &[]);
    assert_eq!(companion.line(), "started");
    let mut detach =
        hmtt_tag(&["detach", &companion.pid()]).stderr(Stdio::piped()).spawn().unwrap();
    // It would take hours if each record were checked in each copy.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(100);
    while detach.try_wait().unwrap().is_none() {
        assert!(std::time::Instant::now() < patience, "hmtt tag detach does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(detach.wait_with_output().unwrap().status.success());
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", companion.pid())).unwrap();
    assert!(!maps.contains("hmtt-tag-"), "{maps}");
    assert_eq!(companion.end(), ("42 7\n".to_owned(), Some(0)));
}
