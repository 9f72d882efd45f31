//! Tests the symbols of code caches for perf(1), and that perf finds them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{BUSY, hmtt_monitor};
use crate::tag::build;
use crate::{scratch, skipped};

const WORKS: &str = include_str!("perf_map.c");

fn map_of(pid: &str) -> PathBuf {
    format!("/tmp/perf-{pid}.map").into()
}

/// Number of the process that has printed it.
fn pid_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Symbols of a process, whose file is removed.
fn symbols(pid: &str) -> Vec<(Range<u64>, String)> {
    let text = std::fs::read_to_string(map_of(pid)).unwrap();
    std::fs::remove_file(map_of(pid)).unwrap();
    let parse = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next().unwrap(), 16).unwrap();
        let (start, size) = (number(), number());
        assert!(size > 0, "{line}");
        (start..start + size, words.next().unwrap().to_owned())
    };
    text.lines().map(parse).collect()
}

fn run(program: &Path, words: &[&str]) -> Output {
    let mut command = hmtt_monitor(&["run", "--perf-map", "-o", "/dev/null", "--"]);
    command.arg(program).args(words).output().unwrap()
}

#[test]
fn symbols_do_not_overlap_and_have_names_of_functions() {
    let Some(program) = build("monitor-perf-map", WORKS, &[]) else { return };
    let output = run(&program, &[]);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let mut symbols = symbols(&pid_of(&output));
    symbols.sort_by_key(|(range, _)| range.start);
    assert!(symbols.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
    for wanted in ["works+0x0", "main+0x0", "[hmtt stubs]"] {
        assert!(symbols.iter().any(|(_, name)| name == wanted), "{wanted}");
    }
    let is_superblock = |name: &str| name.starts_with("works+") && name.ends_with(" [superblock]");
    assert!(symbols.iter().any(|(_, name)| is_superblock(name)));
}

#[test]
fn a_map_of_the_program_is_left_alone() {
    let Some(program) = build("monitor-perf-map", WORKS, &[]) else { return };
    let output = run(&program, &["own"]);
    let map = map_of(&pid_of(&output));
    let (kept, error) = (std::fs::read(&map), String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(&map).unwrap();
    assert_eq!(kept.unwrap(), b"1000 10 own\n");
    assert_eq!(output.status.code(), Some(7), "{error}");
    assert!(
        error.contains(&format!("cannot create its {}: File exists", map.display())),
        "{error}"
    );
}

#[test]
fn a_process_with_a_map_is_not_attached_to() {
    let Some(program) = build("monitor-busy", BUSY, &[]) else { return };
    let mut busy = Command::new(program);
    let mut running = busy.args(["signals", "20"]).stdout(Stdio::null()).spawn().unwrap();
    let (pid, map) = (running.id().to_string(), map_of(&running.id().to_string()));
    std::fs::write(&map, "1000 10 own\n").unwrap();
    let attached = hmtt_monitor(&["attach", "--perf-map", "-o", "/dev/null", &pid]).output();
    let (kept, ended) = (std::fs::read(&map).unwrap(), running.wait().unwrap());
    std::fs::remove_file(&map).unwrap();
    assert_eq!(kept, b"1000 10 own\n");
    assert!(ended.code().is_some(), "{ended}");
    let attached = attached.unwrap();
    let error = String::from_utf8_lossy(&attached.stderr);
    assert_eq!(attached.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("cannot create its {}: File exists", map.display())),
        "{error}"
    );
}

#[test]
fn perf_attributes_samples_in_the_cache_to_functions() {
    let Some(program) = build("monitor-perf-map", WORKS, &[]) else { return };
    let data = scratch("monitor-perf-map.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "-e", "cpu-clock:u", "-o"]).arg(&data).arg("--");
    let monitor = hmtt_monitor(&["run", "--perf-map", "-o", "/dev/null", "--"]);
    perf.arg(monitor.get_program()).args(monitor.get_args()).arg(&program);
    let output = match perf.output() {
        Err(error) => return skipped(format!("perf: {error}")),
        Ok(output) if output.status.code() != Some(7) => {
            return skipped(format!("perf: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(output) => output,
    };
    let mut script = Command::new("perf");
    script.args(["script", "-F", "pid,ip,sym,dso", "-i"]).arg(&data);
    let script = script.output().unwrap();
    let pid = pid_of(&output);
    std::fs::remove_file(map_of(&pid)).unwrap();
    let text = String::from_utf8_lossy(&script.stdout);
    let own: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with(&pid)).collect();
    let cached: Vec<&&str> = own.iter().filter(|line| line.contains("perf-")).collect();
    let works = cached.iter().filter(|line| line.contains(" works+0x")).count();
    assert!(own.len() > 100 && works * 2 > own.len(), "{works} of {}: {text}", own.len());
    let unknown = cached.iter().filter(|line| line.contains("[unknown]")).count();
    assert_eq!(unknown, 0, "{text}");
    assert!(!text.contains("memfd:"), "{text}");
}

#[test]
fn each_process_has_the_symbols_of_its_last_program() {
    let Some(program) = build("monitor-perf-map", WORKS, &[]) else { return };
    let mut command = hmtt_monitor(&["run", "-f", "--perf-map", "--", "sh", "-c", "$0; exec $0"]);
    let output = command.arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let pids: Vec<&str> = text.lines().collect();
    assert_eq!(pids.len(), 2, "{text}");
    for pid in pids {
        let symbols = symbols(pid);
        assert!(symbols.iter().any(|(_, name)| name.starts_with("works+0x")), "{pid}");
    }
}
