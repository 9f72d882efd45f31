//! Compares selective traces of programs with full ones, and prints a Markdown table:
//! `bench_selected [FOLDER [PROGRAM...]]`.
//!
//! Each program is traced once with all accesses, without address randomisation, and `hmtt trace
//! evaluate` computes the results of other settings. Charts are written to
//! FOLDER/selective-traces.svg and FOLDER/selective-misses.svg.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hmtt_tests::charts::{Line, Vertical, svg};
use hmtt_tests::program;
use hmtt_tests::slowdown::programs::{self, Build};
use serde_json::Value;

/// Programs of this project, with their amount of work.
const KERNELS: [(&str, &str); 5] = [
    ("options", "20000"),
    ("swaptions", "500"),
    ("particles", "4000"),
    ("itemsets", "2000"),
    ("placement", "20000"),
];
/// Other programs.
const OTHERS: [&str; 4] = ["lua", "bzip2", "sqlite3", "xz"];
/// Index of the amount of work of other programs in `Program::sizes`: the small one.
const SMALL: usize = 2;
/// Shares that are compared, in percent.
const SHARES: [u64; 5] = [10, 25, 50, 75, 100];
/// Sizes of chunks that are compared, in bytes.
const CHUNKS: [u64; 3] = [16, 64, 4096];
/// The chunk size in the chart, and in columns that hardly depend on the chunk size.
const LINE: u64 = 64;

/// A program to be traced, with its arguments.
struct Traced {
    name: String,
    words: Vec<String>,
}

/// The results of `hmtt trace evaluate` for a program.
struct Evaluated {
    name: String,
    value: Value,
}

/// Builds the programs of this project.
fn kernels(folder: &Path) -> Result<Vec<Traced>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/kernels");
    let build = |(name, size): (&str, &str)| {
        let program = folder.join(name);
        let mut command = Command::new("cc");
        command.args(["-O2", "-o"]).arg(&program).arg(source.join(format!("{name}.c"))).arg("-lm");
        ensure!(command.status().context("cc")?.success(), "{command:?}");
        Ok(Traced { name: name.into(), words: vec![program.display().to_string(), size.into()] })
    };
    KERNELS.into_iter().map(build).collect()
}

/// Other programs, as far as they are installed.
fn others(folder: &Path) -> Result<Vec<Traced>> {
    let available = programs::all(folder)?;
    let wanted = available.iter().filter(|one| OTHERS.contains(&one.name));
    let traced = |program: &programs::Program| {
        let path = program.built(Build::Plain)?.display().to_string();
        let words = [vec![path], program.words(SMALL)].concat();
        Some(Traced { name: program.name.into(), words })
    };
    Ok(wanted.filter_map(traced).collect())
}

/// Traces a program, and evaluates the trace.
fn evaluate(folder: &Path, Traced { name, words }: Traced) -> Result<Evaluated> {
    let (hmtt, file) = (program("hmtt"), folder.join("full.acc"));
    // Without address randomisation the stack has the same address in each run. The address of the
    // stack decides which accesses are in one chunk.
    let mut run = Command::new("setarch");
    run.arg("-R").arg(&hmtt).args(["trace", "run", "--overwrite", "-o"]).arg(&file);
    run.arg("--").args(&words).current_dir(folder).env_clear().stdout(Stdio::null());
    ensure!(run.status().context("setarch")?.success(), "{run:?}");
    let mut evaluate = Command::new(&hmtt);
    let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    evaluate.args(["trace", "evaluate", "--json"]).arg(&file).args(["--omega", &list(&SHARES)]);
    evaluate.args(["--chunk", &list(&CHUNKS), "--cache"]);
    let output = evaluate.output()?;
    ensure!(output.status.success(), "{evaluate:?}: {output:?}");
    std::fs::remove_file(&file)?;
    Ok(Evaluated { name, value: serde_json::from_slice(&output.stdout)? })
}

impl Evaluated {
    fn setting(&self, share: u64, chunk: u64) -> &Value {
        let settings = self.value["settings"].as_array().map_or(&[][..], Vec::as_slice);
        let is_wanted = |one: &&Value| one["omega_percent"] == share && one["chunk_bytes"] == chunk;
        settings.iter().find(is_wanted).unwrap_or(&Value::Null)
    }

    /// A number from the evaluation of a setting.
    fn number(&self, name: &str, share: u64, chunk: u64) -> Option<f64> {
        self.setting(share, chunk)[name].as_f64()
    }

    /// The share of accesses whose address is known, or whose chunk contains a recorded access.
    fn known(&self, share: u64, chunk: u64) -> Option<f64> {
        let number = |name: &str| self.number(name, share, chunk);
        let known = number("represented_accesses")? + number("near_accesses")?;
        Some((known - number("false_accesses")?) / number("all_accesses")?)
    }

