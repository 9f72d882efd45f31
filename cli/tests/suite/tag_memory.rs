//! Tests `hmtt tag` on programs whose instructions in memory differ from those of their files.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hmtt_probe::control::controller;
use nix::unistd::Pid;
use serde_json::Value;

use crate::tag::{build, calls, hmtt_tag};
use crate::{scratch, skipped};

/// Patches `early` before `main`, so that it returns 2 instead of 1, and `late` on request. Answers
/// each line of input with the results of both.
const PATCHES: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define FUNCTION __attribute__((noipa, aligned(64)))
FUNCTION int early(void) { return 1; }
FUNCTION int late(void) { return 1; }
FUNCTION int plain(int n) { return n + 1; }
FUNCTION void patch(int (*function)(void)) {
    static const unsigned char two[] = { 0xb8, 2, 0, 0, 0, 0xc3 };
    void *page = (void *)((unsigned long)function & ~4095ul);
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy((void *)function, two, sizeof two);
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
}
/* A call that names the function leads to its stub until the tags are out. */
static int (*volatile pointer)(void) = late;
__attribute__((constructor)) static void begin(void) { patch(early); }
int main(void) {
    char line[16];
    int n = 0;
    printf("%d %d\n", early(), pointer());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'p') patch(late);
        n = plain(n);
        printf("%d %d\n", early(), pointer());
        fflush(stdout);
    }
    return n;
}
"#;

