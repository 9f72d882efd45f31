//! Reads the state of a process that controllers change, to compare it before and after.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{Mapping, mappings};
use nix::unistd::Pid;

/// State that must be the same after a controller has detached.
#[derive(PartialEq, Eq)]
pub struct State {
    /// Executable mappings: first address, end, contents to the end of the last page.
    code: Vec<(RunAddr, RunAddr, Vec<u8>)>,
    /// Number of mappings that are shared with controllers.
    shared: usize,
    /// Paths of the open descriptors.
    files: Vec<PathBuf>,
}

impl State {
    /// Reads the state of a process.
    pub fn of(pid: Pid) -> State {
        let mapped = mappings(pid).unwrap();
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        // Only the process itself can read the kernel's mapping.
        let code = mapped
            .iter()
            .filter(|mapping| mapping.executable && mapping.path != Path::new("[vsyscall]"));
        let code = code.map(|mapping| {
            let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
            memory.read_exact_at(&mut bytes, mapping.start.0).unwrap();
            (mapping.start, mapping.end, bytes)
        });
        let code = code.collect();
        let is_ours = |mapping: &&Mapping| mapping.path.to_string_lossy().contains("hmtt-tag");
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let files = files.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        State { code, shared: mapped.iter().filter(is_ours).count(), files }
    }

    /// Describes the differences.
    pub fn difference(&self, other: &State) -> String {
        let ranges = |state: &State| -> Vec<String> {
            state.code.iter().map(|(start, end, _)| format!("{start:x}-{end:x}")).collect()
        };
        let changed = self.code.iter().zip(&other.code).filter(|(one, other)| one.2 != other.2);
        let changed: Vec<String> = changed.map(|(one, _)| format!("{:x}", one.0)).collect();
        let (mine, others) = (ranges(self), ranges(other));
        let (shared, files) = (other.shared, &other.files);
        format!("{mine:?}, then {others:?}; changed: {changed:?}; {shared} shared; {files:?}")
    }
}
