//! Measures programs under `hmtt trace`, and prints Markdown tables: `bench_traced [FOLDER
//! [PROGRAM...]]`.
//!
//! The first table has the time from start to end, divided by the time of the plain run. Each way
//! is run once, right after a plain run of at least three seconds. The second table has the size of
//! a trace and the speed of reading it, for less work, because `hmtt info` reads each access.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hmtt_tests::program;
use hmtt_tests::slowdown::programs::{self, Build, Program};
use hmtt_tests::slowdown::{Bench, Way};

const PROGRAMS: [&str; 3] = ["lua", "bzip2", "sqlite3"];
const WAYS: [(&str, &[&str]); 12] = [
    ("all accesses", &[]),
    ("`--omega 100%`", &["--omega", "100%"]),
    ("50 %", &["--omega", "50%"]),
    ("25 %", &["--omega", "25%"]),
    ("10 %", &["--omega", "10%"]),
    ("100 % of superblocks", &["--omega", "100%", "--scope", "superblock"]),
    ("50 % of superblocks", &["--omega", "50%", "--scope", "superblock"]),
    ("25 % of superblocks", &["--omega", "25%", "--scope", "superblock"]),
    ("10 % of superblocks", &["--omega", "10%", "--scope", "superblock"]),
    ("`--full drop`", &["--full", "drop"]),
    ("`--sample 100ms/900ms`", &["--sample", "100ms/900ms"]),
    ("`--budget 50%`", &["--budget", "50%"]),
];
/// Index of the small amount of work in `Program::sizes`.
const SMALL: usize = 2;
/// Index of the amount of work that takes at least three seconds.
const LONG: usize = 3;

/// Words of a command that records a program to a file.
fn recorded(file: &str, options: &[&str]) -> Vec<String> {
    let hmtt = program("hmtt").display().to_string();
    let words = [&[hmtt.as_str(), "trace", "run", "--overwrite", "-o", file], options, &["--"]];
    words.concat().into_iter().map(String::from).collect()
}

/// Prints the ratios of a program.
fn ratios(bench: &Bench, program: &Program, file: &str) -> Result<()> {
    let mut cells = Vec::new();
    let mut least = f64::INFINITY;
    for (name, options) in WAYS {
        let words = recorded(file, options);
        let way = Way { name, words, build: Build::Plain, size: LONG, runs: 1 };
        let (plain, traced) = bench.compare(&way, program)?.context("the plain build exists")?;
        least = least.min(plain.wall);
        cells.push(format!("{:.2}", traced.wall / plain.wall));
    }
    println!("| {} | {least:.2} | {} |", program.name, cells.join(" | "));
    Ok(())
}

/// Prints the size of a trace, and how fast it is read.
fn size(program: &Program, file: &str) -> Result<()> {
    let words = [recorded(file, &[]), vec![program.plain.display().to_string()]].concat();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(program.words(SMALL)).stdout(Stdio::null());
    ensure!(command.status()?.success(), "{command:?}");
    let begin = Instant::now();
    let mut info = Command::new(hmtt_tests::program("hmtt"));
    let output = info.args(["info", "--json", file]).output()?;
    let seconds = begin.elapsed().as_secs_f64();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| info[name].as_f64().with_context(|| format!("{name}: {info}"));
    let (accesses, bytes) = (number("accesses")?, number("file_bytes")?);
    let (millions, each) = (accesses / 1e6, bytes / accesses);
    println!("| {} | {millions:.1} | {each:.3} | {:.1} |", program.name, millions / seconds);
    Ok(())
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(|| "target/bench/monitored".into(), PathBuf::from);
    let only: Vec<String> = words.collect();
    let bench = Bench::new(&folder)?;
    let mut programs = programs::all(&bench.folder)?;
    // The rules of a program select functions for tags, so they are not used here.
    programs.iter_mut().for_each(|program| program.rules.clear());
    let is_wanted = |name: &str| {
        if only.is_empty() { PROGRAMS.contains(&name) } else { only.iter().any(|one| one == name) }
    };
    programs.retain(|program| is_wanted(program.name));
    let file = bench.folder.join("traced.acc").display().to_string();
    let names = WAYS.map(|(name, _)| name).join(" | ");
    println!("| time from start to end | plain, s | {names} |");
    println!("|---|---:|{}", "---:|".repeat(WAYS.len()));
    programs.iter().try_for_each(|program| ratios(&bench, program, &file))?;
    println!("\n| trace | accesses, M | bytes an access | `hmtt info` reads, M accesses/s |");
    println!("|---|---:|---:|---:|");
    programs.iter().try_for_each(|program| size(program, &file))?;
    std::fs::remove_file(&file)?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nLoad of the machine at the end: {}.", load.split(' ').next().unwrap_or_default());
    Ok(())
}
