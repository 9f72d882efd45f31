//! A running program whose controller is killed before each of its system calls, one time after the other, and that
//! notices nothing.

mod lives;
mod state;

use std::path::Path;
use std::process::Command;

use hmtt_probe::control::{Abandoned, LogOutput, Output, Start, Tagged, follow};
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::Process;
use hmtt_probe::selection::Selection;
use hmtt_probe::stubs::layout::{LogShape, WhenFull};
use lives::Lives;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use state::State;

/// Controllers that are killed, for each way of tagging each program.
const KILLS: usize = 90;
/// Calls between two moments at which a controller is killed that follows a program which gets signals: less than one
/// signal takes, and no divisor of that.
const STEP: usize = 11;
/// How often it is tried to take everything out.
const TRIES: usize = 100;
/// What a controller says when it cannot tag.
const FAILED: i32 = 9;

/// Builds the program; `None` when skipped.
fn build(folder: &Path) -> Option<Image> {
    let (source, program) = (folder.join("lives.c"), folder.join("lives"));
    std::fs::write(&source, lives::SOURCE).unwrap();
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
    /// Takes out what another one has left.
    Clean,
}

/// Tags it, for ever.
fn control(pid: Pid, image: Image, output: Output) -> i32 {
    let tagged = Process::attach(pid)
        .map_err(Into::into)
        .and_then(|process| Tagged::new(process, image, Selection::default(), output, Start::Now));
    let followed = tagged.and_then(|tagged| follow(tagged, SigSet::empty(), |_| {}));
    eprintln!("{:?}", followed.map(|(_, ending)| ending));
    FAILED
}

/// Takes out what a killed controller has left.
fn clean(pid: Pid) -> i32 {
    Abandoned::find(Process::attach(pid).unwrap()).unwrap().restore().unwrap();
    0
}

/// The same, until nothing is left: a handler may have to return first.
fn clean_all(pid: Pid) {
    let is_clean = || {
        let abandoned = Abandoned::find(Process::attach(pid).unwrap()).unwrap();
        abandoned.restore().unwrap().is_nothing()
    };
    assert!((0..TRIES).any(|_| is_clean()), "something stays");
}

/// When a controller is killed: at the beginning of one of its system calls.
#[derive(Clone, Copy)]
enum Moment {
    /// This one, counted from 1, or the first by which it waits for what the program does.
    Beginning(usize),
    /// So many after that one.
    Following(usize),
}

/// Does something, and is killed at some moment. How many system calls there were.
fn killed(lives: &Lives, work: Work, moment: Moment) -> usize {
    let (is_timed, when_full) = (false, WhenFull::Drop);
    let shape = LogShape { is_timed, chunk_bytes: 1 << 16, chunks: 2, when_full };
    let file = tempfile::tempfile().unwrap();
    let log = Output::Log(LogOutput { file, shape, map_id: [0; 8], marks: None });
    let (pid, image) = (lives.pid(), lives.image.clone());
    // SAFETY: our other thread only waits for this one, and holds no lock.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            ptrace::traceme().unwrap();
            raise(Signal::SIGSTOP).unwrap();
            let status = match work {
                Work::Count => control(pid, image, Output::Counts),
                Work::Log => control(pid, image, log),
                Work::Clean => clean(pid),
            };
            // SAFETY: what the parent has registered is not for us.
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
                let is_it = match (moment, waited) {
                    (Moment::Beginning(last), waited) => calls == last || waited.is_some(),
                    (Moment::Following(last), waited) => {
                        waited.is_some_and(|waited| calls == waited + last)
                    }
                };
                if is_it {
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
    ptrace::kill(child).unwrap();
    assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Signaled(..)));
    calls
}

#[test]
fn a_program_outlives_its_controller_whenever_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = build(folder.path()) else { return };
    for words in [&[][..], &["computes"]] {
        let mut lives = Lives::start(image.clone(), words);
        if let Err(error) = Process::attach(lives.pid()).and_then(Process::detach) {
            eprintln!("skipped: {error}");
            lives.end();
            return;
        }
        let before = State::of(lives.pid());
        for work in [Work::Count, Work::Log] {
            let calls = killed(&lives, work, Moment::Beginning(usize::MAX));
            lives.answer(1);
            for number in 0..KILLS {
                let last = 1 + number * calls / (KILLS - 1);
                killed(&lives, work, Moment::Beginning(last));
                lives.answer(number as u8);
                if number % 3 == 1 {
                    killed(&lives, Work::Clean, Moment::Beginning(1 + number * 7 % 400));
                    lives.answer(number as u8);
                }
                if number % 3 != 0 {
                    clean(lives.pid());
                    assert!(lives.is_plain());
                    lives.answer(!number as u8);
                }
            }
            let gets_signals = !words.is_empty();
            for number in (0..KILLS / 3).filter(|_| gets_signals) {
                killed(&lives, work, Moment::Following(STEP * number));
                lives.answer(number as u8);
            }
            clean_all(lives.pid());
            assert!(lives.is_plain());
            let after = State::of(lives.pid());
            assert!(before == after, "{}", before.difference(&after));
        }
        lives.end();
    }
}
