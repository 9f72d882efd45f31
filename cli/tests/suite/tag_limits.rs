//! Tests `hmtt tag` where it cannot write: limits on file sizes, full disks. No program stays
//! stopped or partly tagged, and a program that it starts inherits what it would inherit otherwise.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hmtt_probe::address::FileAddr;
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::{ReadMemory, RunningMemory, mappings};
use nix::unistd::Pid;

use crate::tag::{THREADS, build, hmtt_tag};
use crate::{scratch, skipped};

/// Prints the resources that it has inherited.
const INHERITS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
    char line[256];
    FILE *out = fopen(words[1], "w"), *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6)) fputs(line, out);
    fclose(status);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        fprintf(out, "%d %lu %lu\n", i, limit.rlim_cur, limit.rlim_max);
    }
    for (char **one = environ; *one; one++) fprintf(out, "%s\n", *one);
    for (int i = 0; i < count; i++) if (i != 1) fprintf(out, "%s\n", words[i]);
    for (int i = 0; i < 64; i++) if (i != fileno(out)) fprintf(out, "%d", access("/proc/self/fd", F_OK) == 0 && fcntl_open(i));
    fprintf(out, "\n");
    return fclose(out);
}
"#;

/// Whether the process has a file open under a number.
const OPEN: &str =
    "#include <fcntl.h>\nstatic int fcntl_open(int i) { return fcntl(i, F_GETFD) != -1; }\n";

