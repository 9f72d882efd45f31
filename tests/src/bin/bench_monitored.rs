//! Measures programs under `hmtt monitor` and under other tools, and prints Markdown tables:
//! `bench_monitored [FOLDER [--others] [PROGRAM...]]`. With `--others`, only other tools are
//! measured.
//!
//! The first table has the processor time of the program itself, which shows the cost of generated
//! code. The second one has the time from start to end, with translation and the monitor at work.
//! Each figure is a ratio to the plain run.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use hmtt_tests::program;
use hmtt_tests::slowdown::programs::{self, Build, Program};
use hmtt_tests::slowdown::{Bench, Used, Way};

const RUNS: usize = 3;
const SLOW_RUNS: usize = 2;
/// Index of the small amount of work, which slow tools get, in `Program::sizes`.
const SMALL: usize = 2;
/// Index of the large amount of work.
const LARGE: usize = 0;
/// Index of the amount of work that takes at least three seconds.
const LONG: usize = 3;

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
        way(name, &words, LONG, RUNS)
    };
    vec![
        run("`--translate-only`", &["--translate-only"]),
        run("`--counts-only`", &["--counts-only", "--overwrite", "-o", &profile]),
        run("`--no-superblocks`", &["--no-superblocks", "--overwrite", "-o", &profile]),
        run("`hmtt monitor run`", &["--overwrite", "-o", &profile]),
    ]
}

/// Other tools, as far as they are installed.
fn others(bench: &Bench) -> Vec<Way> {
    let callgrind = format!("--callgrind-out-file={}/callgrind", bench.folder.display());
    let tools: [(&str, &'static str, &[&str], usize); 5] = [
        ("qemu-x86_64", "QEMU user mode", &["qemu-x86_64"], LARGE),
        ("valgrind", "Valgrind, no tool", &["valgrind", "--tool=none"], LARGE),
        (
            "valgrind",
            "callgrind, each instruction",
            &["valgrind", "--tool=callgrind", "--dump-instr=yes", &callgrind],
            SMALL,
        ),
        ("drrun", "DynamoRIO", &["drrun", "--"], LONG),
        ("drrun", "DynamoRIO, bbcount", &["drrun", "-c", "libbbcount.so", "--"], LARGE),
    ];
    let installed = tools.into_iter().filter(|(command, ..)| hmtt_tests::has(command));
    installed.map(|(_, name, words, size)| way(name, words, size, SLOW_RUNS)).collect()
}

/// Selects the figure of a table.
type Figure = fn(Used) -> f64;

/// Runs all programs in all ways, and prints a table of ratios to the plain run for each kind of
/// figure.
fn tables(bench: &Bench, figures: &[(&str, Figure)], ways: &[Way], programs: &[Program]) {
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    let head = |title: &str| {
        let line = "---:|".repeat(ways.len() + 1);
        format!("\n| {title} | plain, s | {} |\n|---|{line}\n", names.join(" | "))
    };
    let mut texts: Vec<String> = figures.iter().map(|(title, _)| head(title)).collect();
    for program in programs {
        let runs: Vec<_> = ways.iter().map(|way| bench.compare(way, program)).collect();
        for ((_, figure), text) in figures.iter().zip(&mut texts) {
            let plain = runs.iter().flatten().flatten().map(|(plain, _)| figure(*plain));
            let plain = plain.fold(f64::INFINITY, f64::min);
            let _ = write!(text, "| {} | {plain:.2} |", program.name);
            for run in &runs {
                let _ = match run {
                    Ok(Some((plain, other))) => {
                        write!(text, " {:.2} |", figure(*other) / figure(*plain))
                    }
                    Ok(None) => write!(text, " |"),
                    // Another tool may not be able to run a program.
                    Err(_) => write!(text, " fails |"),
                };
            }
            text.push('\n');
        }
        for (way, run) in ways.iter().zip(runs) {
            if let Err(error) = run {
                eprintln!("{}: {}: {error:#}", way.name, program.name);
            }
        }
    }
    texts.iter().for_each(|text| print!("{text}"));
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(|| "target/bench/monitored".into(), PathBuf::from);
    let (options, only): (Vec<String>, Vec<String>) =
        words.partition(|word| word.starts_with("--"));
    let measures_ours = !options.iter().any(|option| option == "--others");
    let bench = Bench::new(&folder)?;
    let mut programs = programs::all(&bench.folder)?;
    match programs::compiler(&bench.folder) {
        Ok(program) => programs.push(program),
        Err(error) => eprintln!("skipped: {error:#}"),
    }
    // The rules of a program select functions for tags, so they are not used here.
    programs.iter_mut().for_each(|program| program.rules.clear());
    programs.retain(|program| only.is_empty() || only.iter().any(|name| *name == program.name));
    let own: (&str, Figure) = ("processor time of the program", |used| used.own);
    let wall: (&str, Figure) = ("time from start to end", |used| used.wall);
    if measures_ours {
        tables(&bench, &[own, wall], &ours(&bench), &programs);
    }
    tables(&bench, &[wall], &others(&bench), &programs);
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nLoad of the machine at the end: {}.", load.split(' ').next().unwrap_or_default());
    Ok(())
}
