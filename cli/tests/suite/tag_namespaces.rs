//! Tests `hmtt tag` on processes in another mount namespace, where paths name other files.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, skipped};

/// Prints that it has started, and calls its functions for each line of input. `FIRST` moves all
/// functions after it.
const PROGRAM: &str = r#"
#include <stdio.h>
#ifdef FIRST
__attribute__((noipa)) int first(int n) { for (int i = 0; i < n; i++) { __asm__ volatile("nop; nop; nop"); n ^= i; } return n * 7; }
__attribute__((noipa)) int only(int n) { return first(n) + 5; }
#else
__attribute__((noipa)) int only(int n) { return n; }
#endif
__attribute__((noipa)) int both(int n) { return only(n) * 3 + 1; }
int main(void) {
    char line[16];
    int n = 1;
    puts("began"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) { n = both(n) & 1023; printf("%d\n", n); fflush(stdout); }
    return 0;
}
"#;

/// The library of the program.
const LIBRARY: &str = r#"
#ifdef FIRST
__attribute__((noipa)) long moved(long n) { for (long i = 0; i < n; i++) n ^= i; return n * 7; }
#endif
__attribute__((noipa)) long part(long n) { return n * 5 + 1; }
"#;
const USES: &str = r#"
#include <stdio.h>
long part(long);
int main(void) {
    char line[16];
    long n = 1;
    puts("began"); fflush(stdout);
    while (fgets(line, sizeof line, stdin)) { n = part(n) & 1023; printf("%ld\n", n); fflush(stdout); }
    return 0;
}
"#;

fn is_root() -> bool {
    // SAFETY: geteuid only returns a number.
    unsafe { libc::geteuid() == 0 }
}

/// Returns a command that runs a program in a mount namespace with `inside` at the path of
/// `outside`.
fn in_namespace(outside: &Path, inside: &Path, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(if is_root() { &["-m"][..] } else { &["-U", "-r", "-m"] });
    let script = r#"mount --bind "$1" "$2" && exec "$3""#;
    command.args(["sh", "-c", script, "sh"]).args([inside, outside, program]);
    command
}

/// Whether such namespaces can be created here.
fn can_unshare(path: &Path) -> bool {
    let attempt = in_namespace(path, path, Path::new("/bin/true")).output();
    let is_possible = attempt.is_ok_and(|output| output.status.success());
    if !is_possible {
        skipped("no mount namespace can be made here");
    }
    is_possible
}

/// Number of lines sent to a program, and number of lines before the tags are removed.
const LINES: usize = 11;
const TAGGED: usize = 10;

/// A program that answers lines.
struct Answers {
    child: Child,
    output: BufReader<ChildStdout>,
    text: String,
}

impl Answers {
    fn start(mut command: Command) -> Answers {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut answers = Answers { child, output, text: String::new() };
        answers.output.read_line(&mut answers.text).unwrap();
        assert_eq!(answers.text, "began\n");
        answers
    }

    fn feed(&mut self, lines: usize) {
        for _ in 0..lines {
            // The program may have died. Its output then shows it.
            let _ = self.child.stdin.as_mut().unwrap().write_all(b"?\n");
            let _ = self.output.read_line(&mut self.text);
        }
    }

    /// Returns the complete output and the status.
    fn end(mut self) -> (String, Option<i32>) {
        drop(self.child.stdin.take());
        self.output.read_to_string(&mut self.text).unwrap();
        (self.text, self.child.wait().unwrap().code())
    }
}

/// Returns the output of a program without tags.
fn plain(command: Command) -> String {
    let mut answers = Answers::start(command);
    answers.feed(LINES);
    answers.end().0
}

/// Returns the command for `hmtt tag attach`, with or without the rights that `/proc/PID/map_files`
/// needs.
fn attach(counts: &Path, rules: &[&str], has_rights: bool) -> Command {
    let mut command = hmtt_tag(&[]);
    if !has_rights {
        command = Command::new("setpriv");
        command.arg("--bounding-set=-sys_admin,-checkpoint_restore");
        command.args([env!("CARGO_BIN_EXE_hmtt"), "tag"]);
    }
    command.arg("attach").args(rules).arg("-o").arg(counts);
    command
}

