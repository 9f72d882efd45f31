//! Tests `hmtt trace` where accesses are missing: gaps are placed and counted, and what is there is
//! exact.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tag::build;
use crate::trace_selected::info;
use crate::{hmtt, scratch, skipped};

const BUSY: &str = include_str!("monitor/busy.c");
/// A loop whose block writes its number and one slot: two units, of which each has two words.
const LOOP: &str = "
static volatile long counted[512];

__attribute__((noinline, noclone)) static void counts(long times) {
    __asm__ volatile(\"1: addq $1, (%0)\\n dec %1\\n jnz 1b\" : : \"r\"(counted), \"r\"(times) : \"memory\", \"cc\");
}

int main(void) {
    counts(TIMES);
    return counted[0] != TIMES;
}
";
const WORDS_PER_BLOCK: u64 = 4;

/// Writes of a function of a trace.
fn writes(info: &Value, function: &str) -> u64 {
    let functions = info["functions"].as_array().unwrap();
    let entry = functions.iter().find(|one| one["function"] == function);
    entry.map_or(0, |one| one["writes"].as_u64().unwrap())
}

/// Traces the loop, whose rings drop what they cannot take. Returns the file, unless nothing was
/// dropped.
fn dropped(times: u64) -> Option<PathBuf> {
    let source = LOOP.replace("TIMES", &times.to_string());
    let program = build(&format!("trace-loop-{times}"), &source, &["-no-pie"])?;
    let file = scratch("trace-dropped.acc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--full", "drop", "--no-superblocks", "--overwrite", "-o"]);
    let traced = command.arg(&file).arg("--").arg(&program).output().unwrap();
    let error = String::from_utf8_lossy(&traced.stderr);
    if traced.status.code() == Some(0) {
        assert_eq!(error, "");
        return None;
    }
    assert_eq!(traced.status.code(), Some(3), "{error}");
    assert!(error.contains("words about accesses were dropped because rings were full"), "{error}");
    Some(file)
}

#[test]
fn dropped_chunks_are_placed_and_counted() {
    // The loop fills rings faster than they can be read, unless there are many processors.
    let recording =
        [4_000_000, 64_000_000].into_iter().find_map(|times| Some((times, dropped(times)?)));
    let Some((times, file)) = recording else { return skipped("rings were never full") };
    let info = info(&file);
    let dropped = info["dropped_words"].as_u64().unwrap();
    // Blocks of nothing else are lost: the ring is empty when the loop begins.
    let lost = times - writes(&info, "counts");
    assert!(lost > 0);
    assert_eq!(dropped, WORDS_PER_BLOCK * lost);

    let decoded = hmtt(&["decode", file.to_str().unwrap()]);
    assert_eq!(decoded.status.code(), Some(3));
    let text = String::from_utf8(decoded.stdout).unwrap();
    let gap = |line: &str| {
        let line = line.strip_prefix("# thread ")?;
        let words = line.split_once(" has dropped ")?.1;
        words.split_once(" words here")?.0.parse::<u64>().ok()
    };
    let gaps: Vec<u64> = text.lines().filter_map(gap).collect();
    assert_eq!(gaps.iter().sum::<u64>(), dropped, "{gaps:?}");
    // The program's start and end are there.
    let is_access = |line: &&str| !line.starts_with('#');
    assert!(text.lines().take(20_000).all(|line| is_access(&line)));
    let last = text.lines().rfind(is_access).unwrap();
    assert!(!last.ends_with(" in counts"), "{last}");
}

#[test]
fn a_trace_whose_writer_is_killed_is_read_to_its_last_chunk() {
    let Some(program) = build("trace-busy", BUSY, &[]) else { return };
    let words = ["signals", "300"];
    let plain = Command::new(&program).args(words).output().unwrap();
    let file = scratch("trace-killed.acc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--overwrite", "-o"]).arg(&file).arg("--").arg(&program);
    let mut tracer = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    // Descriptions of blocks alone have less.
    let has_chunks = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 400_000);
    while !has_chunks() && begin.elapsed() < Duration::from_secs(60) {
        if tracer.try_wait().unwrap().is_some() {
            return skipped("the program ended before it could be killed");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    tracer.kill().unwrap();
    // The program goes on, and has its output until it ends.
    let output = tracer.wait_with_output().unwrap();
    assert_eq!(output.stdout, plain.stdout);
    let cut = hmtt(&["info", "--json", file.to_str().unwrap()]);
    assert_eq!(cut.status.code(), Some(3));
    let info: Value = serde_json::from_slice(&cut.stdout).unwrap();
    assert_eq!(info["cut"], true);
    assert!(info["accesses"].as_u64() > Some(10_000), "{info}");
}
