//! Tests which functions `hmtt monitor run -i -x` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::counts::LOOPS;
use super::hmtt_monitor;
use crate::scratch;
use crate::tag::build;

/// Runs a program with rules. Returns its profile, and the messages.
fn selected(name: &str, program: &Path, rules: &[&str]) -> (Value, String) {
    let file = scratch(&format!("monitor-selection-{name}.json"));
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap()]);
    let output = command.args(rules).arg("--").arg(program).output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{name}: {messages}");
    (serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap(), messages)
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn blocks(profile: &Value) -> &Vec<Value> {
    profile["blocks"].as_array().unwrap()
}

/// Executions by function of the program, and offset.
fn executions(profile: &Value, program: &Path) -> BTreeMap<(String, u64), u64> {
    let path = program.canonicalize().unwrap();
    let mut all = BTreeMap::new();
    for block in blocks(profile).iter().filter(|one| one["object"] == path.to_str().unwrap()) {
        let name = block["function"].as_str().unwrap_or("?").to_owned();
        *all.entry((name, count(block, "offset"))).or_default() += count(block, "entries");
    }
    all
}

/// Checks that blocks are executed as often as they start, follow others in the profile, and follow omitted ones.
fn assert_balanced(profile: &Value) {
    let address = |value: &Value| {
        let text = value.as_str().map(|text| text.trim_start_matches("0x"));
        text.map(|text| u64::from_str_radix(text, 16).unwrap())
    };
    let starts: BTreeSet<u64> =
        blocks(profile).iter().filter_map(|block| address(&block["code_address"])).collect();
    let (mut entered, mut expected) = (0, 0);
    let mut follow = |to: Option<u64>, times: u64| {
        entered += if to.is_some_and(|to| starts.contains(&to)) { times } else { 0 };
    };
    for block in blocks(profile) {
        expected += count(block, "entries");
        follow(starts.first().copied(), count(block, "starts"));
        follow(starts.first().copied(), count(block, "from_omitted"));
        let left = count(block, "entries") - count(block, "stops");
        let next = address(&block["code_address"]).map(|at| at + count(block, "size_bytes"));
        let target = address(&block["target_address"]);
        match block["end"].as_str().unwrap() {
            "jump" | "call" => follow(target, left),
            "conditional" => {
                follow(target, count(block, "taken"));
                follow(next, left - count(block, "taken"));
            }
            "system_call" | "next" => follow(next, left),
            _ => {}
        }
    }
    let indirect = profile["edges"].as_array().unwrap().iter().map(|edge| count(edge, "times"));
    assert_eq!(entered + indirect.sum::<u64>(), expected);
}

#[test]
fn selected_functions_have_the_counts_of_the_whole_run() {
    let Some(program) = build("monitor-selection", LOOPS, &["-w", "-no-pie"]) else { return };
    let (whole, _) = selected("whole", &program, &[]);
    assert!(whole.get("selection").is_none());
    assert_balanced(&whole);
    let all = executions(&whole, &program);
    for (name, rules, is_selected) in [
        ("one", &["-i", "main"][..], (|name| name == "main") as fn(&str) -> bool),
        ("others", &["-x", "main"], |name| name != "main"),
        ("both", &["-i", "*", "-i", "library=libc*", "-x", "main"], |name| name != "main"),
    ] {
        let (part, messages) = selected(name, &program, rules);
        assert_eq!(messages, "", "{name}");
        let expected = all.iter().filter(|((of, _), _)| is_selected(of));
        let expected: BTreeMap<_, _> = expected.map(|(key, count)| (key.clone(), *count)).collect();
        assert!(!expected.is_empty());
        assert_eq!(executions(&part, &program), expected, "{name}");
        assert_balanced(&part);
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
