//! Tests `hmtt trace` of a loop that is entered again and again without values that follow from the
//! execution before.

use std::process::Command;

use crate::tag::build;
use crate::trace::{decoded, each_access, number, traced};

const LOOPS: &str = include_str!("trace/loops.c");
/// Executions of the loop, whose records fill several chunks of a ring, and bytes that it reads.
const TIMES: u64 = 400_000;
const BYTES: u64 = 1 << 16;

#[test]
fn repeated_paths_have_all_accesses_in_order() {
    let Some(program) = build("trace-loops", LOOPS, &["-no-pie"]) else { return };
    let printed = Command::new(&program).output().unwrap().stdout;
    let base = number(String::from_utf8(printed).unwrap().split(' ').next().unwrap());
    let file = traced("loops", &program, &[]);
    let mut at = Vec::new();
    each_access(&decoded(&file), |(_, direction), address, size| {
        if direction == 'R' && size == 1 && (base..base + BYTES).contains(&address) {
            at.push(address - base);
        }
    });
    assert_eq!(at.len() as u64, TIMES);
    let expected = (0..TIMES).map(|time| 5 * time % BYTES);
    assert!(at.into_iter().eq(expected), "an address is another one");
}
