//! The fuzz targets of `fuzz/` to inputs that make one of them panic, if there are any.
//!
//! Built apart from everything else: with coverage counters in all code, and with libFuzzer, which is
//! C++. Plain stable Rust can do that; the compiler's options are those of `cargo fuzz`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::has;

/// The targets.
pub const TARGETS: [&str; 12] = [
    "frame",
    "record",
    "trace",
    "pcapng",
    "vector",
    "elf",
    "tag_log",
    "tag_map",
    "tag_report",
    "table",
    "parquet",
    "unfinished",
];

/// What makes the compiler count which edges an input takes and show what it is compared with.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// As libFuzzer's sources need.
const COMPILERS: [&str; 3] = ["c++", "g++", "clang++"];
/// Longest input, in bytes.
const MAX_BYTES: u32 = 4096;
/// Longest time an input may take, in seconds; most take less than a millisecond.
const HANGS: u32 = 60;

/// Why the targets were not built.
#[derive(Debug)]
pub enum BuildError {
    /// Something is not there; says what.
    Missing(String),
    /// They do not compile; what cargo said.
    Failed(String),
}

/// How long a target runs.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// So many inputs: the same ones with the same seed.
    Inputs(u64),
    /// So many seconds.
    Seconds(u64),
}

/// The targets, built.
pub struct Targets {
    programs: PathBuf,
}

impl Targets {
    /// Builds the targets in a folder of their own.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(folder: &Path) -> Result<Targets, BuildError> {
        let compiler = std::env::var("CXX")
            .ok()
            .or(COMPILERS.map(String::from).into_iter().find(|name| has(name)));
        if !compiler.is_some_and(|compiler| has(&compiler)) {
            return Err(BuildError::Missing("no C++ compiler is installed".into()));
        }
        let host =
            host().ok_or_else(|| BuildError::Missing("rustc does not say its host".into()))?;
        let fetched = cargo("fetch", folder).args(["--target", &host]).output();
        if let Some(what) = fetched.map_or_else(|e| Some(e.to_string()), |output| failure(&output))
        {
            return Err(BuildError::Missing(format!("libFuzzer cannot be fetched: {what}")));
        }
        // With a target named, build scripts and macros are compiled without the options.
        let built = cargo("build", folder)
            .args(["--release", "--target", &host])
            .env("RUSTFLAGS", INSTRUMENTED)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output();
        match built.map_or_else(|error| Some(error.to_string()), |output| failure(&output)) {
            Some(what) => Err(BuildError::Failed(what)),
            None => Ok(Targets { programs: folder.join(host).join("release") }),
        }
    }

    /// Runs a target from its seeds and what `corpus`, which is made if need be, holds of earlier runs.
    ///
    /// # Errors
    /// The panic an input makes, with how to see it again; or why the target did not run.
    pub fn run(
        &self,
        target: &str,
        corpus: &Path,
        extent: Extent,
        seed: u64,
    ) -> Result<(), String> {
        let program = self.programs.join(target);
        let (found, seeds) = (corpus.join(target), corpus.join(format!("{target}-seeds")));
        for folder in [&found, &seeds] {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let limit = match extent {
            Extent::Inputs(inputs) => format!("-runs={inputs}"),
            Extent::Seconds(seconds) => format!("-max_total_time={seconds}"),
        };
        let failed = corpus.join(format!("{target}-"));
        let output = Command::new(&program)
            // A seed of 0 is one of libFuzzer's own choice.
            .args([limit, format!("-seed={}", seed.max(1))])
            .args([format!("-max_len={MAX_BYTES}"), format!("-timeout={HANGS}")])
            .arg(format!("-artifact_prefix={}", failed.display()))
            .args([&found, &seeds])
            .args(kept(target))
            .env("HMTT_FUZZ_SEEDS", &seeds)
            .env("RUST_BACKTRACE", "0")
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        match failure(&output) {
            Some(what) => {
                Err(format!("{target}: {what}\nrun it again: {} FILE", program.display()))
            }
            None => Ok(()),
        }
    }
}

/// The folder of inputs that once made a target panic, if there is one.
fn kept(target: &str) -> Option<PathBuf> {
    Some(source().join("found").join(target)).filter(|folder| folder.is_dir())
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn cargo(command: &str, folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.arg(command).args(["--quiet", "--locked"]).current_dir(source());
    cargo.env("CARGO_TARGET_DIR", folder);
    cargo
}

/// The platform that the compiler runs on.
fn host() -> Option<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc).arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(String::from)
}

/// The end of what a command that failed said.
fn failure(output: &Output) -> Option<String> {
    const LINES: usize = 30;
    if output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    Some(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}
