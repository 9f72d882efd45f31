//! Limits the processor time of processes, by control groups of version 2 or 1.
//!
//! ```text
//! hmtt-bench-cluster           has a large weight, so that other work on the machine takes little from it
//!     client                   scheduler, client: not limited
//!     executor0, executor1...  a part of a processor each
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Percent of a processor that an executor, or the embedded engine, has.
pub const PERCENT: u64 = 35;
/// Period of the limit. A process that has used its part waits for the next period.
const PERIOD_US: u64 = 10_000;
const NAME: &str = "hmtt-bench-cluster";
const CLIENT: &str = "client";
/// How long ended processes may remain in their groups.
const EMPTY: Duration = Duration::from_secs(5);

/// Why nothing can be measured here.
pub fn obstacle() -> Option<String> {
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|id| id.stdout == b"0\n") {
        return Some("network namespaces and control groups need root".into());
    }
    hierarchy().is_none().then(|| "no control groups for processor time in /sys/fs/cgroup".into())
}

/// Folder of the groups that limit processor time, and the version.
fn hierarchy() -> Option<(PathBuf, u8)> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "cpu") {
        return Some((root.to_owned(), 2));
    }
    let mut first = ["cpu", "cpu,cpuacct"].map(|name| root.join(name)).into_iter();
    first.find(|path| path.join("cpu.cfs_quota_us").exists()).map(|path| (path, 1))
}

fn set(path: &Path, name: &str, value: &str) -> Result<()> {
    let path = path.join(name);
    fs::write(&path, value).with_context(|| format!("{}: cannot write {value:?}", path.display()))
}

/// The groups, which are removed when this is dropped. Their processes have ended then.
pub struct Limits {
    base: PathBuf,
}

impl Limits {
    /// Creates the groups of `executors` executors.
    pub fn new(executors: usize) -> Result<Limits> {
        let (root, version) = hierarchy().context("no control groups")?;
        let limits = Limits { base: root.join(NAME) };
        // Of a run that was killed.
        limits.remove();
        let create = |path: &Path| {
            fs::create_dir(path).with_context(|| {
                format!("{}: cannot create; does another bench-cluster run?", path.display())
            })
        };
        if version == 2 {
            set(&root, "cgroup.subtree_control", "+cpu")?;
        }
        create(&limits.base)?;
        if version == 2 {
            set(&limits.base, "cgroup.subtree_control", "+cpu")?;
            set(&limits.base, "cpu.weight", "10000")?;
        } else {
            set(&limits.base, "cpu.shares", "262144")?;
        }
        create(&limits.base.join(CLIENT))?;
        let quota = PERIOD_US * PERCENT / 100;
        for executor in 0..executors {
            let group = executor_group(&limits.base, executor);
            create(&group)?;
            if version == 2 {
                set(&group, "cpu.max", &format!("{quota} {PERIOD_US}"))?;
            } else {
                set(&group, "cpu.cfs_period_us", &PERIOD_US.to_string())?;
                set(&group, "cpu.cfs_quota_us", &quota.to_string())?;
            }
        }
        Ok(limits)
    }

    /// Folder of the groups.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Removes the groups as soon as their processes have ended.
    fn remove(&self) {
        let begin = Instant::now();
        let Ok(entries) = fs::read_dir(&self.base) else { return };
        let groups = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        for group in groups.chain([self.base.clone()]) {
            while let Err(error) = fs::remove_dir(&group) {
                if error.kind() != ErrorKind::ResourceBusy || begin.elapsed() > EMPTY {
                    eprintln!("bench-cluster: {}: {error}", group.display());
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The group of an executor, which is also that of the embedded engine.
pub fn executor_group(base: &Path, executor: usize) -> PathBuf {
    base.join(format!("executor{executor}"))
}

/// The group of what is not limited.
pub fn client_group(base: &Path) -> PathBuf {
    base.join(CLIENT)
}

/// A command that executes a program in a group.
pub fn command(group: &Path, program: &Path) -> Command {
    let mut command = Command::new("sh");
    // 0 is the process that writes.
    command.args(["-c", "echo 0 >\"$0/cgroup.procs\" && exec \"$@\""]).arg(group).arg(program);
    command
}