    /// Returns the rows of a program in the table.
    fn rows(&self) -> String {
        let row = |share: u64| {
            let cell = |name: &str| percent(self.number(name, share, LINE));
            let each = |figure: &dyn Fn(u64) -> Option<f64>| {
                CHUNKS.map(|chunk| percent(figure(chunk))).join(" / ")
            };
            format!(
                "| {} | {share} | {} | {} | {} | {} | {} | {} | {} |\n",
                self.name,
                cell("recorded_share"),
                cell("minimal_accuracy"),
                each(&|chunk| self.number("alignment_independent_accuracy", share, chunk)),
                each(&|chunk| self.number("false_share", share, chunk)),
                each(&|chunk| self.known(share, chunk)),
                each(&|chunk| self.number("cache_miss_rate", share, chunk)),
                percent(self.value["cache_miss_rate"].as_f64()),
            )
        };
        SHARES.map(row).concat()
    }

    /// The line of a program in each panel of the chart.
    fn line(&self) -> Line {
        let figure = |name: &str, share: u64| self.number(name, share, LINE).unwrap_or(0.0);
        let values = vec![
            SHARES.map(|share| figure("minimal_accuracy", share)).to_vec(),
            SHARES.map(|share| figure("alignment_independent_accuracy", share)).to_vec(),
            SHARES.map(|share| self.known(share, LINE).unwrap_or(0.0)).to_vec(),
        ];
        Line { name: self.name.clone(), values }
    }

    /// The line of a program in each panel of the chart of misses: the miss rate of the recorded
    /// accesses, divided by the miss rate of all accesses.
    fn misses(&self) -> Line {
        let full_rate = self.value["cache_miss_rate"].as_f64().unwrap_or(0.0);
        let ratio = |share: u64, chunk: u64| {
            self.number("cache_miss_rate", share, chunk).map_or(0.0, |rate| rate / full_rate)
        };
        let panel =
            |chunk| SHARES.map(|share| ratio(share, chunk)).into_iter().chain([1.0]).collect();
        Line { name: self.name.clone(), values: CHUNKS.map(panel).to_vec() }
    }
}

/// A share in percent, with as many digits as it needs.
fn percent(share: Option<f64>) -> String {
    match share.map(|share| 100.0 * share) {
        None => "-".into(),
        Some(percent) if percent < 10.0 => format!("{percent:.2}"),
        Some(percent) => format!("{percent:.1}"),
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map_or_else(|| "target/bench/selected".into(), PathBuf::from);
    let only: Vec<String> = words.collect();
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let mut traced = kernels(&folder)?;
    traced.extend(others(&folder)?);
    traced.retain(|one| only.is_empty() || only.contains(&one.name));
    let mut evaluations = Vec::new();
    for program in traced {
        evaluations.push(evaluate(&folder, program)?);
    }
    println!("| program | million accesses | million executed blocks |\n|---|---:|---:|");
    for Evaluated { name, value } in &evaluations {
        let [accesses, blocks] = ["all_accesses", "executed_blocks"]
            .map(|name| value[name].as_f64().unwrap_or(0.0) / 1e6);
        println!("| {name} | {accesses:.1} | {blocks:.1} |");
    }
    println!(
        "\n| program | omega, % | recorded, % | MA, % | AIA, %, chunks of 16 / 64 / 4096 | false, % of near | \
         chunk known, % | L1 misses, %, 16 / 64 / 4096 | of all accesses, % |\n|---|{}",
        "---:|".repeat(8)
    );
    evaluations.iter().for_each(|one| print!("{}", one.rows()));
    let panels =
        ["minimal accuracy", "alignment-independent accuracy", "chunk of 64 bytes is known"];
    let lines: Vec<Line> = evaluations.iter().map(Evaluated::line).collect();
    let places = SHARES.map(|share| share.to_string());
    let chart = folder.join("selective-traces.svg");
    std::fs::write(&chart, svg(&panels, Vertical::Shares, "omega, %", &places, &lines))?;
    let misses = folder.join("selective-misses.svg");
    let panels = CHUNKS.map(|chunk| format!("misses of those of all, chunks of {chunk}"));
    let lines: Vec<Line> = evaluations.iter().map(Evaluated::misses).collect();
    let places: Vec<String> = places.into_iter().chain(["all".into()]).collect();
    let panels = panels.each_ref().map(String::as_str);
    std::fs::write(&misses, svg(&panels, Vertical::Ratios, "omega, %", &places, &lines))?;
    println!("\nCharts: {}, {}", chart.display(), misses.display());
    Ok(())
}
