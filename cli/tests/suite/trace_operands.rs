//! Tests `hmtt trace` of instructions whose accesses depend on more than an address: states of the processor and masks.

use std::process::Command;

use crate::skipped;
use crate::tag::build;
use crate::trace::{decoded, each_access, number, traced};

const STATES: &str = include_str!("trace/states.c");

/// Whether the processor has a feature, by its name in `/proc/cpuinfo`.
fn has(feature: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or("");
    let has = flags.split(' ').any(|flag| flag == feature);
    if !has {
        skipped(format!("the processor has no {feature}"));
    }
    has
}

/// Direction, distance from the start and size of the accesses to the first bytes from the address on that the program prints.
fn accesses_of(
    name: &str,
    source: &str,
    flags: &[&str],
    words: &[&str],
    bytes: u64,
) -> Option<Vec<(char, u64, u64)>> {
    let program = build(&format!("trace-{name}"), source, flags)?;
    let printed = Command::new(&program).args(words).output().unwrap().stdout;
    let start = number(String::from_utf8(printed).unwrap().lines().next().unwrap());
    let file = traced(name, &program, words);
    let mut all = Vec::new();
    each_access(&decoded(&file), |(_, direction), address, size| {
        if (start..start + bytes).contains(&address) {
            all.push((direction, address - start, size));
        }
    });
    Some(all)
}

#[test]
fn states_and_cleared_lines_have_their_sizes_and_addresses() {
    let words: &[&str] = if has("clzero") { &["clzero"] } else { &[] };
    let flags = ["-no-pie", "-static"];
    let Some(all) = accesses_of("states", STATES, &flags, words, 4096) else { return };
    let cleared = [('W', 1024 + 64, 64), ('W', 2048 + 5, 1), ('W', 2048, 64)];
    let expected = [&[('W', 0, 512), ('R', 0, 512)], &cleared[..3 * words.len()]].concat();
    assert_eq!(all, expected);
}
