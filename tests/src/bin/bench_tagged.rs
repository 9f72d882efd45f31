//! Measures programs under `hmtt tag` and under other tools, and prints Markdown tables:
//! `bench_tagged [FOLDER [PROGRAM...]]`. With programs on the command line, only the cost of
//! tagging them is measured.
//!
//! A slowdown is the ratio of the processor times of the program itself, which a preloaded library
//! reports. Tagged and untagged runs alternate, and the best run of each is used. The processor
//! time of `hmtt` itself is listed separately.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hmtt_tests::program;
use hmtt_tests::slowdown::programs::{self, Build, Program};
use hmtt_tests::slowdown::{Bench, Used, Way};

const RUNS: usize = 7;
const SLOW_RUNS: usize = 2;
const STARTS: usize = 15;

/// Measures programs with tags.
struct Tagged(Bench);

impl Tagged {
    /// Counts the calls with `hmtt tag`.
    fn calls(&self, program: &Program, size: usize) -> Result<u64> {
        let file = self.0.folder.join("counts.json");
        let mut command = Command::new(hmtt());
        command.args(["tag", "run", "--overwrite", "-o"]).arg(&file).args(&program.rules);
        command.arg("--").arg(&program.plain);
        let status = command.args(program.words(size)).stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{command:?}");
        let counts: serde_json::Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let functions = counts["functions"].as_array().context("no functions")?;
        Ok(functions.iter().filter_map(|function| function["calls"].as_u64()).sum())
    }

    fn tagging(&self, programs: &[Program]) -> Result<()> {
        let log = self.0.folder.join("log").display().to_string();
        let tag = |name, words: &[&str], size| {
            let first = [hmtt().as_str(), "tag", "run"].map(String::from);
            let words = first.into_iter().chain(words.iter().map(|word| (*word).into()));
            Way {
                name,
                words: words.chain(["--".into()]).collect(),
                build: Build::Plain,
                size,
                runs: RUNS,
            }
        };
        let counts = self.0.folder.join("counts.json").display().to_string();
        let ways = [
            tag("none", &["--sink", "none"], 0),
            tag("count", &["--overwrite", "-o", &counts], 0),
            tag("log", &["--sink", "log", "--overwrite", "-o", &log], 1),
            tag("log --no-time", &["--sink", "log", "--no-time", "--overwrite", "-o", &log], 1),
            tag("count --budget 5%", &["--budget", "5%", "--overwrite", "-o", &counts], 0),
        ];
        let mut real = vec![Vec::new(); ways.len()];
        println!("| program | calls a second | sink | slowdown | ns a call | with `hmtt` itself |");
        println!("|---|---:|---|---:|---:|---:|");
        for program in programs {
            for (way, real) in ways.iter().zip(&mut real) {
                let Some((plain, tagged)) = self.0.compare(way, program)? else { continue };
                if program.is_real {
                    real.push(tagged.own / plain.own);
                }
                let calls = self.calls(program, way.size)? as f64;
                println!(
                    "| {} | {:.1} M | {} | {:.3} | {:.2} | {:.2} |",
                    program.name,
                    calls / plain.own / 1e6,
                    way.name,
                    tagged.own / plain.own,
                    (tagged.own - plain.own) / calls * 1e9,
                    tagged.all / plain.all,
                );
            }
        }
        for (way, real) in ways.iter().zip(real).filter(|(_, real)| !real.is_empty()) {
            let mean = real.iter().sum::<f64>() / real.len() as f64;
            println!("| mean of {} real programs | | {} | {mean:.3} | | |", real.len(), way.name);
        }
        Ok(())
    }

