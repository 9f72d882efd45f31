//! Tests maps of pages: of real processes, beside a reader in Python, and in analyses of physical
//! addresses.

pub mod maps;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use hmtt_files::page_map::{
    Chunk, Ending, Entry, Machine, Mapping, Place, Process, Scan, Snapshot, Writer,
};
use hmtt_test_support::names::{assert_documented, assert_json_documented};
use hmtt_test_support::programs::transcript;
use serde_json::Value;

use crate::card::Card;
use crate::command_line::check;
use crate::{capture_file, hmtt, scratch, skipped, wait_for};

const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/readers/pagemap_reader.py");
/// Prints the address of a page of each kind, and then waits for the end of its input.
const PROGRAM: &str = r#"
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **names) {
    int file = open(names[1], O_RDWR);
    char stack[8192], *heap = sbrk(1 << 16);
    char *mapped = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *copied = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    char *own = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(stack, 1, sizeof stack);
    memset(heap, 1, 1 << 16);
    memset(own, 1, 1 << 20);
    mapped[0] = 1;
    copied[0] = 1;
    printf("%p %p %p %p %p\n", (void *)stack, (void *)heap, (void *)mapped, (void *)copied, (void *)own);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return stack[100] == 2;
}
"#;

/// A running program with pages of all kinds.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    /// Addresses on the stack and the heap, in a shared and a private mapping of a file, and in
    /// anonymous memory.
    addresses: Vec<u64>,
    file: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Starts the program; `None` if frames are not shown here, or there is no compiler.
fn start(name: &str) -> Option<Running> {
    if !hmtt_probe::pages::shows_frames().unwrap_or(false) {
        skipped("the kernel does not show frames to this process");
        return None;
    }
    let (source, program) = (scratch(&format!("{name}.c")), scratch(&format!("{name}-program")));
    let file = scratch(&format!("{name}-mapped, \"file\""));
    std::fs::write(&source, PROGRAM).unwrap();
    std::fs::write(&file, [7; 8192]).unwrap();
    let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        skipped("cc");
        return None;
    }
    let mut child = Command::new(&program)
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let addresses = line.split_whitespace().map(number).collect();
    let input = child.stdin.take();
    Some(Running { child, input, addresses, file })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn python(words: &[&str]) -> String {
    let output = Command::new("python3").arg(READER).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_slice(&hmtt(words).stdout).unwrap()
}

