//! Tests which functions `hmtt monitor run -i -x` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::counts::LOOPS;
use super::{WRITES_CODE, hmtt_monitor};
use crate::tag::build;
use crate::{scratch, skipped};

/// A program that removes and replaces files whose code it executes.
const REMOVES_FILES: &str = include_str!("removes_files.c");

/// A program with a part of a function that the compiler moves out of it.
const SELDOM: &str = include_str!("seldom.c");

/// Runs a program with rules. Returns its profile, and the messages.
fn selected(name: &str, program: &Path, rules: &[&str]) -> (Value, String) {
    selected_of(name, &[program], rules)
}

/// As `selected`, with arguments of the program.
fn selected_of(name: &str, words: &[&Path], rules: &[&str]) -> (Value, String) {
    let file = scratch(&format!("monitor-selection-{name}.json"));
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap()]);
    let output = command.args(rules).arg("--").args(words).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 7)), "{name}: {output:?}");
    let messages = String::from_utf8(output.stderr).unwrap();
    (serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap(), messages)
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn address(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn blocks(profile: &Value) -> &Vec<Value> {
    profile["blocks"].as_array().unwrap()
}

/// Executions by function of the program, and offset.
fn executions(profile: &Value, program: &Path) -> BTreeMap<(String, u64), u64> {
    let path = program.canonicalize().unwrap();
    let mut sums = BTreeMap::new();
    for block in blocks(profile).iter().filter(|one| one["object"] == path.to_str().unwrap()) {
        let name = block["function"].as_str().unwrap_or("?").to_owned();
        *sums.entry((name, count(block, "offset"))).or_default() += count(block, "entries");
    }
    sums
}

/// Checks that the blocks at each address are executed as often as they start, follow others in the
/// profile, and follow omitted ones. Returns how many addresses there are.
fn assert_balanced(profile: &Value) -> usize {
    let at = |block: &Value| address(&block["code_address"]).unwrap();
    let by_number: BTreeMap<u64, u64> =
        blocks(profile).iter().map(|block| (count(block, "number"), at(block))).collect();
    // How often control arrives at each address, and how often the blocks there are executed.
    let mut balances: BTreeMap<u64, (u64, u64)> =
        by_number.values().map(|address| (*address, (0, 0))).collect();
    for block in blocks(profile) {
        let (entries, begin) = (count(block, "entries"), at(block));
        let mut arrive = |to: u64, times: u64| {
            if let Some((arrivals, _)) = balances.get_mut(&to) {
                *arrivals += times;
            }
        };
        for name in ["starts", "from_omitted", "other_edges"] {
            arrive(begin, count(block, name));
        }
        let (left, jumps) = (entries - count(block, "stops"), count(block, "taken"));
        let next = begin + count(block, "size_bytes");
        let target = address(&block["target_address"]);
        match block["end"].as_str().unwrap() {
            "jump" | "call" => arrive(target.unwrap(), left),
            "conditional" => {
                arrive(target.unwrap(), jumps);
                arrive(next, left - jumps);
            }
            "system_call" | "next" => arrive(next, left),
            _ => {}
        }
        balances.get_mut(&begin).unwrap().1 += entries;
    }
    for edge in profile["edges"].as_array().unwrap() {
        balances.get_mut(&by_number[&count(edge, "to")]).unwrap().0 += count(edge, "times");
    }
    let unbalanced: BTreeMap<_, _> =
        balances.iter().filter(|(_, (arrivals, entries))| arrivals != entries).collect();
    assert!(unbalanced.is_empty(), "{unbalanced:x?}");
    balances.len()
}

#[test]
fn selected_functions_have_the_counts_of_the_whole_run() {
    let Some(program) = build("monitor-selection", LOOPS, &["-w", "-no-pie"]) else { return };
    let (whole, _) = selected("whole", &program, &[]);
    assert!(whole.get("selection").is_none());
    assert!(assert_balanced(&whole) > 100);
    let counts = executions(&whole, &program);
    for (name, rules, is_selected) in [
        ("one", &["-i", "main"][..], (|name| name == "main") as fn(&str) -> bool),
        ("others", &["-x", "main"], |name| name != "main"),
        ("both", &["-i", "*", "-i", "library=libc*", "-x", "main"], |name| name != "main"),
    ] {
        let (part, messages) = selected(name, &program, rules);
        assert_eq!(messages, "", "{name}");
        let expected = counts.iter().filter(|((of, _), _)| is_selected(of));
        let expected: BTreeMap<_, _> = expected.map(|(key, count)| (key.clone(), *count)).collect();
        assert!(!expected.is_empty());
        assert_eq!(executions(&part, &program), expected, "{name}");
        assert!(assert_balanced(&part) > 3, "{name}");
        assert!(count(&part["selection"], "omitted_instructions") > 0, "{part}");
        let has_library =
            blocks(&part).iter().any(|one| one["object"].as_str().unwrap().contains("/libc"));
        assert_eq!(has_library, name == "both", "{name}");
        let crossings = blocks(&part).iter().filter(|one| count(one, "from_omitted") > 0);
        assert!(crossings.count() > 0, "{name}");
    }
}

#[test]
fn rules_that_match_nothing_or_are_wrong_are_reported() {
    let Some(program) = build("monitor-selection-rules", LOOPS, &["-w", "-no-pie"]) else {
        return;
    };
    let rules = ["-i", "main", "-i", "absent", "-x", "library=libnone*"];
    let (part, messages) = selected("absent", &program, &rules);
    let expected = "hmtt: warning: rule `absent` has matched no function\n\
                    hmtt: warning: rule `library=libnone*` has matched no function\n";
    assert_eq!(messages, expected);
    assert_eq!(part["selection"]["include"], serde_json::json!(["main", "absent"]));
    let mut command = hmtt_monitor(&["run", "-i", "regex=(", "--"]);
    let output = command.arg(&program).output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("rule `regex=(`: not a valid regular expression"), "{messages}");
    let output = hmtt_monitor(&["run", "-i", "main", "--"]).arg(&program).output().unwrap();
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(table.contains("omitted by the selection: "), "{table}");
    assert!(table.contains(" % omitted functions\n"), "{table}");
}

