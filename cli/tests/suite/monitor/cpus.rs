//! Tests on which CPU the monitor thread runs.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{SPINS, hmtt_monitor};
use crate::skipped;
use crate::tag::build;

/// CPUs on which a thread may run, as the kernel prints them.
fn allowed(task: &Path) -> String {
    let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

/// CPUs of the monitor thread of a command, once it has one; `None` if there is none before the
/// command ends.
fn monitor_cpus(options: &[&str], program: &Path) -> Option<String> {
    let mut command = hmtt_monitor(&[&["run"], options, &["-o", "/dev/null", "--"]].concat());
    let mut running = command.arg(program).stderr(Stdio::null()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", running.id());
    let mut cpus = None;
    while cpus.is_none() && running.try_wait().unwrap().is_none() {
        let task_paths =
            std::fs::read_dir(&tasks).into_iter().flatten().flatten().map(|task| task.path());
        let is_monitor = |task: &Path| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "monitor\n")
        };
        // The thread is pinned when it starts, which is before the program has worked for some
        // time.
        let children = format!("/proc/{0}/task/{0}/children", running.id());
        let child = std::fs::read_to_string(children).unwrap_or_default();
        let child = Path::new("/proc").join(child.trim()).join("stat");
        let has_worked = std::fs::read_to_string(child).ok().and_then(|stat| {
            let (_, fields) = stat.rsplit_once(')')?;
            fields.split_whitespace().nth(14 - 3)?.parse().ok()
        });
        if has_worked.is_some_and(|ticks: u64| ticks > 1) {
            cpus = task_paths.into_iter().find(|task| is_monitor(task)).map(|task| allowed(&task));
        }
    }
    assert_eq!(running.wait().unwrap().code(), Some(0));
    cpus
}

#[test]
fn the_monitor_runs_on_a_cpu_of_its_own() {
    let Some(program) = build("monitor-spins", SPINS, &[]) else { return };
    let own = allowed(Path::new("/proc/self"));
    let first = own.split([',', '-']).next().unwrap();
    assert_eq!(monitor_cpus(&["--cpu", first], &program).as_deref(), Some(first));
    if own == first {
        return skipped("there is one CPU only");
    }
    let chosen = monitor_cpus(&[], &program).unwrap();
    assert!(chosen.parse::<usize>().is_ok(), "{chosen}");
    assert_eq!(monitor_cpus(&["-f"], &program), Some(own));
}

#[test]
fn a_cpu_that_does_not_exist_is_refused_before_the_program_starts() {
    let mut command: Command = hmtt_monitor(&["run", "--cpu", "99999", "--", "echo", "started"]);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty());
    assert!(
        error.contains("cannot run on CPU 99999: it is not one of those that hmtt may use: "),
        "{error}"
    );
}