/// A program that answers lines.
struct Answers {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Answers {
    fn start(command: &mut Command) -> Answers {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Answers { child, input, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{question}").unwrap();
        self.line()
    }

    /// Ends the program and returns its status and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

/// Attaches to a process, and waits until its functions are tagged.
fn attach(pid: &str, counts: &Path) -> Child {
    let words = ["attach", "-o", counts.to_str().unwrap(), pid];
    let mut tag = hmtt_tag(&words).stderr(Stdio::piped()).spawn().unwrap();
    let is_tagged = || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let is_traced = controller(Pid::from_raw(pid.parse().unwrap())).unwrap().is_some();
        is_traced && maps.contains("hmtt-tag") && !status.contains(") t ")
    };
    while !is_tagged() {
        assert!(tag.try_wait().unwrap().is_none(), "{:?}", tag.wait_with_output());
        std::thread::yield_now();
    }
    tag
}

/// Makes `hmtt tag` detach and returns what it printed.
fn detach(pid: &str, tag: Child) -> String {
    let detach = hmtt_tag(&["detach", pid]).output().unwrap();
    assert!(detach.status.success(), "{detach:?}");
    assert_eq!(controller(Pid::from_raw(pid.parse().unwrap())).unwrap(), None);
    let output = tag.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn patched_functions_are_refused_and_not_changed() {
    let Some(program) = build("tag-patches", PATCHES, &[]) else { return };
    let counts = scratch("tag-patches.json");
    let mut answers = Answers::start(&mut Command::new(&program));
    assert_eq!(answers.line(), "2 1\n");
    let tag = attach(&answers.pid(), &counts);
    assert_eq!(answers.ask("?"), "2 1\n");
    let text = detach(&answers.pid(), tag);
    assert!(text.contains("early is not tagged: it differs from its file in memory at"), "{text}");
    let calls = calls(&counts);
    assert_eq!((calls.get("early"), calls["late"], calls["plain"]), (None, 1, 1));

    let listed = hmtt_tag(&["list", "--json", &answers.pid()]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let refused = |name: &str| {
        let functions = listed["objects"][0]["functions"].as_array().unwrap();
        functions.iter().find(|function| function["name"] == name).unwrap()["refused"].clone()
    };
    assert!(refused("early").as_str().unwrap().contains("differs from its file in memory"));
    assert_eq!((refused("late"), refused("plain")), (Value::Null, Value::Null));

    assert_eq!(answers.ask("?"), "2 1\n");
    assert_eq!(answers.end().0, Some(2));
}

#[test]
fn patches_before_main_are_kept() {
    let Some(program) = build("tag-patches-run", PATCHES, &[]) else { return };
    let counts = scratch("tag-patches-run.json");
    let words = ["run", "-o", counts.to_str().unwrap(), "--"];
    let mut answers = Answers::start(hmtt_tag(&words).arg(&program));
    assert_eq!(answers.line(), "2 1\n");
    assert_eq!(answers.ask("?"), "2 1\n");
    let (status, text) = answers.end();
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("early is not tagged"), "{text}");
    let calls = calls(&counts);
    assert_eq!((calls.get("early"), calls["late"]), (None, 2));
}

#[test]
fn patches_while_tagged_are_kept_after_detaching() {
    let Some(program) = build("tag-patches-late", PATCHES, &[]) else { return };
    let counts = scratch("tag-patches-late.json");
    let mut answers = Answers::start(&mut Command::new(&program));
    assert_eq!(answers.line(), "2 1\n");
    let tag = attach(&answers.pid(), &counts);
    assert_eq!(answers.ask("?"), "2 1\n");
    assert_eq!(answers.ask("p"), "2 2\n");
    let text = detach(&answers.pid(), tag);
    assert!(text.contains("the program has changed late at"), "{text}");
    assert_eq!(answers.ask("?"), "2 2\n");
    let calls = calls(&counts);
    assert_eq!((calls["plain"], calls["late"]), (2, 1));
    // What stayed in memory does not prevent another attach.
    let tag = attach(&answers.pid(), &scratch("tag-patches-late.json"));
    assert_eq!(answers.ask("?"), "2 2\n");
    let text = detach(&answers.pid(), tag);
    assert!(text.contains("late is not tagged"), "{text}");
    assert_eq!(answers.ask("?"), "2 2\n");
    assert_eq!(answers.end().0, Some(5));
}

/// A name with a line end and a control sequence.
const FORGED: &str = "late\u{1b}]0;owned\u{7}\nhmtt: forged";

#[test]
fn names_of_changed_functions_forge_no_line() {
    let Some(program) = build("tag-patches-named", PATCHES, &[]) else { return };
    let named = scratch("tag-patches-forged");
    let mut objcopy = Command::new("objcopy");
    objcopy.arg(format!("--redefine-sym=late={FORGED}")).args([&program, &named]);
    match objcopy.output() {
        Err(error) => return skipped(format!("objcopy: {error}")),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    let mut answers = Answers::start(&mut Command::new(&named));
    assert_eq!(answers.line(), "2 1\n");
    let tag = attach(&answers.pid(), &scratch("tag-patches-forged.json"));
    assert_eq!(answers.ask("p"), "2 2\n");
    let text = detach(&answers.pid(), tag);
    let shown = "the program has changed late\\u{1b}]0;owned\\u{7}\\nhmtt: forged at";
    assert!(text.contains(shown), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("\nhmtt: forged"), "{text}");
    assert_eq!(answers.end().0, Some(1));
}

/// `relocated` has an address in its code that only the dynamic linker knows.
const RELOCATED: &str = r#"
#include <stdio.h>
int datum = 42;
int relocated(void);
__asm__(".text\n.globl relocated\n.type relocated, @function\nrelocated: movabs $datum, %rax\n"
        "mov (%rax), %eax\nret\n.size relocated, . - relocated\n");
__attribute__((noipa)) int plain(int n) { return n + relocated(); }
int main(void) {
    printf("%d\n", plain(1));
    return 0;
}
"#;

#[test]
fn functions_with_relocated_instructions_are_refused() {
    let Some(program) = build("tag-relocated", RELOCATED, &["-Wl,-z,notext"]) else { return };
    let counts = scratch("tag-relocated.json");
    for start in [&[][..], &["--initializers"]] {
        let words = [&["run", "-o", counts.to_str().unwrap()], start, &["--"]].concat();
        let output = hmtt_tag(&words).arg(&program).output().unwrap();
        assert_eq!(output.stdout, b"43\n", "{output:?}");
        assert_eq!((calls(&counts)["plain"], calls(&counts).get("relocated")), (1, None));
        scratch("tag-relocated.json");
    }
    let listed = hmtt_tag(&["list", "-i", "relocated"]).arg(&program).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("text relocation"), "{listed}");
}

/// Prints the first instructions of `looked_at`.
const READS_ITSELF: &str = r#"
#include <stdio.h>
__attribute__((noipa, aligned(64))) int looked_at(int n) { return n * 3 + 1; }
__attribute__((noipa)) int plain(int n) { return n + looked_at(n); }
int main(void) {
    const unsigned char *volatile bytes = (const unsigned char *)looked_at;
    for (int i = 0; i < 5; i++) printf("%02x", bytes[i]);
    printf(" %d\n", plain(2));
    return 0;
}
"#;

#[test]
fn excluded_functions_have_their_original_code() {
    let Some(program) = build("tag-reads-itself", READS_ITSELF, &[]) else { return };
    let alone = Command::new(&program).output().unwrap().stdout;
    let tagged = |rules: &[&str]| {
        let words = [&["run", "--sink", "none"], rules, &["--"]].concat();
        let output = hmtt_tag(&words).arg(&program).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    assert_eq!(tagged(&["-x", "looked_at"]), alone);
    // The jump that docs/tag.md describes.
    assert!(tagged(&[]).starts_with(b"e9"));
}
