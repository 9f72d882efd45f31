//! Tests the errors of `hmtt tag`, which state what is wrong and what to do.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, wait_for, wait_until};

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((noipa)) int compress(int n) { return n + 1; }
__attribute__((noipa)) int decompress(int n) { return n - 1; }
int main(void) { puts("ran"); return compress(1) - decompress(3); }
"#;

/// Runs `hmtt tag` and returns its status, output and errors.
fn tag(words: &[&str]) -> (Option<i32>, String, String) {
    let output = hmtt_tag(words).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Checks that a command fails before it runs the program, with these parts in its error.
fn refused(words: &[&str], parts: &[&str]) {
    let (status, output, errors) = tag(words);
    assert_eq!((status, output.as_str()), (Some(1), ""), "{words:?}: {errors}");
    for part in parts {
        assert!(errors.contains(part), "{words:?}: {errors}");
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_rule_that_matches_nothing_is_an_error_with_similar_names() {
    let Some(program) = build("tag-words-rules", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    for option in ["-i", "--blocks", "--loops"] {
        let parts = ["rule `compres_x`", "compress", "hmtt tag list"];
        refused(&["run", option, "compres_x", "--", program], &parts);
    }
    refused(
        &["list", "-i", "main", "-i", "Decompres", program],
        &["rule `Decompres`", "decompress"],
    );
    refused(&["run", "-i", "*nothing*", "--", program], &["rule `*nothing*` matches no function"]);

    let (status, output, errors) = tag(&["run", "-x", "absent", "--", program]);
    assert_eq!((status, output.as_str()), (Some(0), "ran\n"), "{errors}");
    assert!(errors.contains("warning: rule `absent` matches no function"), "{errors}");
    let (_, _, errors) = tag(&["run", "-i", "library=libabsent*", "--", program]);
    assert!(errors.contains("rule `library=libabsent*` has matched no function"), "{errors}");
    let (_, output, errors) = tag(&["run", "-f", "-i", "compres", "--", program]);
    assert_eq!(output, "ran\n");
    assert!(errors.contains("rule `compres` has matched no function"), "{errors}");
}

#[test]
fn files_are_overwritten_only_with_the_option() {
    let Some(program) = build("tag-words-files", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-files.d");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (counts, log) = (at("counts.json"), at("log"));
    for (sink, file, existing_file) in
        [("count", &counts, &counts), ("log", &log, &log), ("log", &log, &at("log.json"))]
    {
        std::fs::write(existing_file, "mine").unwrap();
        let words = ["run", "--sink", sink, "-o", file, "--", program];
        refused(&words, &[existing_file, "it exists; give --overwrite to replace it"]);
        assert_eq!(std::fs::read_to_string(existing_file).unwrap(), "mine");
        let words = ["run", "--sink", sink, "--overwrite", "-o", file, "--", program];
        let (status, output, errors) = tag(&words);
        assert_eq!((status, output.as_str()), (Some(0), "ran\n"), "{errors}");
        assert_ne!(std::fs::read(existing_file).unwrap(), b"mine");
        std::fs::remove_file(existing_file).unwrap();
        let _ = std::fs::remove_file(at("log"));
    }
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.ends_with("log.json")), "{left:?}");
}

#[test]
fn output_is_private_and_no_link_is_followed() {
    let Some(program) = build("tag-words-links", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-links.d");
    let target = folder.join("target");
    std::fs::write(&target, "mine").unwrap();
    symlink(&target, folder.join("link")).unwrap();
    symlink(folder.join("absent"), folder.join("dangling")).unwrap();
    for (link, overwrite) in
        [("link", true), ("link", false), ("dangling", true), ("dangling", false)]
    {
        let file = folder.join(link);
        let option: &[&str] = if overwrite { &["--overwrite"] } else { &[] };
        let words = [&["run", "-o", file.to_str().unwrap()], option, &["--", program]].concat();
        refused(&words, &[link]);
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    assert!(!folder.join("absent").exists());

    let log = folder.join("log");
    let words = ["run", "--sink", "log", "-o", log.to_str().unwrap(), "--", program];
    assert_eq!(tag(&words).0, Some(0));
    for file in [&log, &folder.join("log.json")] {
        let mode = std::fs::metadata(file).unwrap().mode() & 0o7777;
        assert_eq!(mode & !0o600, 0, "{mode:o}");
    }
}

#[test]
fn no_link_to_a_device_or_pipe_is_followed() {
    let Some(program) = build("tag-words-devices", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-devices.d");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (null, pipe, linked) = (at("null"), at("pipe"), at("linked"));
    symlink("/dev/null", &null).unwrap();
    mkfifo(Path::new(&pipe), Mode::S_IRWXU).unwrap();
    symlink(&pipe, &linked).unwrap();
    for link in [&null, &linked] {
        refused(&["run", "-o", link, "--", program], &[link, "it is a symbolic link"]);
    }
    // Opening a pipe for writing would wait for a reader, and so would this test.
    refused(&["run", "-o", &pipe, "--", program], &[&pipe, "without a reader"]);
    let mut reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    let mut written = String::new();
    wait_until("the pipe has a reader", || {
        let (status, output, errors) = tag(&["run", "-o", &pipe, "--", program]);
        assert!(status == Some(0) || errors.contains("without a reader"), "{errors}");
        written = output;
        status == Some(0)
    });
    assert_eq!(written, "ran\n");
    let mut read = String::new();
    reader.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    reader.wait().unwrap();
    assert!(read.contains("\"compress\""), "{read}");
    let (status, output, errors) = tag(&["run", "-o", "/dev/stdout", "--", program]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(output.starts_with("ran\n{") && output.contains("\"compress\""), "{output}");
    refused(&["run", "-o", "/dev/fd/77", "--", program], &["/dev/fd/77", "it is not open"]);
}

#[test]
fn overwriting_a_file_does_not_change_its_other_links() {
    let Some(program) = build("tag-words-hard", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-hard.d");
    let (counts, other) = (folder.join("counts"), folder.join("other"));
    std::fs::write(&counts, "mine").unwrap();
    std::fs::set_permissions(&counts, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::hard_link(&counts, &other).unwrap();
    let words = ["run", "--overwrite", "-o", counts.to_str().unwrap(), "--", program];
    let (status, _, errors) = tag(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    assert_eq!(std::fs::metadata(&counts).unwrap().mode() & 0o7777 & !0o600, 0);
    assert_eq!(calls(&counts)["compress"], 1);
}

#[test]
fn no_other_file_is_written_while_names_are_exchanged() {
    let Some(program) = build("tag-words-exchanged", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-exchanged.d");
    let (victim, output, link) = (folder.join("victim"), folder.join("p"), folder.join("link"));
    std::fs::write(&victim, "kept").unwrap();
    symlink("/dev/null", &output).unwrap();
    symlink(&victim, &link).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &output, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..50 {
            // The command fails, whatever it finds there.
            let (status, printed, _) = tag(&["run", "-o", output.to_str().unwrap(), "--", program]);
            is_over.fetch_or((status, printed.as_str()) != (Some(1), ""), Ordering::Relaxed);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        let was_led = is_over.swap(true, Ordering::Relaxed);
        assert!(!was_led, "it was written through a link");
    });
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
}

#[test]
fn output_that_cannot_be_created_is_an_error_before_the_program_runs() {
    let Some(program) = build("tag-words-output", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    let folder = folder("tag-words-output.d");
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let absent = name(&folder.join("no/such/file"));
    refused(&["run", "-o", &absent, "--", program], &[&absent, "does not exist"]);
    let folder = name(&folder);
    refused(&["run", "-o", &folder, "--", program], &[&folder, "it is a directory"]);
    // A file that was created for a program that cannot be run is removed.
    let counts = format!("{folder}/counts.json");
    refused(&["run", "-o", &counts, "--", "/nonexistent/program"], &["/nonexistent/program"]);
    refused(&["run", "-i", "absent", "-o", &counts, "--", program], &["absent"]);
    assert!(!Path::new(&counts).exists());
    let (status, output, errors) = tag(&["run", "-o", "/dev/null", "--", program]);
    assert_eq!((status, output.as_str()), (Some(0), "ran\n"), "{errors}");
    assert!(Path::new("/dev/null").exists());
}

#[test]
fn errors_name_processes_that_cannot_be_tagged() {
    refused(
        &["attach", "2147483647"],
        &["process 2147483647", "there is no process with this number"],
    );
    let mut zombie = Command::new("true").spawn().unwrap();
    let pid = zombie.id().to_string();
    wait_until("it is a zombie", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ")
    });
    refused(&["attach", &pid], &["it has ended (a zombie"]);
    zombie.wait().unwrap();
    let us = std::process::id();
    // A thread of this test, which, unlike others, does not end meanwhile.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (to_test, from_thread) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        to_test.send(nix::unistd::gettid().to_string()).unwrap();
        let _ = ended.recv();
    });
    let number = from_thread.recv().unwrap();
    refused(&["attach", &number], &["it is a thread of process", &us.to_string()]);
    drop(end);
    thread.join().unwrap();
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        refused(&["attach", "2"], &["it is a kernel thread"]);
    } else {
        crate::skipped("no threads of the kernel are seen here");
    }
}

#[test]
fn the_error_names_another_tracer() {
    let mut traced = match Command::new("strace").args(["-o", "/dev/null", "sleep", "1000"]).spawn()
    {
        Ok(traced) => traced,
        Err(error) => return crate::skipped(format!("strace: {error}")),
    };
    let strace = traced.id();
    let mut child = String::new();
    wait_for(&mut traced, "strace has started sleep", || {
        let path = format!("/proc/{strace}/task/{strace}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        child = children.split_whitespace().next().unwrap_or_default().to_owned();
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    refused(&["attach", &child], &[&format!("process {strace} (strace) traces it already")]);
    // SAFETY: ends the child of our child, which no other process waits for.
    unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
    traced.wait().unwrap();
}

#[test]
fn errors_about_missing_rights_say_how_to_get_them() {
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return crate::skipped("needs root, to be somebody else");
    }
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    let program = scratch("tag-words-hmtt");
    // The program must be in a directory that this user can read.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join(program.file_name().unwrap());
    std::fs::copy(env!("CARGO_BIN_EXE_hmtt"), &program).unwrap();
    let pid = other.id().to_string();
    let output = command.arg(program).args(["tag", "attach", &pid]).output().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for part in ["it may not be traced", "another user's (uid 0)", "CAP_SYS_PTRACE"] {
        assert!(errors.contains(part), "{errors}");
    }
}

#[test]
fn errors_state_the_kind_of_a_file_that_is_no_program() {
    let folder = folder("tag-words-programs.d");
    let file = |name: &str, text: &[u8], mode: u32| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", b"text", 0o644);
    refused(&["run", "--", &plain], &["cannot run", &plain, "chmod +x"]);
    let script = file("script", b"#!/absent/interpreter -x\n", 0o755);
    refused(&["run", "--", &script], &["its interpreter /absent/interpreter is missing"]);
    refused(&["list", &script], &["it is a script for /absent/interpreter"]);
    refused(&["run", "--", folder.to_str().unwrap()], &["it is a directory"]);
    let mut bytes = std::fs::read("/proc/self/exe").unwrap();
    bytes.truncate(4096);
    bytes[4] = 1;
    let narrow = file("narrow", &bytes, 0o755);
    refused(&["list", &narrow], &["it is a 32-bit program"]);
}

#[test]
fn counts_are_reported_as_a_table() {
    let Some(program) = build("tag-words-report", PROGRAM, &[]) else { return };
    let program = program.to_str().unwrap();
    for follow in [&[][..], &["-f"]] {
        let file = scratch("tag-words-report.json");
        let counts = file.to_str().unwrap();
        let words = [&["run", "-o", counts], follow, &["--", program]].concat();
        assert_eq!(tag(&words).0, Some(0));
        let (status, output, errors) = tag(&["report", counts]);
        assert_eq!(status, Some(0), "{errors}");
        let name = if follow.is_empty() { "compress" } else { "tag-words-report: compress" };
        assert!(output.lines().any(|line| line.trim() == format!("1 {name}")), "{output}");
        let lines = calls(&file).values().filter(|calls| **calls != 0).count();
        assert_eq!(output.lines().count(), lines, "{output}");
        refused(&["report", "--graph", counts], &["--sink log"]);
    }
    let log = scratch("tag-words-report.tags");
    let map = scratch("tag-words-report.tags.json");
    let words = ["run", "--sink", "log", "-o", log.to_str().unwrap(), "--", program];
    assert_eq!(tag(&words).0, Some(0));
    refused(&["report", map.to_str().unwrap()], &["give the log itself"]);
    let other = scratch("tag-words-other.json");
    std::fs::write(&other, "{\"a\": [1]}").unwrap();
    refused(&["report", other.to_str().unwrap()], &["neither a tag log nor a file of counts"]);
}

#[test]
fn errors_name_libraries_that_cannot_be_read() {
    // Executable memory of a file that is no library, as some programs map their own formats.
    const MAPS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int count, char **words) {
    int file = open(words[1], O_RDONLY);
    void *at = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    puts(at == MAP_FAILED ? "failed" : "mapped"); fflush(stdout);
    getchar();
    return count != 2;
}
"#;
    let Some(program) = build("tag-words-maps", MAPS, &[]) else { return };
    let file = scratch("libtag-words-odd.so");
    std::fs::write(&file, [b'x'; 4096]).unwrap();
    let mut child = Command::new(program);
    let child = child.arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut line = [0; 7];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"mapped\n");
    let pid = child.id().to_string();
    let rules = ["-i", "library=libtag-words-odd*"];
    let (_, _, errors) = tag(&[&["list"], &rules[..], &[&pid]].concat());
    assert!(errors.contains("libtag-words-odd.so is not listed"), "{errors}");
    let mut attach = hmtt_tag(&[&["attach"], &rules[..], &[&pid]].concat());
    let mut attach = attach.stderr(Stdio::piped()).spawn().unwrap();
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    // The program sleeps in its read again when all its libraries have been examined.
    while !read("maps").contains("hmtt-tag") || !read("stat").contains(") S ") {
        assert!(attach.try_wait().unwrap().is_none(), "{:?}", attach.wait_with_output());
        std::thread::yield_now();
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let errors = attach.wait_with_output().unwrap().stderr;
    let errors = String::from_utf8_lossy(&errors);
    let has = |text: &str| errors.contains(text);
    assert!(has("no function of") && has("libtag-words-odd.so"), "{errors}");
}
