//! Compares counts of blocks with those of callgrind, instruction by instruction.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{MACHINE, UNWINDS, run_monitored};
use crate::callgrind;
use crate::tag::{FIB, build};

/// Nested loops, a `switch` through a table, calls through pointers, recursion, and a library's sort.
const LOOPS: &str = include_str!("../tag_real/programs/loops.c");

fn hexadecimal(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// How often each of some instructions of the program itself was executed.
fn executions(counts: &Value, program: &Path, of: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let path = program.canonicalize().unwrap();
    let mut all: BTreeMap<u64, u64> = of.keys().map(|address| (*address, 0)).collect();
    for block in counts["blocks"].as_array().unwrap() {
        if block["object"] == path.to_str().unwrap() {
            let start = hexadecimal(&block["file_address"]);
            let end = start + block["size_bytes"].as_u64().unwrap();
            let entries = block["entries"].as_u64().unwrap();
            all.range_mut(start..end).for_each(|(_, count)| *count += entries);
        }
    }
    all
}

#[test]
fn counts_of_all_instructions_equal_those_of_callgrind() {
    for (name, source) in
        [("fib", FIB), ("loops", LOOPS), ("machine", MACHINE), ("unwinds", UNWINDS)]
    {
        let name = format!("monitor-counts-{name}");
        let Some(program) = build(&name, source, &["-w", "-no-pie"]) else { return };
        let Some(expected) = callgrind::instructions(&name, &program, &[]) else { return };
        assert!(expected.len() > 50, "{name}");
        let counts = run_monitored(&name, &program, &[]);
        assert_eq!(executions(&counts, &program, &expected), expected, "{name}");
    }
}
