//! Ends a tracer while threads are stopped before the delivery of a signal: the program gets the
//! signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use hmtt_probe::ptrace::{SignalNumber, Status, resume, wait};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Prints what it gets, and ends when its input does.
const PROGRAM: &str = "trap 'echo caught' USR1; echo ready; read line; cat; echo end";
/// Exit statuses of a tracer.
const FOUND: i32 = 0;
const FORBIDDEN: i32 = 1;
const WRONG: i32 = 2;

fn start() -> Child {
    let mut command = Command::new("sh");
    let pipes = command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut line = String::new();
    // The program writes no more until it gets a signal or input.
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Ends the input of a program, and returns how often it has printed that it got a signal. Signals
/// that it gets in quick succession count as one.
fn caught(mut child: Child) -> usize {
    let _ = child.stdin.take().unwrap().write_all(b"\n");
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    text.lines().filter(|line| *line == "caught").count()
}

/// Runs a tracer of these programs, to which a signal was sent, in a process of its own. Returns
/// its exit status.
fn traced(programs: &[Pid], tracer: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child makes system calls, and uses memory of this thread only.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let seize = |pid: &Pid| ptrace::seize(*pid, ptrace::Options::empty());
            let is_traced = programs.iter().all(|pid| seize(pid).is_ok());
            let send = |pid: &Pid| kill(*pid, Signal::SIGUSR1).is_ok();
            let status = if !(is_traced && programs.iter().all(send)) {
                FORBIDDEN
            } else if tracer() {
                FOUND
            } else {
                WRONG
            };
            // SAFETY: exit handlers of the parent must not run in the child.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, status) => status,
            other => panic!("{other:?}"),
        },
    }
}

fn is_at_signal(status: nix::Result<Status>) -> Option<Pid> {
    match status {
        Ok(Status::Stopped(thread, signal)) if signal == Signal::SIGUSR1 => Some(thread),
        _ => None,
    }
}

#[test]
fn a_signal_arrives_although_the_tracer_dies_before_its_delivery() {
    let program = start();
    let thread = pid(&program);
    let wait_once = || is_at_signal(wait(Some(thread), WaitPidFlag::__WALL)) == Some(thread);
    match traced(&[thread], wait_once) {
        FORBIDDEN => {
            eprintln!("skipped: this process may not trace others");
            assert_eq!(caught(program), 0);
        }
        status => assert_eq!((status, caught(program)), (FOUND, 1)),
    }
}

#[test]
fn each_stop_of_several_threads_is_returned_once() {
    let programs = [start(), start()];
    let threads = programs.each_ref().map(pid);
    let tracer = || {
        let stopped_threads = [(); 2].map(|()| is_at_signal(wait(None, WaitPidFlag::__WALL)));
        let is_each = threads.iter().all(|thread| stopped_threads.contains(&Some(*thread)));
        let none = wait(None, WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
        let caught = Some(SignalNumber(Signal::SIGUSR1 as i32));
        let is_resumed = threads.iter().all(|thread| resume(*thread, caught).is_ok());
        // The same signal stops a thread again.
        let is_sent = kill(threads[0], Signal::SIGUSR1).is_ok();
        let again = is_at_signal(wait(None, WaitPidFlag::__WALL));
        is_each
            && none == Ok(Status::StillAlive)
            && is_resumed
            && is_sent
            && again == Some(threads[0])
    };
    match traced(&threads, tracer) {
        FORBIDDEN => {
            eprintln!("skipped: this process may not trace others");
            assert_eq!(programs.map(caught), [0, 0]);
        }
        status => {
            let [first, second] = programs.map(caught);
            assert!(status == FOUND && (1..=2).contains(&first) && second == 1, "{first} {second}");
        }
    }
}
