//! Kills the controller of a running program at many different system calls of the controller: the
//! program must not be affected.

mod state;
mod workload;

use std::path::Path;
use std::process::Command;

use hmtt_probe::control::{AbandonedTags, LogOutput, Output, Start, Tagged, follow};
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::Process;
use hmtt_probe::selection::Selection;
use hmtt_probe::stubs::layout::{LogShape, WhenFull};
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use state::State;
use workload::Workload;

/// Number of controllers that are killed, for each way of tagging each program.
const KILLS: usize = 90;
/// Number of system calls from one moment of killing to the next, for a controller that follows a
/// program which receives signals: less than one signal takes, and no divisor of that.
const STEP: usize = 11;
/// Most attempts to remove all tags.
const TRIES: usize = 100;
/// Exit status of a controller that cannot tag.
const FAILED: i32 = 9;

/// Builds the program; `None` if there is no compiler.
fn build(folder: &Path) -> Option<Image> {
    let (source, program) = (folder.join("workload.c"), folder.join("workload"));
    std::fs::write(&source, workload::SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    match compiler.args(["-O2", "-pthread", "-o"]).args([&program, &source]).status() {
        Err(error) => {
            eprintln!("skipped: cc: {error}");
            None
        }
        Ok(status) => {
            assert!(status.success());
            Some(Image::read(&program).unwrap())
        }
    }
}

/// What a controller does.
#[derive(Clone, Copy)]
enum Work {
    Count,
    Log,
    /// Removes the tags that another controller has left.
    Clean,
}

/// Tags a process and follows it until this controller is killed.
fn control(pid: Pid, image: Image, output: Output) -> i32 {
    let tagged = Process::attach(pid)
        .map_err(Into::into)
        .and_then(|process| Tagged::new(process, image, Selection::default(), output, Start::Now));
    let followed = tagged.and_then(|tagged| follow(tagged, SigSet::empty(), |_| {}));
    eprintln!("{:?}", followed.map(|(_, ending)| ending));
    FAILED
}

/// Removes the tags that a killed controller has left.
fn clean(pid: Pid) -> i32 {
    AbandonedTags::find(Process::attach(pid).unwrap()).unwrap().restore().unwrap();
    0
}

/// Removes the tags until no memory of tags remains: a signal handler may have to return first.
fn clean_all(pid: Pid) {
    let is_clean = || {
        let abandoned = AbandonedTags::find(Process::attach(pid).unwrap()).unwrap();
        abandoned.restore().unwrap().is_nothing()
    };
    assert!((0..TRIES).any(|_| is_clean()), "memory of tags remains");
}

/// When a controller is killed: at the beginning of one of its system calls.
#[derive(Clone, Copy)]
enum Moment {
    /// At this system call, counted from 1, or at the first `rt_sigtimedwait`, by which it waits
    /// for events of the program.
    Beginning(usize),
    /// So many system calls after the first `rt_sigtimedwait`.
    Following(usize),
}

/// Runs a controller and kills it at some moment. Returns the number of system calls that it has
/// made.
fn killed(workload: &Workload, work: Work, moment: Moment) -> usize {
    killed_after(workload, work, moment, || {})
}

/// Runs a controller and kills it at some moment. `before`: called while the controller is stopped
/// there.
fn killed_after(workload: &Workload, work: Work, moment: Moment, before: impl FnOnce()) -> usize {
    let (is_timed, when_full) = (false, WhenFull::Drop);
    let shape = LogShape { is_timed, chunk_bytes: 1 << 16, chunks: 2, when_full };
    let file = tempfile::tempfile().unwrap();
    let log =
        Output::Log(LogOutput { file, path: "log".into(), shape, map_id: [0; 8], marks: None });
    let (pid, image) = (workload.pid(), workload.image.clone());
    // SAFETY: the other thread of this process only waits for this one, and holds no lock.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            ptrace::traceme().unwrap();
            raise(Signal::SIGSTOP).unwrap();
            let status = match work {
                Work::Count => control(pid, image, Output::Counts),
                Work::Log => control(pid, image, log),
                Work::Clean => clean(pid),
            };
            // SAFETY: exit handlers of the parent must not run in the child.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => child,
    };
    waitpid(child, None).unwrap();
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(child, options).unwrap();
    let (mut calls, mut begins, mut waited) = (0, true, None);
    let mut signal = None;
    loop {
        ptrace::syscall(child, signal.take()).unwrap();
        match waitpid(child, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::PtraceSyscall(_) if begins => {
                calls += 1;
                let number = ptrace::getregs(child).unwrap().orig_rax as i64;
                if number == libc::SYS_rt_sigtimedwait {
                    waited = waited.or(Some(calls));
                }
                let is_moment = match (moment, waited) {
                    (Moment::Beginning(last), waited) => calls == last || waited.is_some(),
                    (Moment::Following(last), waited) => {
                        waited.is_some_and(|waited| calls == waited + last)
                    }
                };
                if is_moment {
                    break;
                }
                begins = false;
            }
            WaitStatus::PtraceSyscall(_) => begins = true,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::Exited(_, 0) => return calls,
            other => panic!("{other:?}"),
        }
    }
    before();
    ptrace::kill(child).unwrap();
    assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Signaled(..)));
    calls
}

