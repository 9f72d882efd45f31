//! Tests `hmtt tag` on programs whose segments of instructions contain more than instructions, or
//! instructions that no compiler makes.

mod computed;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use crate::scratch;
use crate::tag::{build, calls, hmtt_tag};

/// Runs a program with its functions tagged, and checks that it behaves as without tags. Returns
/// the counts, and what was printed on standard error.
fn run_tagged(name: &str, program: &Path, words: &[&str]) -> (BTreeMap<String, u64>, String) {
    let counts = scratch(&format!("{name}.json"));
    let program = program.to_str().unwrap();
    let plain = Command::new(program).output().unwrap();
    let mut tagged = hmtt_tag(&["run", "--overwrite", "-o", counts.to_str().unwrap()]);
    let tagged = tagged.args(words).args(["--", program]).output().unwrap();
    let errors = String::from_utf8_lossy(&tagged.stderr).into_owned();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    assert_eq!(seen(&tagged), seen(&plain), "{name}: {errors}");
    (calls(&counts), errors)
}

/// `main` has bytes that are no instruction.
const UNDECODABLE_MAIN: &str = r#"
#include <stdio.h>
__attribute__((noipa)) int step(int n) { return n + 1; }
__attribute__((constructor)) static void early(void) { if (step(1) != 2) puts("?"); }
int main(int c, char **v) {
    if (c > 9) __asm__ volatile("lock; nop");
    for (int i = 0; i < 10; i++) c = step(c);
    puts("end");
    return c == 11 ? 4 : 1;
}
"#;

#[test]
fn a_main_that_cannot_be_changed_does_not_prevent_other_tags() {
    for flags in [&["-O1"][..], &["-O1", "-static"], &["-O1", "-no-pie"]] {
        let name = format!("tag-code-main{}", flags.concat());
        let Some(program) = build(&name, UNDECODABLE_MAIN, flags) else { return };
        let (counts, errors) = run_tagged(&name, &program, &[]);
        assert!(
            errors.contains("main is not tagged") && errors.contains("no instruction at"),
            "{errors}"
        );
        // The call before `main` is counted, too: the tags are put in at the entry point.
        assert_eq!(counts.get("step"), Some(&11), "{counts:?}");
        assert!(!counts.contains_key("main"), "{counts:?}");
        let (counts, _) = run_tagged(&name, &program, &["--initializers"]);
        assert_eq!(counts.get("step"), Some(&11), "{counts:?}");
    }
}

/// Constants in the segment of the instructions that look like `mov gs, [rsi + 0x12000d]` between
/// many `nop`.
const CONSTANTS: &str = r#"
#include <stdio.h>
const unsigned char table[256] = {
    [0 ... 127] = 0x90, 0x8e, 0xae, 0x0d, 0x00, 0x12, 0x00, [134 ... 255] = 0x90
};
__attribute__((noipa)) int f(int i) { return table[i & 63]; }
int main(int c, char **v) { printf("%d\n", f(c)); return 0; }
"#;

/// An object between functions that looks like `mov gs, [rdx]`.
const OBJECT: &str = r#"
#include <stdio.h>
__asm__(".text\n.globl table\n.type table,@object\ntable: .byte 0x44,0x8e,0x2a,0,0x44,0x8e,0x2a,0\n.size table,.-table\n");
extern const unsigned char table[];
__attribute__((noipa)) int f(int i) { return table[i & 7]; }
int main(void) { int s = 0; for (int i = 0; i < 100; i++) s += f(i); printf("%d\n", s); return 0; }
"#;

/// An instruction that loads `gs`, and is never executed.
const LOADS: &str = r#"
#include <stdio.h>
__attribute__((noipa)) int f(int i) { if (i > 1000) __asm__ volatile("mov %0, %%gs" :: "r"(i)); return i; }
int main(int c, char **v) { printf("%d\n", f(c)); return 0; }
"#;

#[test]
fn data_in_a_segment_of_instructions_do_not_set_gs() {
    let joined = "-Wl,-z,noseparate-code";
    let cases = [
        ("constants", CONSTANTS, &["-O1", joined][..], 1),
        ("object", OBJECT, &["-O1"], 100),
        ("object-joined", OBJECT, &["-O1", joined, "-no-pie"], 100),
    ];
    for (name, source, flags, expected) in cases {
        let name = format!("tag-code-{name}");
        let Some(program) = build(&name, source, flags) else { return };
        let (counts, _) = run_tagged(&name, &program, &[]);
        assert_eq!(counts.get("f"), Some(&expected), "{name}: {counts:?}");
    }
    for flags in [&["-O1"][..], &["-O1", joined]] {
        let name = format!("tag-code-loads{}", flags.len());
        let Some(program) = build(&name, LOADS, flags) else { return };
        let output = hmtt_tag(&["run", "--", program.to_str().unwrap()]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("sets the register gs"), "{errors}");
    }
}

/// A library whose symbols have values that look like loads of `gs`, and sizes that look like
/// `nop`.
fn symbols() -> String {
    let symbols = (0..64u64).map(|number| {
        // `mov gs, [rbp + 8]` and `ret`, for one of sixteen numbers of the page.
        let distance = 0xc308_0d8e + (number << 12);
        format!(
            ".globl symbol_{number}\n.set symbol_{number}, page + {distance}\n\
             .size symbol_{number}, 0x9090909090909090\n"
        )
    });
    let symbols: String = symbols.collect();
    let text = format!(".text\n.balign 4096\npage: nop\n{symbols}");
    format!("__asm__({text:?});\nint library(int n) {{ return n + 2; }}\n")
}

const USES: &str = "
#include <stdio.h>
int library(int);
int main(void) { int s = 0; for (int i = 0; i < 10; i++) s += library(i); printf(\"%d\\n\", s); return 0; }
";

#[test]
fn tables_of_symbols_do_not_set_gs() {
    let flags = ["-shared", "-fPIC", "-Wl,-z,noseparate-code", "-Wl,--build-id=none"];
    let Some(library) = build("tag-code-symbols.so", &symbols(), &flags) else { return };
    let library = library.to_str().unwrap().to_owned();
    let Some(program) = build("tag-code-uses", USES, &[&library]) else { return };
    let select = ["-i", "library=tag-code-symbols*"];
    let (counts, _) = run_tagged("tag-code-uses", &program, &select);
    assert_eq!(counts.get("library"), Some(&10), "{counts:?}");
    // The same without section headers: their position, size and number in the file header.
    let mut bytes = std::fs::read(&library).unwrap();
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    let bare = scratch("tag-code-bare.so");
    std::fs::write(&bare, bytes).unwrap();
    let Some(program) = build("tag-code-uses-bare", USES, &[&library]) else { return };
    let plain = Command::new(&program).env("LD_PRELOAD", &bare).output().unwrap();
    let mut tagged = hmtt_tag(&["run", "--", program.to_str().unwrap()]);
    let tagged = tagged.env("LD_PRELOAD", &bare).output().unwrap();
    let errors = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(
        (plain.status.code(), &plain.stdout),
        (tagged.status.code(), &tagged.stdout),
        "{errors}"
    );
}
