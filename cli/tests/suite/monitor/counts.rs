//! Compares counts of blocks with those of callgrind, instruction by instruction.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{MACHINE, UNWINDS, run_monitored};
use crate::callgrind;
use crate::tag::{FIB, build};

/// Nested loops, a `switch` through a table, calls through pointers, recursion, and a library's
/// sort.
pub const LOOPS: &str = include_str!("../tag_real/programs/loops.c");

fn hexadecimal(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// How often each of some instructions of the program itself was executed.
pub fn executions(
    counts: &Value,
    program: &Path,
    addresses: &BTreeMap<u64, u64>,
) -> BTreeMap<u64, u64> {
    let path = program.canonicalize().unwrap();
    let mut sums: BTreeMap<u64, u64> = addresses.keys().map(|address| (*address, 0)).collect();
    for block in counts["blocks"].as_array().unwrap() {
        if block["object"] == path.to_str().unwrap() {
            let start = hexadecimal(&block["file_address"]);
            let end = start + block["size_bytes"].as_u64().unwrap();
            let entries = block["entries"].as_u64().unwrap();
            sums.range_mut(start..end).for_each(|(_, count)| *count += entries);
        }
    }
    sums
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

/// Calls and jumps to addresses of the program's own file, from the edges of a profile.
fn arrivals(profile: &Value, program: &Path) -> BTreeMap<u64, u64> {
    let path = program.canonicalize().unwrap();
    let blocks = profile["blocks"].as_array().unwrap();
    let by_number: BTreeMap<u64, &Value> =
        blocks.iter().map(|block| (block["number"].as_u64().unwrap(), block)).collect();
    let by_address: BTreeMap<u64, &Value> =
        blocks.iter().map(|block| (hexadecimal(&block["code_address"]), block)).collect();
    let mut sums = BTreeMap::new();
    let mut add = |to: &Value, times: u64| {
        if to["object"] == path.to_str().unwrap() {
            *sums.entry(hexadecimal(&to["file_address"])).or_default() += times;
        }
    };
    let count = |block: &Value, name: &str| block[name].as_u64().unwrap_or(0);
    for block in blocks {
        let times = match block["end"].as_str().unwrap() {
            "call" | "jump" => count(block, "entries") - count(block, "stops"),
            "conditional" => count(block, "taken"),
            _ => 0,
        };
        if times > 0 {
            add(by_address[&hexadecimal(&block["target_address"])], times);
        }
    }
    for edge in profile["edges"].as_array().unwrap() {
        let [from, to] = ["from", "to"].map(|name| by_number[&edge[name].as_u64().unwrap()]);
        if from["end"] != "return" {
            add(to, edge["times"].as_u64().unwrap());
        }
    }
    sums
}

#[test]
fn calls_of_functions_equal_those_of_callgrind() {
    for (name, source) in
        [("fib", FIB), ("loops", LOOPS), ("machine", MACHINE), ("unwinds", UNWINDS)]
    {
        let name = format!("monitor-calls-{name}");
        let Some(program) = build(&name, source, &["-w", "-no-pie"]) else { return };
        let Some(expected) = callgrind::calls(&name, &program, &[]) else { return };
        let image = hmtt_probe::elf::Image::read(&program).unwrap();
        let expected = callgrind::by_name(&image, &expected);
        let counts =
            callgrind::by_name(&image, &arrivals(&run_monitored(&name, &program, &[]), &program));
        // Callgrind counts each jump to the first instruction of a function as a call. It does not
        // see how the program is started.
        let is_own = |name: &str| {
            !name.starts_with('_') && !name.contains("_tm_clones") && name != "frame_dummy"
        };
        let differing: Vec<_> = expected
            .iter()
            .filter(|(name, calls)| is_own(name) && counts[*name] != **calls)
            .map(|(name, calls)| (name, calls, counts[name]))
            .collect();
        assert!(differing.is_empty(), "{name}: {differing:?}");
        assert!(expected.values().any(|calls| *calls > 100), "{name}");
    }
}