    fn others(&self, programs: &[Program]) -> Result<()> {
        let data = self.0.folder.join("uftrace").display().to_string();
        let profile = format!("--callgrind-out-file={}/callgrind", self.0.folder.display());
        let way = |name, words: &[&str], build, size, runs| Way {
            name,
            words: words.iter().map(|word| (*word).into()).collect(),
            build,
            size,
            runs,
        };
        let mut ways = vec![way("gprof (-pg)", &[], Build::Profiled, 0, RUNS)];
        if hmtt_tests::has("uftrace") {
            let words = ["uftrace", "record", "--no-libcall", "-d", &data];
            ways.push(way("uftrace (-pg)", &words, Build::Profiled, 2, SLOW_RUNS));
        }
        if hmtt_tests::has("valgrind") {
            let words = ["valgrind", "--tool=callgrind", &profile];
            ways.push(way("callgrind", &words, Build::Plain, 2, SLOW_RUNS));
        }
        if programs.iter().any(|program| program.built(Build::Xray).is_some()) {
            let options = "patch_premain=true xray_mode=xray-basic verbosity=0 xray_logfile_base=";
            let options = format!("XRAY_OPTIONS={options}{}/xray.", self.0.folder.display());
            let words = ["env", options.as_str()];
            ways.push(way("XRay basic log", &words, Build::Xray, 2, SLOW_RUNS));
        }
        println!(
            "\n| slowdown | {} |",
            ways.iter().map(|way| way.name).collect::<Vec<_>>().join(" | ")
        );
        println!("|---|{}", "---:|".repeat(ways.len()));
        for program in programs {
            let mut row = format!("| {} |", program.name);
            for way in &ways {
                let compared = self.0.compare(way, program)?;
                let factor = |(plain, other): (Used, Used)| format!("{:.1}", other.own / plain.own);
                row = format!("{row} {} |", compared.map_or(String::new(), factor));
            }
            println!("{row}");
        }
        Ok(())
    }
}

fn hmtt() -> String {
    program("hmtt").display().to_string()
}

/// Returns the shortest run time in milliseconds.
fn fastest(words: &[&str]) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..STARTS {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        command.status()?;
        least = least.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(least)
}

/// Counts the calls in a program's code, as objdump lists them.
fn call_sites(program: &str) -> Result<usize> {
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn", program]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter(|line| line.contains("\tcall")).count())
}

/// Measures the time that tagging adds to a program that does nothing.
fn starts(folder: &Path) -> Result<()> {
    println!("\n| start | call sites | untagged, ms | none, ms more | count | log |");
    println!("|---|---:|---:|---:|---:|---:|");
    let lua = folder.join("lua").display().to_string();
    let empty = folder.join("empty.lua");
    std::fs::write(&empty, "")?;
    let empty = empty.display().to_string();
    let log = folder.join("log").display().to_string();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap_or_default();
    let python = python.display().to_string();
    let words: [&[&str]; 2] = [&[&lua, &empty, "1"], &[&python, "-S", "-E", "-c", ""]];
    for words in words.into_iter().filter(|words| Path::new(words[0]).exists()) {
        let plain = fastest(words)?;
        let hmtt = hmtt();
        let more = |sink: &[&str]| -> Result<f64> {
            Ok(fastest(&[&[hmtt.as_str(), "tag", "run"], sink, &["--"], words].concat())? - plain)
        };
        let name = Path::new(words[0]).file_name().unwrap_or_default().to_string_lossy();
        println!(
            "| {name} | {} | {plain:.1} | {:.1} | {:.1} | {:.1} |",
            call_sites(words[0])?,
            more(&["--sink", "none"])?,
            more(&["-o", "/dev/null"])?,
            more(&["--sink", "log", "--overwrite", "-o", &log])?,
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(|| "target/bench/tagged".into(), PathBuf::from);
    let only: Vec<String> = words.collect();
    let bench = Tagged(Bench::new(&folder)?);
    let mut programs = programs::all(&bench.0.folder)?;
    programs.retain(|program| only.is_empty() || only.iter().any(|name| *name == program.name));
    bench.tagging(&programs)?;
    if !only.is_empty() {
        return Ok(());
    }
    bench.others(&programs)?;
    starts(&bench.0.folder)?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nLoad of the machine at the end: {}.", load.split(' ').next().unwrap_or_default());
    Ok(())
}
