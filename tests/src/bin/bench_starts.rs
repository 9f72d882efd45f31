//! Measures how long programs take to start under `hmtt monitor`, and prints a Markdown table:
//! `bench_starts [RUNS]`.
//!
//! A start lasts from the command to the first byte that the program writes. The first starts have
//! no lists of executed blocks, the second starts have the lists of an earlier run. The ways
//! alternate, and the shortest of several times is used.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hmtt_tests::program;

const RUNS: usize = 15;
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("echo", &["/bin/echo", "1"]),
    ("sqlite3", &["sqlite3", ":memory:", "SELECT 1"]),
    ("perl", &["perl", "-e", "print 1"]),
    ("git", &["git", "--version"]),
    ("python3", &["/usr/bin/python3", "-c", "print(1)"]),
];

/// Milliseconds from the start of a command to its first byte.
fn first_byte(words: &[&str]) -> Result<f64> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| words[0].to_owned())?;
    let mut output = child.stdout.take().context("it is a pipe")?;
    output.read_exact(&mut [0]).with_context(|| format!("{words:?}"))?;
    let time = begin.elapsed();
    output.read_to_end(&mut Vec::new())?;
    ensure!(child.wait()?.success(), "{words:?}");
    Ok(time.as_secs_f64() * 1e3)
}

fn main() -> Result<()> {
    let runs = std::env::args().nth(1).map_or(Ok(RUNS), |runs| runs.parse())?;
    let folder = std::env::temp_dir().join(format!("hmtt-starts-{}", std::process::id()));
    let (lists, profile) = (folder.join("lists"), folder.join("profile.json"));
    std::fs::create_dir_all(&folder)?;
    let [lists, profile] = [lists, profile].map(|path| path.display().to_string());
    let hmtt = program("hmtt").display().to_string();
    let monitor = [hmtt.as_str(), "monitor", "run"];
    let only = ["--translate-only"];
    let options = ["--overwrite", "-o", &profile];
    let (with, without) = (["--block-lists", &lists, "--"], ["--no-block-lists", "--"]);
    println!(
        "| program | plain, ms | {} |",
        ["`--translate-only`, first", "second", "`hmtt monitor run`, first", "second",].join(" | ")
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, words) in PROGRAMS {
        let ways = [
            words.to_vec(),
            [&monitor[..], &only, &without, words].concat(),
            [&monitor[..], &only, &with, words].concat(),
            [&monitor[..], &options, &without, words].concat(),
            [&monitor[..], &options, &with, words].concat(),
        ];
        // This run writes the lists.
        first_byte(&ways[4])?;
        let mut least = [f64::INFINITY; 5];
        for _ in 0..runs {
            for (way, least) in ways.iter().zip(&mut least) {
                *least = least.min(first_byte(way)?);
            }
        }
        let times: Vec<String> = least.iter().map(|time| format!("{time:.1}")).collect();
        println!("| {name} | {} |", times.join(" | "));
    }
    std::fs::remove_dir_all(&folder)?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("\nLoad of the machine at the end: {}.", load.split(' ').next().unwrap_or_default());
    Ok(())
}
