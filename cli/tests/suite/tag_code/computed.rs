//! Code that is entered at computed places: control must not arrive within the jump of a tag.

use std::path::Path;

use serde_json::Value;

use super::run_tagged;
use crate::tag::{build, hmtt_tag};

/// An unrolled loop that is entered at a computed place, as Go's `duffzero` and old copying
/// routines are. `ENTER` computes the place in `rcx` from the number of instructions in `rdx` that
/// are skipped, and calls it.
const UNROLLED: &str = r#"
#include <stdio.h>
#include <string.h>
void zero8(long *p, int n);
static long a[16];
__asm__(".intel_syntax noprefix\n.text\n.p2align 4\n.globl unrolled\n.type unrolled,@function\nunrolled:\n"
" mov [rdi+56],rax\n mov [rdi+48],rax\n mov [rdi+40],rax\n mov [rdi+32],rax\n mov [rdi+24],rax\n mov [rdi+16],rax\n"
" mov [rdi+8],rax\n .byte 0x48,0x89,0x47,0x00\n"
"unrolled_end: ret\n.size unrolled,.-unrolled\n"
".globl zero8\n.type zero8,@function\nzero8: xor eax,eax\n mov edx,8\n sub edx,esi\n" ENTER " ret\n"
".size zero8,.-zero8\n.globl enter\n.type enter,@function\nenter: lea rcx,[rcx+rdx*4]\n call rcx\n ret\n"
".size enter,.-enter\n.data\n.balign 8\npointer: .quad unrolled\n.text\n.att_syntax");
int main(void) {
    long s = 0;
    for (int i = 0; i < 1000; i++) {
        memset(a, 1, sizeof a);
        zero8(a, i % 9);
        for (int k = 0; k < 16; k++) s += a[k] == 0;
    }
    printf("%ld\n", s);
    return 0;
}
"#;

/// Whether and why a function cannot be tagged, from `hmtt tag list`.
fn refusal(program: &Path, function: &str) -> Option<String> {
    let output = hmtt_tag(&["list", "--json"]).arg(program).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = list["objects"][0]["functions"].as_array().unwrap();
    let row = functions.iter().find(|row| row["name"] == function).unwrap();
    row["refused"].as_str().map(str::to_owned)
}

#[test]
fn an_unrolled_loop_is_entered_where_the_program_computes() {
    let ways = [
        ("lea", " lea rcx,[rip+unrolled]\\n lea rcx,[rcx+rdx*4]\\n call rcx\\n"),
        (
            "end",
            " lea rcx,[rip+unrolled_end]\\n movsxd rsi,esi\\n shl rsi,2\\n sub rcx,rsi\\n call rcx\\n",
        ),
        (
            "stack",
            " lea rcx,[rip+unrolled]\\n push rcx\\n shl edx,2\\n add [rsp],rdx\\n pop rcx\\n call rcx\\n",
        ),
        ("data", " mov rcx,[rip+pointer]\\n shl edx,2\\n add rcx,rdx\\n call rcx\\n"),
    ];
    let fixed = [
        ("imm", " shl edx,2\\n mov ecx,offset unrolled\\n add rcx,rdx\\n call rcx\\n"),
        ("sum", " shl edx,2\\n add rdx,offset unrolled\\n call rdx\\n"),
        ("displacement", " lea rcx,[rdx*4+unrolled]\\n call rcx\\n"),
    ];
    let variants =
        ways.map(|way| (way, "-pie")).into_iter().chain(fixed.map(|way| (way, "-no-pie")));
    for ((name, enter), kind) in variants {
        let name = format!("tag-code-unrolled-{name}");
        let source = format!("#define ENTER \"{enter}\"\n{UNROLLED}");
        let Some(program) = build(&name, &source, &["-O1", kind]) else { return };
        for words in [&[][..], &["--blocks", "*"]] {
            let (counts, errors) = run_tagged(&name, &program, words);
            assert_eq!(counts.get("zero8"), Some(&1000), "{name}: {errors}");
        }
    }
}

#[test]
fn a_function_is_refused_only_if_an_address_within_it_is_computed() {
    let short = UNROLLED
        .replace("unrolled:\\n", "unrolled: nop\\n")
        .replace("[rcx+rdx*4]", "[rcx+rdx*4+1]");
    let enter = " lea rcx,[rip+unrolled]\\n lea rcx,[rcx+rdx*4+1]\\n call rcx\\n";
    let source = format!("#define ENTER \"{enter}\"\n{short}");
    let Some(program) = build("tag-code-unrolled-short", &source, &["-O1"]) else { return };
    let reason = refusal(&program, "unrolled").unwrap_or_default();
    assert!(reason.contains("control may arrive within it"), "{reason}");
    for other in ["zero8", "main", "enter"] {
        assert_eq!(refusal(&program, other), None, "{other}");
    }
    let (counts, _) = run_tagged("tag-code-unrolled-short", &program, &[]);
    assert_eq!((counts.get("unrolled"), counts.get("zero8")), (None, Some(&1000)), "{counts:?}");
}

