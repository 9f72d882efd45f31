//! Tests `hmtt trace evaluate`: what it states of a full trace is what selective traces of the same
//! program are.

use std::path::Path;

use hmtt::cache::{AccessKind, Hierarchy};
use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;

use crate::tag::build;
use crate::trace::{ACCESSES, each_access};
use crate::trace_selected::{info, traced};
use crate::{hmtt, scratch};

const ITEMSETS: &str = include_str!("../../../tests/programs/kernels/itemsets.c");
const PLACEMENT: &str = include_str!("../../../tests/programs/kernels/placement.c");

/// How programs are built: they have the same addresses in each run.
const FLAGS: [&str; 4] = ["-static", "-no-pie", "-w", "-lm"];

/// Accesses of a setting and shares, with the names that `hmtt info` has for them, too.
const NAMES: [&str; 7] = [
    "all_accesses",
    "recorded_accesses",
    "represented_accesses",
    "near_accesses",
    "minimal_accuracy",
    "alignment_independent_accuracy",
    "payoff",
];

/// What is stated of a full trace.
fn evaluated(file: &Path, options: &[&str]) -> Value {
    let output =
        hmtt(&[&["trace", "evaluate", "--json", file.to_str().unwrap()], options].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Compares what is stated of a full trace with a selective trace of the same program.
fn assert_predicted(name: &str, program: &Path, full: &Path, setting: [&str; 3]) {
    let [omega, chunk, equality] = setting;
    let options = ["--omega", omega, "--chunk", chunk, "--equality", equality];
    let stated = evaluated(full, &options);
    let recorded = ["--all-blocks", "--omega", omega, "--chunk", chunk, "--equality", equality];
    let Some(file) = traced(&format!("evaluated-{name}"), program, &recorded) else { return };
    let chosen = &info(&file)["chosen"];
    let stated = &stated["settings"][0];
    assert!(chosen["recorded_accesses"].as_u64() < chosen["all_accesses"].as_u64(), "{chosen}");
    for member in NAMES {
        assert_eq!(stated[member], chosen[member], "{name}: {member}: {setting:?}");
    }
}

#[test]
fn what_is_stated_is_what_selective_traces_are() {
    for (name, source) in [("accesses", ACCESSES), ("itemsets", ITEMSETS), ("placement", PLACEMENT)]
    {
        let Some(program) = build(&format!("evaluated-{name}"), source, &FLAGS) else { return };
        let Some(full) = traced(&format!("evaluated-full-{name}"), &program, &[]) else { return };
        for setting in [
            ["10%", "64", "values"],
            ["50%", "16", "values"],
            ["50%", "16", "versions"],
            ["100%", "4096", "versions"],
        ] {
            assert_predicted(name, &program, &full, setting);
        }
    }
}

#[test]
fn chunks_that_are_other_ones_are_some_of_those_that_are_near() {
    let Some(program) = build("evaluated-placement", PLACEMENT, &FLAGS) else { return };
    let Some(full) = traced("evaluated-near", &program, &[]) else { return };
    let document = evaluated(&full, &["--cache"]);
    assert_json_documented("hmtt trace evaluate", &document);
    let settings = document["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 5 * 3 + 1);
    let number = |one: &Value, name: &str| one[name].as_u64().unwrap();
    for setting in settings {
        let (near, checked) =
            (number(setting, "near_accesses"), number(setting, "checked_accesses"));
        // Executions that end early are few.
        assert!(checked <= near && near - checked < 100, "{setting}");
        assert!(number(setting, "false_accesses") <= checked, "{setting}");
        // Pieces of memory that are apart by less than a page are mostly in the same page.
        let is_page = setting["chunk_bytes"] == 4096 && checked > 0;
        assert!(!is_page || setting["false_share"].as_f64().unwrap() < 0.5, "{setting}");
    }
    // Pushes and pops at distances of 8 bytes are in the same 16 bytes, or not.
    let small = &settings[3];
    assert!(small["chunk_bytes"] == 16 && small["omega_percent"] == 25, "{small}");
    let share = small["false_share"].as_f64().unwrap();
    assert!((0.05..0.95).contains(&share), "{small}");
    assert_eq!(settings[15]["cache_miss_rate"], document["cache_miss_rate"]);
    let text = String::from_utf8(hmtt(&["trace", "evaluate", full.to_str().unwrap()]).stdout);
    let text = text.unwrap();
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert_eq!(text.lines().count(), 2 + settings.len(), "{text}");
}

/// The share of lines that miss the first cache if the accesses of a trace are made.
fn miss_rate(file: &Path) -> f64 {
    let level = "2K,2,64,lru".parse().unwrap();
    let mut caches = Hierarchy::new(&[level], None).unwrap();
    let text = String::from_utf8(hmtt(&["decode", file.to_str().unwrap()]).stdout).unwrap();
    each_access(&text, |(_, direction), address, size| {
        let kind = if direction == 'R' { AccessKind::Read } else { AccessKind::Write };
        caches.access(kind, address, size as u32, &mut |_| {});
    });
    let counters = caches.counters().next().unwrap();
    counters.misses as f64 / (counters.misses + counters.hits) as f64
}

/// A number as it is read from JSON, where it may differ in the last digit from the one that was
/// written.
fn as_read(number: f64) -> Value {
    serde_json::from_str(&number.to_string()).unwrap()
}

#[test]
fn misses_are_those_of_the_accesses_of_selective_traces() {
    let Some(program) = build("evaluated-accesses", ACCESSES, &FLAGS) else { return };
    let Some(full) = traced("evaluated-cache", &program, &[]) else { return };
    let options = ["--omega", "50%,all", "--chunk", "64", "--cache", "l1=2K,2,64,lru"];
    let stated = evaluated(&full, &[&options[..], &["--cache", "l2=1M,4,64,lru"]].concat());
    assert_eq!(stated["cache_miss_rate"], as_read(miss_rate(&full)));
    let recorded = ["--all-blocks", "--omega", "50%", "--chunk", "64"];
    let Some(some) = traced("evaluated-cache-some", &program, &recorded) else { return };
    assert_eq!(stated["settings"][0]["cache_miss_rate"], as_read(miss_rate(&some)));
    assert_ne!(stated["settings"][0]["cache_miss_rate"], stated["cache_miss_rate"]);
    assert_eq!(stated["settings"][1]["cache_miss_rate"], stated["cache_miss_rate"]);
}

#[test]
fn traces_without_all_accesses_are_refused_or_marked() {
    let Some(program) = build("evaluated-accesses", ACCESSES, &FLAGS) else { return };
    let Some(full) = traced("evaluated-whole", &program, &[]) else { return };
    let Some(some) = traced("evaluated-some", &program, &["--writes"]) else { return };
    let cut = scratch("evaluated-cut.acc");
    let whole = std::fs::read(full).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 5]).unwrap();
    for (file, code, why) in [
        (some.to_str().unwrap(), 1, "only some of the accesses were to be recorded"),
        (cut.to_str().unwrap(), 3, "the file is cut"),
        ("/dev/null", 1, "is no trace of accesses"),
    ] {
        let output = hmtt(&["trace", "evaluate", file]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(why), "{output:?}");
    }
}
