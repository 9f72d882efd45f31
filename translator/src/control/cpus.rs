//! Chooses the CPU on which the monitor of a process runs, so that the process and its monitor
//! share no core if possible.

use std::collections::BTreeSet;
use std::io;

use nix::unistd::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of CPU numbers.
type Cpus = BTreeSet<usize>;

/// The CPUs on which a thread may run; 0 is the calling thread. Empty if they are not known.
fn allowed(pid: i32) -> Cpus {
    let set = sched_getaffinity(rustix::thread::Pid::from_raw(pid));
    set.map_or_else(
        |_| Cpus::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
    )
}

/// Parses a list of CPUs as the kernel prints it, such as `0,4-6`.
fn parse(list: &str) -> Cpus {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(CpuSet::MAX_CPU).collect()
}

/// The CPU on which the first thread of a process ran last (proc(5), `stat`).
fn last_cpu(pid: Pid) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and may contain spaces. The state is field 3, the
    // CPU field 39.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(39 - 3)?.parse().ok()
}

/// The CPUs that share a core with a CPU, including itself.
fn siblings(cpu: usize) -> Cpus {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path).map_or_else(|_| Cpus::new(), |list| parse(&list))
}

/// Chooses the best of the CPUs in `own`; `None` if there are fewer than two. A CPU that the
/// process may not use is best, then one on another core than `core`, then one other than `last`.
/// `process`: CPUs that the process may use. `last`: CPU on which it ran last. `core`: CPUs of the
/// same core as `last`. `any`: a number that selects one of several equally good CPUs, so that not
/// all monitors run on the same one.
fn best(own: &Cpus, process: &Cpus, last: Option<usize>, core: &Cpus, any: usize) -> Option<usize> {
    if own.len() < 2 {
        return None;
    }
    let rank = |cpu: &usize| (!process.contains(cpu), !core.contains(cpu), Some(*cpu) != last);
    let most = own.iter().map(rank).max();
    let good: Vec<usize> = own.iter().copied().filter(|cpu| Some(rank(cpu)) == most).collect();
    good.get(any % good.len().max(1)).copied()
}

/// Chooses a CPU for the monitor of a stopped process: preferably one that the process may not use,
/// or one on another core than the process used last. `None` if there is only one CPU.
pub fn choose(pid: Pid) -> Option<usize> {
    let last = last_cpu(pid);
    let core = last.map(siblings).unwrap_or_default();
    best(&allowed(0), &allowed(pid.as_raw()), last, &core, pid.as_raw() as usize)
}

/// Checks that this process may run on a CPU.
///
/// # Errors
/// An error if this process may not run on the CPU, or there is no such CPU.
pub fn check(cpu: usize) -> io::Result<()> {
    let own = allowed(0);
    if own.is_empty() || own.contains(&cpu) {
        return Ok(());
    }
    let names: Vec<String> = own.iter().map(usize::to_string).collect();
    Err(io::Error::other(format!("it is not one of those that hmtt may use: {}", names.join(", "))))
}

/// Restricts this thread to one CPU. If that fails, the thread may run on any CPU.
pub fn pin(cpu: usize) {
    if cpu < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_of_its_own_is_preferred() {
        let [own, core] = [parse("0-7"), parse("3,7")];
        // Not where the process is, nor on the same core; others are used in turn.
        for (any, cpu) in [0, 1, 2, 4, 5, 6, 0].into_iter().enumerate() {
            assert_eq!(best(&own, &own, Some(7), &core, any), Some(cpu));
        }
        // Where the process may not run.
        assert_eq!(best(&own, &parse("4-7"), Some(7), &core, 5), Some(2));
        // Only two threads of one core are available.
        assert_eq!(best(&parse("3,7"), &own, Some(7), &core, 5), Some(3));
        assert_eq!(best(&parse("3"), &own, Some(7), &core, 5), None);
        assert_eq!(best(&parse("0,1"), &own, None, &Cpus::new(), 5), Some(1));
    }

    #[test]
    fn lists_of_the_kernel_are_parsed() {
        assert_eq!(parse("0,4-6\n"), Cpus::from([0, 4, 5, 6]));
        assert_eq!(parse("0-18446744073709551615").len(), CpuSet::MAX_CPU);
        assert_eq!(parse("x,-,7-5"), Cpus::new());
    }

    #[test]
    fn this_process_runs_on_an_allowed_cpu() {
        let (own, last) = (allowed(0), last_cpu(Pid::this()).unwrap());
        assert!(own.contains(&last), "{last} of {own:?}");
        assert!(check(last).is_ok() && check(CpuSet::MAX_CPU).is_err());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(last);
                assert_eq!(allowed(0), Cpus::from([last]));
            });
        });
        assert_eq!(allowed(0), own);
    }
}