/// Copies a program or library. `is_damaged`: the copy has wrong section headers, which only
/// readers of its functions need.
fn copy(from: &Path, to: &Path, is_damaged: bool) {
    /// Offset of `e_shoff` in the header (ELF, *ELF Header*).
    const SECTIONS: usize = 0x28;
    let mut bytes = std::fs::read(from).unwrap();
    if is_damaged {
        bytes[SECTIONS..SECTIONS + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    }
    let _ = std::fs::remove_file(to);
    std::fs::write(to, bytes).unwrap();
    std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs a program that removes its library `libgone-NAME.so` and replaces itself. Returns its
/// profile, and the messages.
fn replaced(name: &str, rules: &[&str], is_damaged: bool) -> Option<(Value, String)> {
    let built = build("monitor-removes-files", REMOVES_FILES, &[])?;
    let source = "int step(int i) { return i & 1; }";
    let library = build("libmonitor-step.so", source, &["-shared", "-fPIC"])?;
    let other = build("monitor-selection", LOOPS, &["-w", "-no-pie"])?;
    let path = |what: &str| scratch(&what.replace('?', name));
    let [program, gone, code, replacing] =
        ["replaced-?", "libgone-?.so", "replaced-?-code", "replaced-?-other"].map(path);
    copy(&built, &program, false);
    copy(&library, &gone, is_damaged);
    copy(&other, &replacing, false);
    let _ = std::fs::remove_file(&code);
    let words = [&program, &gone, &code, &replacing].map(PathBuf::as_path);
    let run = selected_of(&format!("replaced-{name}"), &words, rules);
    assert_eq!(std::fs::read(&program).unwrap(), std::fs::read(&other).unwrap());
    Some(run)
}

/// Names of the functions in a profile, without code of no known function.
fn functions(profile: &Value) -> BTreeSet<&str> {
    blocks(profile).iter().filter_map(|block| block["function"].as_str()).collect()
}

#[test]
fn functions_are_found_in_files_that_are_replaced_while_they_are_mapped() {
    let rules = ["-i", "work", "-i", "library=libgone-names.so/step"];
    let Some((part, messages)) = replaced("names", &rules, false) else { return };
    assert_eq!(messages, "");
    assert_eq!(functions(&part), ["step", "work"].into());
}

#[test]
fn code_in_a_file_that_is_no_library_is_that_of_the_program() {
    let is_written = |block: &&Value| block["code"] == "b82a000000c3";
    for (name, rules, times) in [("code", ["-i", "size<1"], 1), ("main", ["-i", "main"], 0)] {
        let Some((part, _)) = replaced(name, &rules, false) else { return };
        let written = blocks(&part).iter().filter(is_written);
        assert_eq!(written.map(|block| count(block, "entries")).sum::<u64>(), times, "{name}");
    }
}

#[test]
fn a_library_that_cannot_be_read_is_reported() {
    let rules = ["-i", "work", "-i", "library=libgone-damaged*/step"];
    let Some((part, messages)) = replaced("damaged", &rules, true) else { return };
    let path = scratch("libgone-damaged.so").display().to_string();
    let warning =
        format!("hmtt: warning: rules cannot name functions of {path}: {path}: not a 64-bit");
    assert!(messages.starts_with(&warning) && messages.lines().count() == 1, "{messages}");
    assert_eq!(functions(&part), ["work"].into());
    let whole = ["-i", "library=libgone-damaged*"];
    let Some((part, _)) = replaced("damaged", &whole, true) else { return };
    let own = |block: &&Value| block["object"] == path.as_str();
    assert_eq!(blocks(&part).iter().filter(own).count(), blocks(&part).len());
    assert!(blocks(&part).iter().any(|block| count(block, "entries") == 100), "{part}");
}

#[test]
fn everything_is_written_if_the_functions_of_the_program_are_not_known() {
    let Some(built) = build("monitor-selection", LOOPS, &["-w", "-no-pie"]) else { return };
    let program = scratch("monitor-selection-damaged");
    copy(&built, &program, true);
    let (whole, messages) = selected("damaged-program", &program, &["-i", "main", "-x", "absent"]);
    let warning = format!(
        "hmtt: warning: everything is written, because the functions of {} are not known: ",
        program.canonicalize().unwrap().display()
    );
    assert!(messages.starts_with(&warning) && messages.lines().count() == 1, "{messages}");
    assert!(whole.get("selection").is_none());
    assert!(assert_balanced(&whole) > 100);
    // Rules for libraries do not need them.
    let rules = ["-i", "library=libc.so*"];
    let (part, messages) = selected("damaged-program", &program, &rules);
    assert_eq!(messages, "");
    let is_library = |block: &Value| block["object"].as_str().unwrap().contains("/libc.so");
    assert!(blocks(&part).len() > 3 && blocks(&part).iter().all(is_library), "{part}");
}

#[test]
fn shared_memory_is_not_a_library() {
    let Some(program) = build("monitor-writes-code", WRITES_CODE, &[]) else { return };
    let (part, messages) = selected("shared-memory", &program, &["-x", "main"]);
    assert_eq!(messages, "");
    let is_memory = |block: &&Value| block["object"].as_str().unwrap().starts_with("/memfd:code");
    let written: u64 =
        blocks(&part).iter().filter(is_memory).map(|block| count(block, "entries")).sum();
    assert_eq!(written, 20);
}

#[test]
fn separate_parts_follow_the_rules_of_their_functions() {
    let Some(program) = build("monitor-seldom", SELDOM, &[]) else { return };
    let image = hmtt_probe::elf::Image::read(&program).unwrap();
    let own = program.canonicalize().unwrap();
    let in_parts = |profile: &Value| -> BTreeMap<u64, u64> {
        let own = blocks(profile).iter().filter(|block| block["object"] == own.to_str().unwrap());
        own.filter_map(|block| {
            let at = address(&block["file_address"])?;
            let is_apart = image.fragments.iter().any(|part| part.contains(&at));
            is_apart.then(|| (at, count(block, "entries")))
        })
        .collect()
    };
    let (whole, _) = selected("parts", &program, &[]);
    let counts = in_parts(&whole);
    if counts.is_empty() {
        return skipped("the compiler has moved nothing out of its function");
    }
    assert!(counts.values().all(|entries| *entries == 10), "{counts:x?}");
    let (part, messages) = selected("parts-in", &program, &["-i", "hot"]);
    assert_eq!((in_parts(&part), messages), (counts, String::new()));
    assert!(assert_balanced(&part) > 3);
    assert_eq!(in_parts(&selected("parts-out", &program, &["-x", "hot"]).0), BTreeMap::new());
}
