//! What a process has that controllers change: it is compared before and after.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hmtt_probe::ptrace::{Mapping, mappings};
use nix::unistd::Pid;

/// What a controller that has left must not have changed.
#[derive(PartialEq, Eq)]
pub struct State {
    /// Memory whose instructions can be executed, with what it has: that of files to the end of their last page.
    code: Vec<(u64, u64, Vec<u8>)>,
    /// Memory that is shared with controllers.
    shared: usize,
    /// What its descriptors are of.
    files: Vec<PathBuf>,
}

impl State {
    /// Of a process.
    pub fn of(pid: Pid) -> State {
        let mapped = mappings(pid).unwrap();
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        // The kernel's own, which nobody else can read.
        let code =
            mapped.iter().filter(|one| one.executable && one.path != Path::new("[vsyscall]"));
        let code = code.map(|one| {
            let mut bytes = vec![0; (one.end - one.start) as usize];
            memory.read_exact_at(&mut bytes, one.start).unwrap();
            (one.start, one.end, bytes)
        });
        let code = code.collect();
        let is_ours = |one: &&Mapping| one.path.to_string_lossy().contains("hmtt-tag");
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let files = files.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        State { code, shared: mapped.iter().filter(is_ours).count(), files }
    }

    /// What is different.
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
