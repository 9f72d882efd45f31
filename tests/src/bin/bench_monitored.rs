//! Measures programs under `hmtt monitor` and under other tools, and prints Markdown tables: `bench_monitored [FOLDER
//! [PROGRAM...]]`.
//!
//! The first table has the processor time of the program itself, which shows what generated code costs. The second one
//! has the time from start to end, with translation and the monitor at work. Each figure is a ratio to the plain run.

use std::path::PathBuf;

use anyhow::Result;
use hmtt_tests::program;
use hmtt_tests::slowdown::programs::{self, Build, Program};
use hmtt_tests::slowdown::{Bench, Used, Way};

const RUNS: usize = 5;
const SLOW_RUNS: usize = 2;

/// A way to run the plain build of a program.
fn way(name: &'static str, words: &[&str], size: usize, runs: usize) -> Way {
    let words = words.iter().map(|word| (*word).into()).collect();
    Way { name, words, build: Build::Plain, size, runs }
}

/// The ways of this project.
fn ours(bench: &Bench) -> Vec<Way> {
    let hmtt = program("hmtt").display().to_string();
    let profile = bench.folder.join("profile.json").display().to_string();
    let run = |name, options: &[&str]| {
        let words = [&[hmtt.as_str(), "monitor", "run"], options, &["--"]].concat();
        way(name, &words, 0, RUNS)
    };
    vec![
        run("`--translate-only`", &["--translate-only"]),
        run("`--counts-only`", &["--counts-only", "--overwrite", "-o", &profile]),
        run("`hmtt monitor run`", &["--overwrite", "-o", &profile]),
    ]
}

/// Tools of others, as far as they are installed.
fn others(bench: &Bench) -> Vec<Way> {
    let callgrind = format!("--callgrind-out-file={}/callgrind", bench.folder.display());
    let all: [(&str, &'static str, &[&str], usize); 5] = [
        ("qemu-x86_64", "QEMU user mode", &["qemu-x86_64"], 1),
        ("valgrind", "Valgrind, no tool", &["valgrind", "--tool=none"], 1),
        (
            "valgrind",
            "callgrind, each instruction",
            &["valgrind", "--tool=callgrind", "--dump-instr=yes", &callgrind],
            2,
        ),
        ("drrun", "DynamoRIO", &["drrun", "--"], 0),
        ("drrun", "DynamoRIO, bbcount", &["drrun", "-c", "libbbcount.so", "--"], 1),
    ];
    let found = all.into_iter().filter(|(command, ..)| hmtt_tests::has(command));
    found.map(|(_, name, words, size)| way(name, words, size, SLOW_RUNS)).collect()
}

/// Prints a table of ratios to the plain run.
fn table(
    bench: &Bench,
    title: &str,
    ways: &[Way],
    programs: &[Program],
    figure: fn(Used) -> f64,
) -> Result<()> {
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    println!("\n| {title} | {} |", names.join(" | "));
    println!("|---|{}", "---:|".repeat(ways.len()));
    for program in programs {
        let mut row = format!("| {} |", program.name);
        for way in ways {
            let ratio = match bench.compare(way, program) {
                Ok(Some((plain, other))) => format!("{:.2}", figure(other) / figure(plain)),
                Ok(None) => String::new(),
                // A tool of others may not run a program at all.
                Err(error) => {
                    eprintln!("{}: {}: {error:#}", way.name, program.name);
                    "fails".to_owned()
                }
            };
            row = format!("{row} {ratio} |");
        }
        println!("{row}");
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(|| "target/bench/monitored".into(), PathBuf::from);
    let only: Vec<String> = words.collect();
    let bench = Bench::new(&folder)?;
    let mut programs = programs::all(&bench.folder)?;
    // Rules are those of tags, which select functions.
    programs.iter_mut().for_each(|program| program.rules.clear());
    programs.retain(|program| only.is_empty() || only.iter().any(|name| *name == program.name));
    let ours = ours(&bench);
    table(&bench, "processor time of the program", &ours, &programs, |used| used.own)?;
    table(&bench, "time from start to end", &ours, &programs, |used| used.wall)?;
    table(&bench, "time from start to end", &others(&bench), &programs, |used| used.wall)?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nLoad of the machine at the end: {}.", load.split(' ').next().unwrap_or_default());
    Ok(())
}
