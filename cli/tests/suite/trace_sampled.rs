//! Tests `hmtt trace --sample` and `--budget`: what is recorded between gaps is exact, and the
//! program behaves as without it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::tag::build;
use crate::tag_hostile::programs::{ALLOWS, COMMON};
use crate::trace::number;
use crate::trace_selected::info;
use crate::{hmtt, scratch};

/// Writes one value behind the other to a memory of a power of two of bytes, again and again: in
/// 4,000 turns, or as many as its argument says. With the argument `again`, until it has run
/// natively and was then traced for many turns: how soon a budget allows that depends on the
/// machine.
const FILLS: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 65536
static volatile int filled[COUNT];

__attribute__((noinline, noclone)) static void fills(unsigned from, unsigned times) {
    for (unsigned i = from; i != from + times; i++)
        filled[i % COUNT] = (int)i;
}

/* Natively, no process traces this one. */
static int is_native(void) {
    char text[4096] = {0};
    FILE *status = fopen(\"/proc/self/status\", \"r\");
    fread(text, 1, sizeof text - 1, status);
    fclose(status);
    return !!strstr(text, \"TracerPid:\\t0\\n\");
}

static void fills_until_recorded_again(void) {
    int was_native = 0, traced = 0;
    /* A tracer is there for some turns before it records. */
    for (unsigned turn = 0; traced < 5000 && turn < 10000000; turn++) {
        if (is_native())
            was_native = 1;
        else
            traced += was_native;
        fills(turn * 1000, 1000);
    }
    puts(traced == 5000 ? \"recorded again\" : \"not recorded again\");
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], \"again\")) {
        fills_until_recorded_again();
        return 7;
    }
    unsigned turns = count > 1 ? atoi(words[1]) : 4000;
    for (unsigned turn = 0; turn < turns; turn++)
        fills(turn * 250000, 250000);
    printf(\"%d\\n\", filled[7]);
    return 7;
}
";
const BYTES: u64 = 4 * 65536;

/// Checks that addresses of the writes in `fills` follow each other, except behind gaps. Returns
/// how many gaps are before writes.
fn check(file: &Path) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    let mut decode = command.arg("decode").arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let (mut last, mut gaps, mut writes) = (None, 0, 0u64);
    // The text of a trace may be larger than the memory.
    for line in BufReader::new(decode.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
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
    assert_eq!(decode.wait().unwrap().code(), Some(0));
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

#[test]
fn a_budget_makes_a_program_run_natively_from_time_to_time() {
    let Some(program) = build("trace-fills", FILLS, &["-no-pie"]) else { return };
    let file = scratch("trace-budget.acc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--budget", "20%", "--overwrite", "-o"]).arg(&file);
    let command = command.arg("--").arg(&program).arg("again");
    let Output { status, stdout, stderr } = command.output().unwrap();
    let error = String::from_utf8_lossy(&stderr);
    assert_eq!((status.code(), &stdout[..]), (Some(7), &b"recorded again\n"[..]), "{error}");
    let pattern = "hmtt: the program was recorded ";
    assert!(error.starts_with(pattern) && error.lines().count() == 1, "{error}");
    assert!(check(&file) > 0);
    // A program that only computes goes on natively for more than six times the time for which it
    // is recorded.
    let info = info(&file);
    assert!(info["native_ns"].as_u64().unwrap() >= 100_000_000, "{info}");
    assert_eq!(info["cut"], false, "{info}");
}

#[test]
fn a_budget_is_a_share() {
    for budget in ["0%", "x", "20000%"] {
        let output = hmtt(&["trace", "run", "--budget", budget, "-o", "never.acc", "true"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("--budget") && error.contains(budget), "{error}");
    }
}

#[test]
fn a_program_that_ends_while_it_is_attached_to_has_its_own_status() {
    let Some(program) = build("trace-fills", FILLS, &["-no-pie"]) else { return };
    let file = scratch("trace-sampled-ends.acc");
    for turn in 0..60 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
        command.args(["trace", "run", "--sample", "1ms/1ms", "--overwrite", "-o"]).arg(&file);
        let output = command.arg("--").arg(&program).arg((20 * turn).to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{turn}: {output:?}");
        assert!(output.stderr.is_empty(), "{turn}: {output:?}");
    }
}

#[test]
fn a_program_with_the_seccomp_filters_of_hmtt_is_sampled() {
    let Some(program) = build("trace-fills", FILLS, &["-no-pie"]) else { return };
    let source = format!("{COMMON}{ALLOWS}");
    let Some(allows) = build("trace-allows", &source, &["-w"]) else { return };
    for (options, turns, output, least) in [
        (["--sample", "2ms/20ms"], "4000", "999948295\n", 2),
        (["--budget", "50%"], "again", "recorded again\n", 1),
    ] {
        let file = scratch(&format!("trace-filtered{}.acc", options[0]));
        let mut command = Command::new(&allows);
        command.arg(env!("CARGO_BIN_EXE_hmtt")).args(["trace", "run"]).args(options).arg("-o");
        let Output { status, stdout, stderr } =
            command.arg(&file).arg("--").arg(&program).arg(turns).output().unwrap();
        let error = String::from_utf8_lossy(&stderr);
        assert_eq!((status.code(), &stdout[..]), (Some(7), output.as_bytes()), "{error}");
        assert!(!error.contains("warning"), "{error}");
        assert!(check(&file) >= least);
    }
}
