//! Builds and runs the fuzz targets of `fuzz/`, and returns an input that makes a target panic.
//!
//! The program of the targets is built separately from all other code: with coverage counters, and
//! with libFuzzer, which is C++. Stable Rust suffices for this; the compiler's options are the same
//! as with `cargo fuzz`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::has;

/// Compiler options that count the edges of the code that an input takes, and record the values
/// with which the code compares the input.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Compilers that libFuzzer's sources can be built with.
const COMPILERS: [&str; 3] = ["c++", "g++", "clang++"];
/// Longest input in bytes.
const MAX_BYTES: u32 = 4096;
/// Maximum time for an input in seconds. Most inputs take less than a millisecond.
const HANGS: u32 = 60;

/// Why the targets could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// A missing tool or package.
    Missing(String),
    /// A compile error, with cargo's output.
    Failed(String),
}

/// The program of all targets after it was built.
pub struct Targets {
    program: PathBuf,
}

impl Targets {
    /// Builds the targets in a separate folder.
    ///
    /// # Errors
    /// Returns a [`BuildError`] if a tool is missing or the targets do not compile.
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
        // With `--target`, these options do not apply to build scripts and macros.
        let built = cargo("build", folder)
            .args(["--package", "hmtt-fuzz", "--features", "libfuzzer", "--profile", "fuzz"])
            .args(["--target", &host])
            .env("RUSTFLAGS", INSTRUMENTED)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output();
        match built.map_or_else(|error| Some(error.to_string()), |output| failure(&output)) {
            Some(what) => Err(BuildError::Failed(what)),
            None => Ok(Targets { program: folder.join(host).join("fuzz/hmtt-fuzz") }),
        }
    }

    /// Runs a target for some seconds with its seeds and the inputs in `corpus`. The folder is
    /// created if it does not exist.
    ///
    /// # Errors
    /// The panic that an input causes, with the command that reproduces it; or why the target did
    /// not run.
    pub fn run(&self, target: &str, corpus: &Path, seconds: u64, seed: u64) -> Result<(), String> {
        let program = &self.program;
        let (inputs, seeds) = (corpus.join(target), corpus.join(format!("{target}-seeds")));
        for folder in [&inputs, &seeds] {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let failed = corpus.join(format!("{target}-"));
        let output = Command::new(program)
            // libFuzzer chooses a seed itself if it is 0.
            .args([format!("-max_total_time={seconds}"), format!("-seed={}", seed.max(1))])
            .args([format!("-max_len={MAX_BYTES}"), format!("-timeout={HANGS}")])
            .arg(format!("-artifact_prefix={}", failed.display()))
            .args([&inputs, &seeds])
            .args(kept(target))
            .env("HMTT_FUZZ_TARGET", target)
            .env("HMTT_FUZZ_SEEDS", &seeds)
            .env("RUST_BACKTRACE", "0")
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        match failure(&output) {
            Some(what) => Err(format!(
                "{target}: {what}\nrun it again: HMTT_FUZZ_TARGET={target} {} FILE",
                program.display()
            )),
            None => Ok(()),
        }
    }
}

/// Returns the folder of inputs that once made a target panic, if there is one.
fn kept(target: &str) -> Option<PathBuf> {
    Some(source().join("found").join(target)).filter(|folder| folder.is_dir())
}

/// The folder of the targets' sources.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn cargo(command: &str, folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.arg(command).args(["--quiet", "--locked"]).current_dir(source());
    cargo.env("CARGO_TARGET_DIR", folder);
    cargo
}

/// Returns the platform on which the compiler runs.
fn host() -> Option<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc).arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(String::from)
}

/// Returns the end of a failed command's error output.
fn failure(output: &Output) -> Option<String> {
    const LINES: usize = 30;
    if output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    Some(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_that_there_is_is_run() {
        let files = std::fs::read_dir(source().join("src/targets")).unwrap();
        let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files: BTreeSet<String> = files.map(|file| name(file.unwrap().path())).collect();
        let targets = hmtt_fuzz::targets::names().into_iter().map(String::from);
        assert_eq!(files, targets.collect());
    }

    #[test]
    fn all_inputs_that_once_failed_belong_to_a_target() {
        for folder in std::fs::read_dir(source().join("found")).unwrap() {
            let folder = folder.unwrap().file_name();
            let is_target = hmtt_fuzz::targets::check(folder.to_str().unwrap()).is_some();
            assert!(is_target, "{folder:?}");
        }
    }
}
