//! Tests models and intervals of `hmtt monitor run` with a program of known loops.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::counts::LOOPS;
use super::hmtt_monitor;
use crate::tag::build;
use crate::{hmtt, scratch};

/// Runs the program with options. Returns the path of its profile, and the profile.
fn profile(name: &str, options: &[&str]) -> Option<(PathBuf, Value)> {
    let program = build("monitor-models", LOOPS, &["-w"])?;
    let file = scratch(&format!("monitor-models-{name}.json"));
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap()]);
    let output = command.args(options).arg(program).output().unwrap();
    // The status is the program's own.
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let text = std::fs::read(&file).unwrap();
    Some((file, serde_json::from_slice(&text).unwrap()))
}

fn blocks(profile: &Value) -> &Vec<Value> {
    profile["blocks"].as_array().unwrap()
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

#[test]
fn results_of_models_are_the_sums_over_blocks() {
    let options = ["--predictors", "--icache", "32K,8,64"];
    let Some((file, profile)) = profile("models", &options) else { return };
    let models = &profile["models"];
    let conditional = blocks(&profile).iter().filter(|block| block["end"] == "conditional");
    let executed: u64 =
        conditional.map(|block| count(block, "entries") - count(block, "stops")).sum();
    for (at, name) in [(0, "bimodal"), (1, "tage")] {
        let predictor = &models["predictors"][at];
        assert_eq!(predictor["name"], name);
        assert_eq!(count(predictor, "branches"), executed);
        let wrong = |block: &Value| block["mispredictions"][at].as_u64().unwrap_or(0);
        let sum: u64 = blocks(&profile).iter().map(wrong).sum();
        assert_eq!(count(predictor, "mispredictions"), sum);
        // Nearly all jumps of this program are those of loops.
        assert!((1..executed / 10).contains(&sum), "{name}: {sum} of {executed}");
    }
    let icache = &models["icache"];
    let misses: u64 = blocks(&profile).iter().map(|block| count(block, "cache_misses")).sum();
    assert_eq!(count(icache, "cache_misses"), misses);
    assert_eq!((count(icache, "size_bytes"), count(icache, "ways")), (32768, 8));
    assert!((1..count(icache, "fetches") / 10).contains(&misses), "{icache}");
    hmtt_test_support::names::assert_json_documented("hmtt monitor run --predictors", &profile);
    let text = hmtt(&["monitor", "report", file.to_str().unwrap()]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("predictor tage of 9216 bytes"), "{text}");
    assert!(text.contains("instruction cache of 32768 bytes, 8 ways, lines of 64"), "{text}");
}

#[test]
fn vectors_of_intervals_have_all_instructions() {
    let Some((file, profile)) = profile("bbv", &["--bbv", "100000"]) else { return };
    let vectors = format!("{}.bb", file.display());
    let text = std::fs::read_to_string(vectors).unwrap();
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let mut whole = 0;
        for entry in line.strip_prefix('T').unwrap().split_whitespace() {
            let (block, count) = entry.strip_prefix(':').unwrap().split_once(':').unwrap();
            let count: u64 = count.parse().unwrap();
            *sums.entry(block.parse().unwrap()).or_default() += count;
            whole += count;
        }
        let is_last = number + 1 == lines.len();
        assert!(is_last || whole == 100_000, "{number}: {whole}");
    }
    assert!(lines.len() > 2, "{}", lines.len());
    let expected: BTreeMap<u64, u64> = blocks(&profile)
        .iter()
        .map(|block| {
            (count(block, "number"), count(block, "entries") * count(block, "instructions"))
        })
        .collect();
    assert_eq!(sums, expected);
}

#[test]
fn counts_alone_are_those_with_edges() {
    let Some((_, whole)) = profile("whole", &[]) else { return };
    let Some((_, alone)) = profile("alone", &["--counts-only"]) else { return };
    let counts = |profile: &Value| -> Vec<(String, u64)> {
        let own = blocks(profile)
            .iter()
            .filter(|block| block["object"].as_str().unwrap().contains("monitor-models"));
        let mut counts: Vec<(String, u64)> =
            own.map(|block| (block["file_address"].to_string(), count(block, "entries"))).collect();
        // Their order is that of translation, which lists of executed blocks change.
        counts.sort();
        counts
    };
    assert_eq!(counts(&alone), counts(&whole));
    assert_eq!((&alone["recorded"], &whole["recorded"]), (&"counts".into(), &"edges".into()));
    assert_eq!(alone["edges"], Value::Array(Vec::new()));
}

#[test]
fn impossible_caches_are_refused() {
    for (text, why) in [("32K,8", "give three numbers"), ("32K,8,63", "must be powers of two")] {
        let refused = hmtt(&["monitor", "run", "--icache", text, "true"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
}
