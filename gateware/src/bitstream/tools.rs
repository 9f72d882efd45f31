//! Runs the tools: finds them, keeps their output, and stops at complaints that no design may have.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BitstreamError;

/// Lines of a log that are shown when its tool failed.
const LAST_LINES: usize = 12;

/// Fatal complaints of yosys and nextpnr: latches, nets with several drivers or none, pins and
/// clocks of the constraints that the design does not have.
const COMPLAINTS: [&str; 9] = [
    "Latch inferred",
    "multiple conflicting drivers",
    "Driver-driver conflict",
    "has no driver",
    "is undriven",
    "found logic loop",
    "unmatched constraint",
    "ignoring clock constraint",
    "unconstrained",
];

/// A run of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the tool, without `yowasp-`.
    pub tool: &'static str,
    /// File for its output.
    pub log: String,
    /// Arguments.
    pub arguments: Vec<String>,
}

impl Step {
    /// Builds a step.
    pub fn new(tool: &'static str, log: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
        Self { tool, log: log.into(), arguments }
    }
}

/// The folders that are searched for tools: one folder, then `PATH`. In each of the two, the
/// packages of YoWASP come first: they are newer than the packages of distributions, and map
/// better.
#[derive(Clone, Debug)]
pub struct Tools {
    folders: Vec<PathBuf>,
}

impl Tools {
    /// Searches this folder, then `PATH`.
    pub fn new(folder: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        Self { folders: [folder.to_path_buf()].into_iter().chain(on_path).collect() }
    }

    /// Returns the file of a tool.
    pub fn find(&self, tool: &str) -> Option<PathBuf> {
        let (folder, on_path) = self.folders.split_first()?;
        let names = [format!("yowasp-{tool}"), tool.to_string()];
        let first = names.iter().map(|name| folder.join(name));
        let rest = names.iter().flat_map(|name| on_path.iter().map(move |path| path.join(name)));
        // Tools are started in another folder, so the path must be absolute.
        first
            .chain(rest)
            .find(|file| file.is_file())
            .and_then(|file| std::path::absolute(file).ok())
    }

    /// Returns an error if one of these tools is missing.
    pub fn require(&self, tools: &[&'static str]) -> Result<(), BitstreamError> {
        let missing: Vec<&'static str> =
            tools.iter().copied().filter(|tool| self.find(tool).is_none()).collect();
        if missing.is_empty() { Ok(()) } else { Err(BitstreamError::Missing(missing)) }
    }

    /// Runs a step in a folder and writes its output to a log. Some tools write that log
    /// themselves; their output is appended.
    pub fn run(&self, folder: &Path, step: &Step) -> Result<(), BitstreamError> {
        let program = self.find(step.tool).ok_or(BitstreamError::Missing(vec![step.tool]))?;
        let log = folder.join(&step.log);
        let printed = folder.join(format!("{}.printed", step.log));
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |error| BitstreamError::File(path, error)
        };
        remove_if_there(&log).map_err(at(&log))?;
        let output = File::create(&printed).map_err(at(&printed))?;
        let status = Command::new(&program)
            .args(&step.arguments)
            .current_dir(folder)
            .stdout(output.try_clone().map_err(at(&printed))?)
            .stderr(output)
            .status()
            .map_err(at(&program))?;
        let [mut text, printed_text] = [&log, &printed]
            .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned());
        for line in printed_text.lines().filter(|line| !text.contains(line)).collect::<Vec<_>>() {
            text += line;
            text += "\n";
        }
        fs::write(&log, &text).map_err(at(&log))?;
        remove_if_there(&printed).map_err(at(&printed))?;
        if !status.success() {
            let words = last_lines(&text);
            return Err(BitstreamError::Failed(step.tool, status.to_string(), log, words));
        }
        let complaints = complaints(&text);
        if !complaints.is_empty() {
            return Err(BitstreamError::Complaints(step.tool, log, complaints));
        }
        Ok(())
    }
}

fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// Returns the lines of a log with fatal complaints.
fn complaints(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))
        .map(|line| line.trim().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latches_and_undriven_nets_are_complaints() {
        let log = "Warning: Wire top.\\x is used but has no driver.\nInfo: fine\n\
                   Latch inferred for signal `\\top.\\y' from process `\\top.$proc$t.v:5$1'.";
        assert_eq!(complaints(log).len(), 2);
        assert!(complaints("No latch inferred for signal `\\top.\\y'").is_empty());
    }

    #[test]
    fn a_missing_tool_is_named() {
        let tools = Tools { folders: vec![PathBuf::from("no such folder")] };
        let error = tools.require(&["yosys"]).expect_err("no tool there");
        assert!(error.to_string().contains("yosys"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_failing_tool_gives_its_last_lines_and_a_log() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tool = folder.path().join("yosys");
        fs::write(&tool, "#!/bin/sh\necho out of wires >&2\nexit 3\n").expect("a tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a program");
        let tools = Tools { folders: vec![folder.path().to_path_buf()] };
        let error = tools.run(folder.path(), &Step::new("yosys", "y.log", &[])).expect_err("fails");
        assert!(error.to_string().contains("out of wires"), "{error}");
        let log = fs::read_to_string(folder.path().join("y.log")).expect("the log is kept");
        assert_eq!(log, "out of wires\n");
    }
}