/// Sends lines to a tagged process, removes the tags, and sends more. Returns its output and
/// status, and what `hmtt` printed.
fn tag(mut answers: Answers, mut attach: Command) -> (String, Option<i32>, String) {
    let pid = answers.child.id().to_string();
    let mut tag = attach.arg(&pid).stderr(Stdio::piped()).spawn().unwrap();
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let is_tagged = || read("maps").contains("hmtt-tag") && !read("stat").contains(") t ");
    while !is_tagged() && tag.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    answers.feed(TAGGED);
    let detached = hmtt_tag(&["detach", &pid]).output().unwrap();
    answers.feed(LINES - TAGGED);
    let (text, status) = answers.end();
    let attached = tag.wait_with_output().unwrap();
    let errors = [attached.stderr, detached.stderr].concat();
    (text, status, String::from_utf8_lossy(&errors).into_owned())
}

fn two(name: &str, source: &str, flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let outside = build(name, source, flags)?;
    let inside = build(&format!("{name}-inside"), source, &[&["-DFIRST"], flags].concat())?;
    Some((outside, inside))
}

#[test]
fn the_running_program_is_tagged_and_not_the_file_at_its_path() {
    let Some((outside, inside)) = two("tag-namespace", PROGRAM, &[]) else { return };
    if !can_unshare(&outside) {
        return;
    }
    let command = || in_namespace(&outside, &inside, &outside);
    let expected = plain(command());
    for has_rights in [true, false] {
        let counts = scratch("tag-namespace.json");
        let answers = Answers::start(command());
        let (text, status, errors) = tag(answers, attach(&counts, &[], has_rights));
        assert_eq!((&text, status), (&expected, Some(0)), "{errors}");
        let calls = calls(&counts);
        assert_eq!((calls["both"], calls["only"], calls["first"]), (10, 10, 10), "{errors}");
    }
}

#[test]
fn libraries_are_read_in_the_namespace_of_the_process() {
    let flags = ["-shared", "-fPIC"];
    let Some((outside, inside)) = two("libtag-namespace.so", LIBRARY, &flags) else { return };
    let link = [outside.to_str().unwrap()];
    let Some(program) = build("tag-namespace-uses", USES, &link) else { return };
    if !can_unshare(&outside) {
        return;
    }
    let command = || in_namespace(&outside, &inside, &program);
    let expected = plain(command());
    for has_rights in [true, false] {
        let counts = scratch("tag-namespace-uses.json");
        let rules = ["-i", "library=libtag-namespace.so*"];
        let answers = Answers::start(command());
        let (text, status, errors) = tag(answers, attach(&counts, &rules, has_rights));
        assert_eq!((&text, status), (&expected, Some(0)), "{errors}");
        let calls = calls(&counts);
        assert_eq!((calls["part"], calls["moved"]), (10, 0), "{errors}");
    }
}

#[test]
fn children_in_another_namespace_are_followed() {
    let Some((outside, inside)) = two("tag-namespace-f", PROGRAM, &[]) else { return };
    if !can_unshare(&outside) {
        return;
    }
    let counts = scratch("tag-namespace-f.json");
    let command = in_namespace(&outside, &inside, &outside);
    let mut run = hmtt_tag(&["run", "-f", "-o", counts.to_str().unwrap(), "--"]);
    run.arg(command.get_program()).args(command.get_args());
    let expected = plain(command);
    assert_eq!(plain(run), expected);
    let calls = calls(&counts);
    assert_eq!((calls["both"], calls["only"], calls["first"]), (11, 11, 11));
}

#[test]
fn a_replaced_library_is_tagged_as_it_is_in_memory() {
    let flags = ["-shared", "-fPIC"];
    let name = "libtag-replaced.so";
    for has_rights in [true, false] {
        let Some((built, newer)) = two("tag-replaced.so", LIBRARY, &flags) else { return };
        let library = scratch(name);
        std::fs::copy(built, &library).unwrap();
        let link = [library.to_str().unwrap()];
        let Some(program) = build("tag-replaced", USES, &link) else { return };
        let expected = plain(Command::new(&program));
        let answers = Answers::start(Command::new(&program));
        // As a package manager does, another file replaces the first.
        let moved = scratch("tag-replaced-newer.so");
        std::fs::copy(newer, &moved).unwrap();
        std::fs::rename(moved, &library).unwrap();
        let counts = scratch("tag-replaced.json");
        let attach = attach(&counts, &["-i", "library=libtag-replaced.so"], has_rights);
        let (text, status, errors) = tag(answers, attach);
        assert_eq!((&text, status), (&expected, Some(0)), "{errors}");
        if has_rights && is_root() {
            assert_eq!(
                (calls(&counts)["part"], calls(&counts).get("moved")),
                (10, None),
                "{errors}"
            );
        } else {
            assert!(
                errors.contains(name) && errors.contains("was deleted or replaced"),
                "{errors}"
            );
        }
    }
}