/// Tables of distances from a label within the function, and from the function itself. `TYPE`: of
/// an entry.
const TABLE: &str = r#"
#include <stdio.h>
long run(long n, long v);
__asm__(".intel_syntax noprefix\n.text\n.p2align 4\n.globl run\n.type run,@function\nrun:\n"
" mov rax,rsi\n lea rcx,[rip+" BASE "]\n lea rdx,[rip+table]\n and edi,3\n " LOAD "\n add rcx,rdi\n jmp rcx\n"
"op0: inc rax\n ret\nop1: dec rax\n ret\nop2: shl rax\n ret\nop3: neg rax\n ret\n.size run,.-run\n"
".section .rodata\n.balign 4\ntable: " TYPE " op0-" BASE ",op1-" BASE ",op2-" BASE ",op3-" BASE "\n.text\n.att_syntax");
/* Distances between labels, as GNU C documents them. */
__attribute__((noipa)) long labels(int n, long v) {
    static const int distances[] = { &&a - &&a, &&b - &&a, &&c - &&a, &&d - &&a };
    goto *(&&a + distances[n & 3]);
a:  return v + 1;
b:  return v - 1;
c:  return v * 2;
d:  return -v;
}
int main(void) {
    long s = 0;
    for (int i = 0; i < 100000; i++) s += run(i, i % 100) * 3 + labels(i, i % 77);
    printf("%ld\n", s);
    return 0;
}
"#;

#[test]
fn tables_of_distances_from_code_lead_to_where_the_program_computes() {
    let tables = [
        (".byte", "movsx rdi,byte ptr [rdx+rdi]", ["run", "op2"]),
        (".short", "movsx rdi,word ptr [rdx+rdi*2]", ["op0", "op2"]),
        (".long", "movsxd rdi,dword ptr [rdx+rdi*4]", ["run", "op0"]),
    ];
    for (kind, load, bases) in tables {
        for base in bases {
            let defines = format!(
                "#define BASE \"{base}\"\n#define TYPE \"{kind}\"\n#define LOAD \"{load}\"\n"
            );
            let name = format!("tag-code-table{kind}-{base}");
            let source = format!("{defines}{TABLE}");
            let Some(program) = build(&name, &source, &["-O1"]) else { return };
            run_tagged(&name, &program, &[]);
        }
    }
}

/// Switches without a check of the range, exceptions, and a table of labels.
const SWITCHES: &str = r#"
#include <cstdio>
#include <stdexcept>
#define CASES C(0,3) C(1,5) C(2,7) C(3,11) C(4,13) C(5,17) C(6,19) C(7,23)
__attribute__((noipa)) static long change(long n, long v) {
    switch (n & 7) {
#define C(a, b) case a: v = v * b + a; if (v > 1000000) v -= 999999; break;
    CASES
    default: __builtin_unreachable();
    }
    return v;
}
__attribute__((noipa)) static long labels(long n, long v) {
#undef C
#define C(a, b) &&l##a,
    static const void *const table[] = { CASES };
    goto *table[n & 7];
#undef C
#define C(a, b) l##a: return v * b % 1000 + a;
    CASES
}
__attribute__((noipa)) static long throws(long n) {
    if (n % 3 == 0) throw std::runtime_error("three");
    return n;
}
__attribute__((noipa)) static long catches(long n) {
    try { return throws(n); } catch (const std::exception &) { return -n; }
}
int main() {
    long v = 1;
    for (long i = 0; i < 20000; i++) v = change(i ^ v, v) + labels(v, i) + (i % 16 ? 0 : catches(i));
    std::printf("%ld\n", v);
    return 0;
}
"#;

#[test]
fn switches_and_landing_pads_are_found_in_segments_of_instructions() {
    let joined = "-Wl,-z,noseparate-code";
    let kinds: [&[&str]; 6] = [
        &["-O1"],
        &["-O2", joined],
        &["-O1", "-no-pie", joined],
        &["-Os", "-no-pie", "-falign-functions=1"],
        &["-O2", "-static", joined],
        &["-O0", joined, "-Wl,-z,norelro"],
    ];
    for (number, flags) in kinds.into_iter().enumerate() {
        let name = format!("tag-code-switches{number}");
        let Some(program) = build(&name, SWITCHES, flags) else { return };
        let select =
            ["-i", "change(*", "-i", "labels(*", "-i", "catches(*", "-i", "throws(*", "-i", "main"];
        for more in [&[][..], &["--blocks", "*"]] {
            let words: Vec<&str> = select.iter().chain(more).copied().collect();
            let (counts, _) = run_tagged(&name, &program, &words);
            let count =
                |name: &str| counts.iter().find(|(one, _)| one.starts_with(name)).map(|(_, n)| *n);
            assert_eq!(
                (count("change"), count("labels")),
                (Some(20000), Some(20000)),
                "{flags:?}: {counts:?}"
            );
            assert_eq!(
                (count("catches"), count("throws")),
                (Some(1250), Some(1250)),
                "{flags:?}: {counts:?}"
            );
        }
    }
}