/// Frames of addresses of a process, as the reader in Python sees them.
fn frames(pid: u32, addresses: &[u64]) -> Vec<u64> {
    let mut words = vec!["frames".to_owned(), pid.to_string()];
    words.extend(addresses.iter().map(|address| format!("{address:x}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    python(&words).lines().map(|line| line.parse().unwrap()).collect()
}

/// A table of accesses to physical addresses.
fn table(name: &str, addresses: impl IntoIterator<Item = u64>) -> PathBuf {
    let mut rows = String::from("clock,direction,address\n");
    for (clock, address) in addresses.into_iter().enumerate() {
        rows += &format!("{clock},R,{address:x}\n");
    }
    let file = scratch(name);
    std::fs::write(&file, rows).unwrap();
    file
}

#[test]
fn accesses_resolve_to_the_pages_of_a_real_process() {
    let Some(running) = start("pagemap-real") else { return };
    let (pid, map) = (running.child.id(), scratch("pagemap-real.map"));
    let output = hmtt(&["pagemap", "record", "--pid", &pid.to_string(), "-o", text(&map)]);
    assert_eq!(exit_code(&output), 0, "{}", errors(&output));
    let mode = std::fs::metadata(&map).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others must not learn the frames");
    let expected = frames(pid, &running.addresses);
    assert!(expected.iter().all(|frame| *frame > 0), "{expected:?}");

    let offset = 0x40;
    let physical = expected.iter().map(|frame| frame << 12 | offset);
    let accesses = table("pagemap-real.csv", physical.chain([1 << 45]));
    let document = json(&["hot", "--json", "--pagemap", text(&map), text(&accesses)]);
    assert_json_documented("hmtt hot --pagemap", &document);
    let pages = document["hot"]["hot_pages"].as_array().unwrap();
    let file = running.file.to_str().unwrap();
    let copy = format!("{file} (copy)");
    let names = ["[stack]", "[heap]", file, &copy, "anonymous"];
    for ((frame, address), name) in expected.iter().zip(&running.addresses).zip(names) {
        let page =
            pages.iter().find(|page| page["address"] == format!("{:#x}", frame << 12)).unwrap();
        assert_eq!((&page["owner"], &page["pid"]), (&"resolved".into(), &pid.into()), "{page}");
        assert_eq!(page["mapping"], name, "{page}");
        assert_eq!(page["virtual_address"], format!("{:#x}", address >> 12 << 12), "{page}");
    }
    let lines = document["hot"]["hot_lines"].as_array().unwrap();
    let line = format!("{:#x}", running.addresses[4] >> 12 << 12 | offset);
    assert!(lines.iter().any(|one| one["virtual_address"] == line), "{lines:?}");
    let sums = &document["page_map"];
    assert_eq!((&sums["resolved_accesses"], &sums["unresolved_accesses"]), (&5.into(), &1.into()));
    assert_eq!(sums["processes"][0]["accesses"], 5);
    assert_eq!(sums["mappings"].as_array().unwrap().len(), 5);

    // All pages of the map are those that the reader in Python finds.
    let csv = scratch("pagemap-real-pages.csv");
    assert_eq!(exit_code(&hmtt(&["pagemap", "convert", text(&map), text(&csv)])), 0);
    let rows = std::fs::read_to_string(&csv).unwrap();
    let (heading, rows) = rows.split_once('\n').unwrap();
    assert_documented("hmtt pagemap convert", heading.split(','));
    let hexadecimal =
        |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap();
    let runs: Vec<(u64, u64)> = rows
        .lines()
        .map(|row| row.split(',').collect::<Vec<_>>())
        .map(|row| (hexadecimal(row[2]), hexadecimal(row[3]) >> 12))
        .collect();
    assert!(runs.len() > 10);
    let addresses: Vec<u64> = runs.iter().map(|(address, _)| *address).collect();
    assert_eq!(frames(pid, &addresses), runs.iter().map(|(_, frame)| *frame).collect::<Vec<_>>());
}

#[test]
fn polling_follows_a_process_to_its_end() {
    let Some(mut running) = start("pagemap-polled") else { return };
    let (pid, map) = (running.child.id(), scratch("pagemap-polled.map"));
    let before = frames(pid, &running.addresses);
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_hmtt"))
        .args([
            "pagemap",
            "record",
            "--pid",
            &pid.to_string(),
            "--every",
            "5ms",
            "--for",
            "60s",
            "-o",
        ])
        .arg(&map)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Two snapshots at least, of which each is whole once it is in the file.
    wait_for(&mut recorder, "two snapshots are there", || {
        json_of(&map).is_some_and(|info| info["snapshot_count"].as_u64() >= Some(2))
    });
    let mut input = running.input.take().unwrap();
    input.write_all(b"\n").unwrap();
    drop(input);
    running.child.wait().unwrap();
    let status = recorder.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    let info = json_of(&map).unwrap();
    assert_json_documented("hmtt pagemap info", &info);
    assert_eq!((&info["ending"], &info["complete"]), (&"processes_ended".into(), &true.into()));
    assert_eq!(info["processes"][0]["pid"], pid);
    assert!(info["longest_stale_ns"].as_u64().unwrap() >= 5_000_000, "{info}");
    assert!(info["longest_scan_ns"].as_u64().unwrap() > 0);
    // In the last snapshot the process is gone, so none of its frames is its throughout.
    let accesses = table("pagemap-polled.csv", before.iter().map(|frame| frame << 12));
    let sums =
        json(&["stats", "--json", "--pagemap", text(&map), text(&accesses)])["page_map"].clone();
    assert_eq!(sums["ambiguous_accesses"], before.len());
}

/// The description of a map, once there is one.
fn json_of(map: &Path) -> Option<Value> {
    serde_json::from_slice(&hmtt(&["pagemap", "info", "--json", text(map)]).stdout).ok()
}

#[test]
fn all_processes_are_recorded() {
    let Some(running) = start("pagemap-all") else { return };
    let map = scratch("pagemap-all.map");
    let output = hmtt(&["pagemap", "record", "--all", "-o", text(&map)]);
    let info = json(&["pagemap", "info", "--json", text(&map)]);
    // Some systems protect processes from root, too.
    let expected = if info["unread_processes"] == 0 { 0 } else { 3 };
    assert_eq!(exit_code(&output), expected, "{}", errors(&output));
    let processes = info["processes"].as_array().unwrap();
    for pid in [running.child.id(), std::process::id()] {
        assert!(processes.iter().any(|process| process["pid"] == pid), "{pid}");
    }
    let shown = hmtt(&["pagemap", "info", text(&map)]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn processes_that_cannot_be_recorded_are_named() {
    let map = scratch("pagemap-none.map");
    let output = hmtt(&["pagemap", "record", "--pid", "2147483647", "-o", text(&map)]);
    assert_eq!(exit_code(&output), 1);
    let is_shown = hmtt_probe::pages::shows_frames().unwrap_or(false);
    let expected = if is_shown { "there is no process 2147483647" } else { "CAP_SYS_ADMIN" };
    assert!(errors(&output).contains(expected), "{}", errors(&output));
    assert!(!map.exists());
    // An old map stays as it was.
    std::fs::write(&map, "old").unwrap();
    let words = ["pagemap", "record", "--pid", "2147483647", "--overwrite", "-o", text(&map)];
    assert_eq!(exit_code(&hmtt(&words)), 1);
    assert_eq!(std::fs::read(&map).unwrap(), b"old");
}

#[test]
fn without_the_capability_it_is_named() {
    let map = scratch("pagemap-unprivileged.map");
    let words = ["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", env!("CARGO_BIN_EXE_hmtt")];
    let own = ["pagemap", "record", "--all", "-o", text(&map)];
    match Command::new("setpriv").args(words).args(own).output() {
        Ok(output) if !errors(&output).contains("setpriv:") => {
            assert_eq!(exit_code(&output), 1);
            assert!(
                errors(&output).contains("need the capability CAP_SYS_ADMIN"),
                "{}",
                errors(&output)
            );
            assert!(!map.exists());
        }
        _ => skipped("setpriv"),
    }
}
