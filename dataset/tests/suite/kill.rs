//! Kills a process that adds a capture before each system call that changes a file system, and adds
//! the capture again.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hmtt_dataset::{Added, Dataset};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::changes::series;
use crate::samples::{BEFORE_THE_HOUR, everything, write};
use crate::{OPTIONS, add, files, staged, visible};

/// System calls that change files, folders or locks; of those that open files, those that can
/// create one.
const CHANGES: [i64; 13] = [
    libc::SYS_openat,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_flock,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rmdir,
];

/// Runs a program that changes a data set, and kills it before its change of this number. Returns
/// whether it was killed.
fn killed_before(change: usize, arguments: &[&Path]) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_change-dataset"));
    command.args(arguments);
    // SAFETY: the closure makes one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    #[allow(clippy::zombie_processes, reason = "waitpid waits for it")]
    let pid = Pid::from_raw(command.spawn().unwrap().id() as i32);
    assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Stopped(pid, Signal::SIGTRAP));
    // Each system call stops the process twice: before it and after it.
    let (mut changes, mut is_before) = (0, false);
    loop {
        ptrace::syscall(pid, None).unwrap();
        if let WaitStatus::Exited(_, status) = waitpid(pid, None).unwrap() {
            assert_eq!(status, 0);
            return false;
        }
        is_before = !is_before;
        let registers = ptrace::getregs(pid).unwrap();
        let number = registers.orig_rax as i64;
        let is_change = CHANGES.contains(&number)
            && (number != libc::SYS_openat || registers.rdx as i32 & libc::O_CREAT != 0);
        if is_before && is_change {
            if changes == change {
                break;
            }
            changes += 1;
        }
    }
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    while !matches!(waitpid(pid, None).unwrap(), WaitStatus::Signaled(..)) {}
    true
}

/// A folder in memory, where making files durable takes no time.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.unwrap()
}

#[test]
fn a_killed_compaction_is_completed_or_has_changed_nothing() {
    let folder = folder();
    let (captures, _) = series(folder.path());
    let original = Dataset::new(folder.path().join("original"));
    captures.iter().for_each(|capture| add(&original, capture));
    let before = visible(original.root());
    original.compact().unwrap();
    let after = visible(original.root());
    for change in 0.. {
        let root = folder.path().join(format!("compacted-{change}"));
        for (path, bytes) in &before {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        if !killed_before(change, &[Path::new("compact"), &root]) {
            break;
        }
        // Each partition is merged by a change of its own.
        let seen = visible(&root);
        for partition in before.keys().filter_map(|path| path.parent()) {
            let partition_parts = |parts: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<_> {
                let parts = parts.iter().filter(|(path, _)| path.parent() == Some(partition));
                parts.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
            };
            let is_whole = partition_parts(&seen) == partition_parts(&before)
                || partition_parts(&seen) == partition_parts(&after);
            assert!(is_whole, "killed before change {change}: {}", partition.display());
        }
        let dataset = Dataset::open(&root).unwrap();
        let check = dataset.check().unwrap();
        assert_eq!(check.problems, [""; 0], "killed before change {change}");
        dataset.compact().unwrap();
        assert!(visible(&root) == after, "killed before change {change}");
        std::fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
fn a_killed_process_leaves_whole_parts_and_the_next_one_completes_them() {
    let folder = folder();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    kill_adding(folder.path(), &capture);
}

#[test]
fn a_process_that_adds_a_log_leaves_whole_parts_too() {
    let folder = folder();
    let (log, _) = crate::logs::log(folder.path());
    kill_adding(folder.path(), &log);
}

/// Kills a process that adds a capture or log before each of its changes.
fn kill_adding(folder: &Path, capture: &Path) {
    let whole = Dataset::new(folder.join("whole"));
    add(&whole, capture);
    let whole = visible(whole.root());
    let (mut completed, mut interrupted) = (0, 0);
    for change in 0.. {
        let root = folder.join(format!("killed-{change}"));
        if !killed_before(change, &[Path::new("add"), &root, capture]) {
            break;
        }
        let mut left = files(&root);
        left.retain(|(path, _)| !path.starts_with(".staging"));
        let is_whole = |(path, bytes): &(_, _)| whole.get(path) == Some(bytes);
        assert!(left.iter().all(is_whole), "killed before change {change}");
        // A reader sees all parts or none.
        let seen = visible(&root);
        assert!(seen == whole || seen.is_empty(), "killed before change {change}");
        let dataset = Dataset::new(&root);
        let added = dataset.add(capture, &OPTIONS).unwrap();
        // What had been decided is completed, not made again.
        completed += usize::from(matches!(added, Added::Present) && left.len() < whole.len());
        interrupted += usize::from(!left.is_empty() && left.len() < whole.len());
        let visible_parts = visible(&root);
        assert!(visible_parts == whole, "killed before change {change}");
        assert_eq!(staged(&root), ["commit.lock"], "killed before change {change}");
        assert_eq!(dataset.check().unwrap().problem_count, 0);
        std::fs::remove_dir_all(&root).unwrap();
    }
    // The test has killed it between the renaming of the first part and that of the last one.
    assert!(completed > interrupted && interrupted >= whole.len() - 1, "{completed} {interrupted}");
}