#[test]
fn a_program_survives_its_controller_whenever_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = build(folder.path()) else { return };
    for words in [&[][..], &["computes"]] {
        let mut workload = Workload::start(image.clone(), words);
        if let Err(error) = Process::attach(workload.pid()).and_then(Process::detach) {
            eprintln!("skipped: {error}");
            workload.end();
            return;
        }
        let before = State::of(workload.pid());
        for work in [Work::Count, Work::Log] {
            let calls = killed(&workload, work, Moment::Beginning(usize::MAX));
            workload.answer(1);
            for number in 0..KILLS {
                let last = 1 + number * calls / (KILLS - 1);
                killed(&workload, work, Moment::Beginning(last));
                workload.answer(number as u8);
                if number % 3 == 1 {
                    killed(&workload, Work::Clean, Moment::Beginning(1 + number * 7 % 400));
                    workload.answer(number as u8);
                }
                if number % 3 != 0 {
                    clean(workload.pid());
                    assert!(workload.has_original_code());
                    workload.answer(!number as u8);
                }
            }
            let gets_signals = !words.is_empty();
            for number in (0..KILLS / 3).filter(|_| gets_signals) {
                killed(&workload, work, Moment::Following(STEP * number));
                workload.answer(number as u8);
            }
            clean_all(workload.pid());
            assert!(workload.has_original_code());
            let after = State::of(workload.pid());
            assert!(before == after, "{}", before.difference(&after));
        }
        workload.end();
    }
}

/// A stopped program has not begun the system call for which the controller has prepared it, and
/// makes it when it is continued: not before another controller has tried to remove the tags.
#[test]
fn a_system_call_that_a_killed_controller_has_prepared_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = build(folder.path()) else { return };
    let mut workload = Workload::start(image, &[]);
    if let Err(error) = Process::attach(workload.pid()).and_then(Process::detach) {
        eprintln!("skipped: {error}");
        return workload.end();
    }
    let before = State::of(workload.pid());
    let send = |pid, signal| nix::sys::signal::kill(pid, signal).unwrap();
    for work in [Work::Count, Work::Log] {
        let calls = killed(&workload, work, Moment::Beginning(usize::MAX));
        clean_all(workload.pid());
        for moment in (1..=calls).step_by(calls.div_ceil(2 * KILLS)) {
            let pid = workload.pid();
            let stop = || send(pid, Signal::SIGSTOP);
            killed_after(&workload, work, Moment::Beginning(moment), stop);
            clean(pid);
            send(pid, Signal::SIGCONT);
            clean_all(pid);
            workload.answer(moment as u8);
            let after = State::of(pid);
            assert!(before == after, "call {moment}: {}", before.difference(&after));
        }
    }
    workload.end();
}
