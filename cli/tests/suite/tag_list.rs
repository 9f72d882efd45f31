//! Compares the calls and jumps that `hmtt tag list` finds with objdump's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tag::{build, hmtt_tag};
use crate::wait_until;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static volatile int sink;
__attribute__((noipa)) int leaf(int n) { return n * 3 + sink; }
__attribute__((noipa)) int tail(int n) { sink = n; return leaf(n + 1); }
__attribute__((noipa)) int maybe(int n) { if (n & 1) return leaf(n); sink = n; return n + 2; }
static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int (*volatile pointer)(int) = tail;
__attribute__((noipa)) int through(int (**table)(int), int n) { return table[n & 1](n) + 1; }
int main(void) {
    int (*table[2])(int) = { leaf, maybe }, values[3] = { 3, 1, 2 };
    int sum = leaf(1) + leaf(2) + tail(3) + maybe(4) + pointer(5) + through(table, 6);
    qsort(values, 3, sizeof(int), by_value);
    printf("%d %d\n", sum, values[0]);
    return 0;
}
"#;

fn list(words: &[&str], program: &str) -> Value {
    let output = hmtt_tag(&["list", "--json"]).args(words).arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Counts by name.
type Counts = BTreeMap<String, u64>;

/// Counts calls by kind in the functions of a program, and calls that name a function, as objdump
/// prints them.
fn objdump(program: &Path) -> Option<(Counts, Counts)> {
    let arguments = ["-d", "--no-show-raw-insn", "-w"];
    let output = match Command::new("objdump").args(arguments).arg(program).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: objdump: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut kinds, mut named) = (BTreeMap::new(), BTreeMap::new());
    for call in text.lines().filter_map(|line| line.split_once("\tcall").map(|(_, call)| call)) {
        let kind = match call {
            call if call.contains("@plt>") => "call_plt",
            call if call.contains("(%rip)") => "call_pointer",
            call if call.contains('*') => "call_computed",
            call => {
                let name = call.split(['<', '>']).nth(1).unwrap_or_default();
                *named.entry(name.to_owned()).or_insert(0) += 1;
                "call"
            }
        };
        *kinds.entry(kind.to_owned()).or_insert(0) += 1;
    }
    Some((kinds, named))
}

#[test]
fn kinds_of_calls_equal_those_of_objdump() {
    for flags in [&["-O2"][..], &["-O0"], &["-O2", "-fno-plt", "-static"]] {
        let name = format!("tag-list{}", flags.concat());
        let Some(program) = build(&name, PROGRAM, flags) else { return };
        let Some((kinds, named)) = objdump(&program) else { return };
        let listed = list(&[], program.to_str().unwrap());
        let object = &listed["objects"][0];
        let functions = object["functions"].as_array().unwrap();
        let function =
            |name: &str| functions.iter().find(|function| function["name"] == name).unwrap();
        for name in ["leaf", "tail", "maybe", "through"] {
            let expected = named.get(name).copied().unwrap_or(0);
            assert_eq!(function(name)["calls"].as_u64().unwrap(), expected, "{name} {flags:?}");
        }
        assert_eq!(function("tail")["pointed_at"], true);
        assert_eq!(function("through")["pointed_at"], false);
        // A static program contains much code outside of function symbols.
        if flags.contains(&"-static") {
            continue;
        }
        for kind in ["call", "call_plt", "call_pointer", "call_computed"] {
            let expected = kinds.get(kind).copied().unwrap_or(0);
            assert_eq!(object["sites"][kind].as_u64().unwrap(), expected, "{kind} {flags:?}");
        }
        if flags == ["-O2"] {
            assert!(function("leaf")["jumps"].as_u64().unwrap() >= 2, "{}", function("leaf"));
        }
    }
}

#[test]
fn a_process_is_listed_with_the_addresses_of_its_libraries() {
    let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    // Waits until the child has executed the program.
    wait_until("sleep runs", || {
        std::fs::read_link(format!("/proc/{pid}/exe")).unwrap().ends_with("sleep")
            && std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("libc.so")
    });
    let listed = list(&["-i", "library=libc.so*/mem*"], &pid);
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let objects = listed["objects"].as_array().unwrap();
    let [program, library] = &objects[..] else { panic!("{objects:?}") };
    assert!(program["functions"].as_array().unwrap().is_empty(), "only the library is asked for");
    let functions = library["functions"].as_array().unwrap();
    let memfrob =
        functions.iter().find(|function| function["name"] == "memfrob").expect("libc has it");
    let start = memfrob["code_address"].as_str().unwrap();
    let start = u64::from_str_radix(start.trim_start_matches("0x"), 16).unwrap();
    let holds = |line: &str| {
        let range = line.split(' ').next().unwrap();
        let (first, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(first)..number(end)).contains(&start)
            && line.contains("r-xp")
            && line.contains("libc")
    };
    assert!(maps.lines().any(holds), "{start:x} is in none of\n{maps}");
}
