//! Measures the slowdown of programs that run in different ways.
//!
//! Plain runs and runs in another way alternate, and the shortest time of each is used. A preloaded
//! library reports the processor time of the program itself.

pub mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::measure::measure;
use programs::{Build, Program};

/// Times of a run in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Processor time of the program.
    pub own: f64,
    /// Processor time of all processes together.
    pub all: f64,
    /// Time from start to end.
    pub wall: f64,
}

impl Used {
    const MOST: Used = Used { own: f64::INFINITY, all: f64::INFINITY, wall: f64::INFINITY };

    fn least(self, other: Used) -> Used {
        let (own, total) = (self.own.min(other.own), self.all.min(other.all));
        Used { own, all: total, wall: self.wall.min(other.wall) }
    }
}

/// Folder and library for measuring programs.
#[derive(Debug)]
pub struct Bench {
    /// Folder of programs and outputs.
    pub folder: PathBuf,
    own_time: PathBuf,
}

/// A way to run a program: the command before it, its build, and the amount of work.
#[derive(Debug)]
pub struct Way {
    /// Name in tables.
    pub name: &'static str,
    /// Words before the program. Rules of the program are inserted before `--`.
    pub words: Vec<String>,
    /// The build that is run.
    pub build: Build,
    /// Index of the amount of work in [`Program::sizes`].
    pub size: usize,
    /// Number of runs.
    pub runs: usize,
}

impl Bench {
    /// Prepares measurements in a folder, which is created.
    ///
    /// # Errors
    /// The folder or the preloaded library cannot be created.
    pub fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        Ok(Bench { own_time: programs::own_time(&folder)?, folder })
    }

    fn run(&self, way: Option<&Way>, program: &Program, size: usize) -> Result<Option<Used>> {
        let Some(path) = program.built(way.map_or(Build::Plain, |way| way.build)) else {
            return Ok(None);
        };
        let times = self.folder.join("times");
        let _ = std::fs::remove_file(&times);
        // XRay uses a new file name for each log.
        for entry in std::fs::read_dir(&self.folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("xray.") {
                std::fs::remove_file(entry.path())?;
            }
        }
        let first = path.display().to_string();
        let mut words = way.map_or_else(Vec::new, |way| way.words.clone());
        // The rules are inserted before the separator.
        if let Some(at) = words.iter().position(|word| word == "--") {
            words.splice(at..at, program.rules.iter().cloned());
        }
        let mut command_line = words.into_iter().chain([first]).chain(program.words(size));
        let mut command = Command::new(command_line.next().unwrap_or_default());
        command.args(command_line).current_dir(&self.folder).stderr(Stdio::null());
        command.env("LD_PRELOAD", &self.own_time).env("OWN_TIME", &times);
        // Output of the program must not be parsed as a measurement, so it is discarded.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" >/dev/null", "sh"]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(&self.folder).stderr(Stdio::null());
        shell.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let measurement = measure(&mut shell).with_context(|| format!("{shell:?}"))?;
        // Status 3: the program has ended without error, and accesses were dropped, as the options
        // of the way permit.
        let is_well = measurement.code == Some(0) || way.is_some() && measurement.code == Some(3);
        ensure!(is_well, "{shell:?}: {:?}", measurement.code);
        let text = std::fs::read_to_string(&times)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        Ok(Some(Used {
            own: line.context("no time")? / 1e9,
            all: measurement.cpu,
            wall: measurement.wall,
        }))
    }

    /// Runs the program plainly and in a way, alternating, and returns the shortest times of both.
    /// `None` if the program has no such build.
    ///
    /// # Errors
    /// A run fails.
    pub fn compare(&self, way: &Way, program: &Program) -> Result<Option<(Used, Used)>> {
        let (mut plain, mut other) = (Used::MOST, Used::MOST);
        for _ in 0..way.runs {
            let Some(used) = self.run(None, program, way.size)? else { return Ok(None) };
            plain = plain.least(used);
            let Some(used) = self.run(Some(way), program, way.size)? else { return Ok(None) };
            other = other.least(used);
        }
        Ok(Some((plain, other)))
    }
}
