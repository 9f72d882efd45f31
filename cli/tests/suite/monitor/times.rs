//! Tests how long threads are in superblocks.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::hmtt_monitor;
use crate::scratch;
use crate::tag::build;

const TIMES: &str = include_str!("times.c");

/// The sum of a count of elements of a list.
fn sum<'v>(list: impl Iterator<Item = &'v Value>, name: &str) -> u64 {
    list.map(|one| one.get(name).map_or(0, |count| count.as_u64().unwrap())).sum()
}

#[test]
fn superblocks_have_the_time_that_threads_spend_in_them() {
    let Some(program) = build("monitor-times", TIMES, &["-w", "-O1"]) else { return };
    let file = scratch("monitor-times.json");
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap(), "--"]);
    let begin = Instant::now();
    let output = command.arg(&program).output().unwrap();
    let elapsed = begin.elapsed().as_nanos() as u64;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let profile: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let list = |name: &str| profile[name].as_array().unwrap().iter();
    let costs = |function: &str| {
        let number = |block: &&Value| block["function"] == function;
        let numbers: Vec<&Value> =
            list("blocks").filter(number).map(|block| &block["number"]).collect();
        let contains = |superblock: &&Value| {
            superblock["blocks"].as_array().unwrap().iter().any(|block| numbers.contains(&block))
        };
        let executed = list("blocks").filter(|block| block["function"] == function);
        let executed = executed
            .map(|one| one["entries"].as_u64().unwrap() * one["instructions"].as_u64().unwrap());
        (executed.sum::<u64>(), sum(list("superblocks").filter(contains), "cache_ns"))
    };
    let ((many, quick), (few, slow)) = (costs("quick"), costs("slow"));
    assert!(many > 2 * few, "{many} and {few} instructions");
    assert!(slow > quick && quick > 0, "{slow} and {quick} ns");
    let whole = profile["cache_ns"].as_u64().unwrap();
    let in_superblocks = sum(list("superblocks"), "cache_ns");
    assert!(slow + quick <= in_superblocks && in_superblocks <= whole, "{in_superblocks}, {whole}");
    // The program has one thread. Its sleep is a system call.
    let in_calls = sum(list("system_calls"), "total_ns");
    assert!(in_calls > 0 && whole + in_calls <= elapsed, "{whole} + {in_calls} of {elapsed} ns");

    let report = |options: &[&str]| {
        let mut command: Command = hmtt_monitor(&["report", file.to_str().unwrap()]);
        command.args(options).output().unwrap().stdout
    };
    let text = String::from_utf8(report(&[])).unwrap();
    for superblock in list("superblocks") {
        let nanoseconds = superblock["cache_ns"].as_u64().unwrap() as f64;
        let columns =
            format!(" {:.3} {:>6.2} ", nanoseconds / 1e6, 100.0 * nanoseconds / whole as f64);
        assert!(text.contains(&columns), "{columns}: {text}");
    }
    let report: Value = serde_json::from_slice(&report(&["--json"])).unwrap();
    assert_eq!(report["cache_ns"], profile["cache_ns"]);
    assert_eq!(sum(report["superblocks"].as_array().unwrap().iter(), "cache_ns"), in_superblocks);
}
