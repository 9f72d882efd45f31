//! Tests `hmtt trace --sample`: what is recorded between gaps is exact, and the program behaves as without it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::tag::build;
use crate::trace::number;
use crate::trace_selected::info;
use crate::{hmtt, scratch};

/// Writes one value behind the other to a memory of a power of two of bytes, again and again.
const FILLS: &str = "
#include <stdio.h>

#define COUNT 65536
static volatile int filled[COUNT];

__attribute__((noinline, noclone)) static void fills(unsigned from, unsigned times) {
    for (unsigned i = from; i != from + times; i++)
        filled[i % COUNT] = (int)i;
}

int main(void) {
    for (unsigned turn = 0; turn < 4000; turn++)
        fills(turn * 250000, 250000);
    printf(\"%d\\n\", filled[7]);
    return 7;
}
";
const BYTES: u64 = 4 * 65536;

/// Checks that addresses of the writes in `fills` follow each other, except behind gaps. Returns how many gaps are before
/// writes.
fn check(file: &Path) -> usize {
    let output = hmtt(&["decode", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut last, mut gaps, mut writes) = (None, 0, 0);
    for line in text.lines() {
        if line.starts_with("# the program ran natively here for ") {
            last = None;
            gaps += 1;
        }
        let is_write = line.split(' ').nth(2) == Some("W") && line.ends_with(" 4 in fills");
        if is_write {
            let address = number(line.split(' ').nth(3).unwrap());
            assert!(last.is_none_or(|last: u64| address.wrapping_sub(last) % BYTES == 4), "{line}");
            last = Some(address);
            writes += 1;
        }
    }
    assert!(writes > 1000, "{writes}");
    gaps
}

#[test]
fn between_gaps_all_accesses_are_recorded() {
    let Some(program) = build("trace-fills", FILLS, &["-no-pie"]) else { return };
    let file = scratch("trace-sampled.acc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--sample", "2ms/50ms", "--overwrite", "-o"]).arg(&file);
    let Output { status, stdout, stderr } = command.arg("--").arg(&program).output().unwrap();
    let error = String::from_utf8_lossy(&stderr);
    assert_eq!((status.code(), &stdout[..]), (Some(7), &b"999948295\n"[..]), "{error}");
    assert_eq!(error, "");
    assert!(check(&file) > 1);
    let info = info(&file);
    assert!(info["native_ns"].as_u64().unwrap() >= 50_000_000, "{info}");
}

#[test]
fn a_running_process_is_sampled_until_it_ends() {
    let Some(program) = build("trace-fills", FILLS, &["-no-pie"]) else { return };
    let file = scratch("trace-sampled-attached.acc");
    let running = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    let pid = running.id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "attach", "--sample", "2ms/50ms", "--overwrite", "-o"]).arg(&file);
    let mut tracer = command.arg(&pid).stderr(Stdio::piped()).spawn().unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"999948295\n"[..]));
    let error = std::io::read_to_string(tracer.stderr.take().unwrap()).unwrap();
    assert_eq!((tracer.wait().unwrap().code(), &*error), (Some(0), ""));
    assert!(check(&file) > 1);
}
