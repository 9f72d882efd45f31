//! Checks what `hmtt tag` reports of a program against callgrind and its own output.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hmtt_probe::control::verdicts;
use hmtt_probe::elf::Image;
use serde_json::Value;

use crate::tag::hmtt_tag;
use crate::{callgrind, scratch};

pub type Counts = BTreeMap<String, u64>;

/// Functions that run before and after `main`, of which callgrind does not show all.
const AROUND_MAIN: [&str; 8] = [
    "_init",
    "_fini",
    "_start",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__gmon_start__",
];

/// A program, and what is known of it.
pub struct Real {
    pub name: String,
    pub program: PathBuf,
    pub words: Vec<String>,
    /// Functions that callgrind counts differently, with their calls.
    pub known: Vec<(&'static str, u64)>,
    /// Functions that may be impossible to tag.
    pub refused: &'static [&'static str],
    /// Functions that are compared; `None` for all.
    pub only: Option<BTreeSet<String>>,
}

/// The content of a log.
pub struct Logged {
    pub output: Output,
    pub calls: Counts,
    /// Number of calls that ended without an exit while their thread continued.
    pub abandoned: u64,
}

impl Real {
    pub fn new(name: &str, program: PathBuf) -> Self {
        let (words, known, refused) = (Vec::new(), Vec::new(), &[][..]);
        Real { name: name.into(), program, words, known, refused, only: None }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = hmtt_tag(&["run", "--initializers"]);
        command.args(options).arg("--").arg(&self.program).args(&self.words);
        // Programs leave files in this directory and read them again.
        command.current_dir(env!("CARGO_TARGET_TMPDIR"));
        command
    }

    /// Runs the program without tags.
    pub fn plain(&self) -> Output {
        let mut command = Command::new(&self.program);
        command.args(&self.words).current_dir(env!("CARGO_TARGET_TMPDIR")).output().unwrap()
    }

    /// Runs the program with counts.
    pub fn counted(&self) -> (Output, Counts) {
        let file = scratch(&format!("{}.json", self.name));
        let output = self.command(&["--overwrite", "-o", file.to_str().unwrap()]).output().unwrap();
        let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let mut counts = Counts::new();
        for function in json["functions"].as_array().unwrap() {
            let name = function["name"].as_str().unwrap().to_owned();
            *counts.entry(name).or_default() += function["calls"].as_u64().unwrap();
        }
        (output, counts)
    }

    /// Runs the program with a log: no event is lost, and every call has an end.
    pub fn logged(&self) -> Logged {
        let file = scratch(&format!("{}.tags", self.name));
        scratch(&format!("{}.tags.json", self.name));
        let log = file.to_str().unwrap();
        let output = self.command(&["--sink", "log", "--overwrite", "-o", log]).output().unwrap();
        let report = hmtt_tag(&["report", "--json", log]).output().unwrap();
        let complaint = String::from_utf8_lossy(&report.stderr);
        assert_eq!(report.status.code(), Some(0), "{}: {complaint}", self.name);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["unmatched_exits"], 0, "{}", self.name);
        let (mut calls, mut abandoned) = (Counts::new(), 0);
        for function in report["functions"].as_array().unwrap() {
            // Functions with equal names are distinguished by their addresses.
            let name = function["name"].as_str().unwrap();
            let name = name
                .rsplit_once(" (")
                .filter(|(_, rest)| is_address(rest))
                .map_or(name, |(name, _)| name);
            let count = function["calls"].as_u64().unwrap();
            let exits = |how: &str| function["exits"][how].as_u64().unwrap();
            let ended = exits("returned") + exits("abandoned") + exits("ended");
            assert_eq!(ended, count, "{}: {function}", self.name);
            abandoned += exits("abandoned");
            *calls.entry(name.to_owned()).or_default() += count;
        }
        Logged { output, calls, abandoned }
    }

    /// Checks that counts and logs agree with each other and with callgrind, and that the program
    /// behaves the same. Returns the number of calls that ended without an exit; `None` if the test
    /// is skipped.
    pub fn check(&self) -> Option<u64> {
        let seen = |output: &Output| (output.status.code(), output.stdout.clone());
        let (counted, counts) = self.counted();
        let logged = self.logged();
        let plain = seen(&self.plain());
        for output in [&counted, &logged.output] {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert_eq!(seen(output), plain, "{}: {complaint}", self.name);
        }
        let called: Counts = counts
            .iter()
            .filter(|(_, calls)| **calls != 0)
            .map(|(name, calls)| (name.clone(), *calls))
            .collect();
        assert_eq!(called, logged.calls, "{}", self.name);
        self.as_callgrind(&counts)?;
        Some(logged.abandoned)
    }

    fn as_callgrind(&self, counts: &Counts) -> Option<()> {
        let image = Image::read(&self.program).unwrap();
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let calls = callgrind::calls(&self.name, &self.program, &words)?;
        let mut expected = callgrind::by_name(&image, &calls);
        assert!(expected.values().sum::<u64>() > 0, "{}: callgrind saw nothing", self.name);
        expected.retain(|name, _| {
            let wanted = self.only.as_ref().is_none_or(|only| only.contains(name));
            wanted && !AROUND_MAIN.contains(&name.as_str())
        });
        for (name, calls) in &self.known {
            let known = expected.get_mut(*name).unwrap_or_else(|| panic!("no function {name}"));
            *known = *calls;
        }
        for (function, verdict) in verdicts(&image) {
            if let Err(refusal) = verdict
                && expected.remove(&function.name).is_some()
            {
                let name = &function.name;
                assert!(self.refused.contains(&name.as_str()), "{}: {name}: {refusal}", self.name);
            }
        }
        let wrong: Vec<_> = expected
            .iter()
            .map(|(name, calls)| (name, *calls, counts.get(name).copied().unwrap_or(0)))
            .filter(|(_, expected, counted)| expected != counted)
            .collect();
        assert!(wrong.is_empty(), "{}: function, expected, counted: {wrong:?}", self.name);
        Some(())
    }
}

fn is_address(text: &str) -> bool {
    text.strip_suffix(')').is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
}

/// Returns the names of a program's functions.
pub fn functions(program: &Path) -> BTreeSet<String> {
    Image::read(program).unwrap().functions.into_iter().map(|function| function.name).collect()
}