#[test]
fn a_started_program_inherits_the_same_with_and_without_hmtt() {
    let source = format!("{OPEN}{INHERITS}");
    let Some(program) = build("tag-inherits", &source, &[]) else { return };
    let env = |signals: &[&str], script: &str, tagged: bool| {
        let file = scratch("tag-inherits.txt");
        let tag: &[&str] = if tagged {
            &[env!("CARGO_BIN_EXE_hmtt"), "tag", "run", "--sink", "none", "--"]
        } else {
            &[]
        };
        let mut command = Command::new("env");
        command.args(signals).args(["sh", "-c", script, "sh"]);
        command.args(tag).arg(&program).arg(&file).arg("a word").env("HMTT_TEST", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(file).unwrap()
    };
    for (signals, script) in [
        (&[][..], r#"exec "$@""#),
        (&["--ignore-signal=PIPE,XFSZ,INT"], r#"exec "$@""#),
        (&["--default-signal=PIPE", "--block-signal=USR1,INT,CHLD"], r#"exec "$@""#),
        (&[], r#"ulimit -n 50; exec "$@" 7</dev/null"#),
        (&[], r#"exec "$@" <&- 2>&-"#),
    ] {
        let expected = env(signals, script, false);
        assert_eq!(env(signals, script, true), expected, "{signals:?} {script}");
    }
}

/// Returns the states of the threads of a process.
fn states(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        stat[stat.rfind(')')? + 2..].chars().next()
    };
    tasks.filter_map(state).collect()
}

/// Whether the code of a process is that of its file.
fn is_plain(pid: u32, program: &Path) -> bool {
    let image = Image::read(program).unwrap();
    let mapped = mappings(Pid::from_raw(pid as i32)).unwrap();
    let first = mapped.iter().find(|one| one.executable && one.path == program).unwrap();
    let bias = hmtt_probe::control::bias(&image, first, &mapped).unwrap();
    let memory = RunningMemory::open(Pid::from_raw(pid as i32)).unwrap();
    image.text.iter().all(|text| {
        let mut there = vec![0; text.bytes.len()];
        memory.read(bias.to_run(FileAddr(text.start)), &mut there).is_ok() && there == text.bytes
    })
}

/// Runs until its input ends, with threads that call functions.
const BUSY: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile long calls;
static volatile int stop;
__attribute__((noipa)) void leaf(void) { calls++; }
static void *run(void *unused) { while (!stop) leaf(); return unused; }
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, run, 0);
    puts("began"); fflush(stdout);
    while (getchar() != EOF) { puts("here"); fflush(stdout); }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    puts("ended");
    return 5;
}
"#;

struct Busy {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Busy {
    fn start(program: &Path) -> Busy {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "began\n");
        Busy { child, output }
    }

    /// Checks that all threads run and that the program answers.
    fn lives(&mut self) {
        self.answers();
        // The tracees of a killed controller continue only after its end was reported.
        let states = states(self.child.id());
        assert!(
            states.len() == 4 && !states.iter().any(|state| "tT".contains(*state)),
            "{states:?}"
        );
    }

    fn answers(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), self.child.wait().unwrap().code()), ("ended\n", Some(5)));
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_no_signal() {
    let Some(program) = build("tag-limited", BUSY, &[]) else { return };
    let log = scratch("tag-limited.tags");
    let log = log.to_str().unwrap();
    // A limit from the start, which also applies to the file of the shared memory.
    let words = ["tag", "run", "--sink", "log", "--overwrite", "-o", log, "--"];
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -f 64; exec "$@""#, "sh", env!("CARGO_BIN_EXE_hmtt")]);
    let output = command.args(words).arg(&program).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("File too large"), "{errors}");
    // A limit that the log reaches.
    let mut busy = Busy::start(&program);
    let pid = busy.child.id().to_string();
    let words = ["attach", "--sink", "log", "--overwrite", "-o", log, &pid];
    let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    while std::fs::metadata(log).map_or(0, |file| file.len()) < 4096 {
        assert!(tag.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
    let (number, none) = (tag.id() as i32, std::ptr::null_mut());
    // SAFETY: the limit outlives the call, and the process is our child.
    assert_eq!(unsafe { libc::prlimit(number, libc::RLIMIT_FSIZE, &raw const limit, none) }, 0);
    for _ in 0..100 {
        busy.answers();
    }
    let detach = hmtt_tag(&["detach", &pid]).output().unwrap();
    assert!(detach.status.success(), "{detach:?}");
    let output = tag.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("File too large"), "{errors}");
    busy.lives();
    assert!(is_plain(busy.child.id(), &program));
    busy.end();
}

/// Returns a command that runs `words` with a full file system of some KiB mounted at a directory,
/// in a mount namespace; `None` if that is not possible.
fn with_small_disk(folder: &Path, kib: u32, words: &[&str]) -> Option<Command> {
    let mount = |words: &[&str]| {
        let script = r#"mount -t tmpfs -o size="$1"k none "$2" && shift 2 && exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", &kib.to_string(), folder.to_str().unwrap()]);
        command.args(words);
        command
    };
    let works = mount(&["true"]).output().is_ok_and(|output| output.status.success());
    if !works {
        skipped("no file system can be mounted here");
    }
    works.then(|| mount(words))
}

#[test]
fn a_full_disk_is_an_error_and_the_program_continues() {
    let Some(program) = build("tag-full", THREADS, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let hmtt = env!("CARGO_BIN_EXE_hmtt");
    let plain = Command::new(&program).output().unwrap();
    for more in [&[][..], &["-f"]] {
        let words = ["tag", "run", "--sink", "log", "-o", log.to_str().unwrap()];
        let words = [&[hmtt], &words[..], more, &["--", program.to_str().unwrap()]].concat();
        let Some(mut command) = with_small_disk(folder.path(), 128, &words) else { return };
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("No space left"), "{errors}");
        assert_eq!(output.stdout, plain.stdout, "{errors}");
    }
}

#[test]
fn a_full_disk_leaves_no_attached_process_stopped() {
    let Some(program) = build("tag-full-attached", BUSY, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let hmtt = env!("CARGO_BIN_EXE_hmtt");
    let mut busy = Busy::start(&program);
    let pid = busy.child.id().to_string();
    // The sizes range from one without space for a header to one without space for the map after
    // the log.
    for kib in [4, 8, 64, 256] {
        let words = [hmtt, "tag", "attach", "--sink", "log", "-o", log.to_str().unwrap(), &pid];
        let Some(mut command) = with_small_disk(folder.path(), kib, &words) else { break };
        let tag = command.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let _ = hmtt_tag(&["detach", &pid]).output().unwrap();
        let output = tag.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{kib} KiB: {errors}");
        busy.lives();
        assert!(is_plain(busy.child.id(), &program), "{kib} KiB: {errors}");
    }
    busy.end();
}

#[test]
fn a_killed_controller_leaves_no_thread_stopped() {
    let Some(program) = build("tag-killed-threads", BUSY, &[]) else { return };
    let mut busy = Busy::start(&program);
    let pid = busy.child.id().to_string();
    for round in 0..40u64 {
        let counts = scratch("tag-killed-threads.json");
        let words = ["attach", "-o", counts.to_str().unwrap(), &pid];
        let mut tag = hmtt_tag(&words).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(round * 700));
        tag.kill().unwrap();
        tag.wait().unwrap();
        busy.lives();
    }
    let detach = hmtt_tag(&["detach", &pid]).output().unwrap();
    let errors = String::from_utf8_lossy(&detach.stderr);
    assert!(detach.status.success() || errors.contains("has no tags"), "{errors}");
    assert!(is_plain(busy.child.id(), &program));
    busy.end();
}

#[test]
fn a_started_program_that_cannot_be_tagged_is_ended() {
    let Some(program) = build("tag-not-left", BUSY, &[]) else { return };
    // The program is started before it is known that it has no such function.
    let mut command = hmtt_tag(&["run", "-i", "absent", "--"]);
    let marker = format!("marker-{}", std::process::id());
    let output = command.arg(&program).arg(&marker).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let is_ours = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    assert!(!std::fs::read_dir("/proc").unwrap().flatten().any(is_ours));
}
