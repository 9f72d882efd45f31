//! Attaches to a running program with threads and detaches from it, a thousand times: the program
//! must not be affected.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use hmtt_probe::control::{Ending, Output, Start, Tagged, follow};
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::{Mapping, Process, mappings};
use hmtt_probe::selection::Selection;
use libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{Pid, gettid};

/// Program to be tagged: threads begin and end, signals arrive, and functions of all kinds are
/// called, until it reads from standard input.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>
static atomic_int stop;
static atomic_long handled, worked, wrong;
__attribute__((noipa)) long leaf(long n) { return n * 3 + 1; }
__attribute__((noipa)) long odd(long n);
__attribute__((noipa)) long even(long n) { return n == 0 ? 1 : odd(n - 1); }
__attribute__((noipa)) long odd(long n) { return n == 0 ? 0 : even(n - 1); }
__attribute__((noipa)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void handler(int number) { (void)number; handled += leaf(1) == 4; }
static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < 200 && !stop; i++) wrong += fib(12) != 144 || !even(20) || leaf(5) != 16;
    worked++;
    return 0;
}
static void *wait_for_end(void *unused) { (void)unused; getchar(); stop = 1; return 0; }
int main(void) {
    pthread_t waits, t[3];
    struct itimerval often = { { 0, 700 }, { 0, 700 } };
    puts("started"); fflush(stdout);
    pthread_create(&waits, 0, wait_for_end, 0);
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, 0);
    while (!stop) {
        for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, 0);
        for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    }
    pthread_join(waits, 0);
    printf("%ld %d %d\n", wrong, handled > 0, worked > 0);
    return 0;
}
"#;
const CYCLES: usize = 1000;

fn start(folder: &Path) -> Option<Child> {
    let (source, program) = (folder.join("cycles.c"), folder.join("cycles"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-O2", "-pthread", "-o"]).args([&program, &source]).status();
    match built {
        Err(error) => {
            eprintln!("skipped: cc: {error}");
            return None;
        }
        Ok(status) => assert!(status.success()),
    }
    let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    Some(child.unwrap())
}

/// ID of the thread that follows the program.
static FOLLOWER: AtomicI32 = AtomicI32::new(0);

extern "C" fn forward(signal: c_int) {
    let follower = FOLLOWER.load(Ordering::Relaxed);
    // SAFETY: signals a thread of this process, which has the signal blocked; handlers may make
    // this call.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), follower, signal) };
}

/// Sends SIGCHLD to this thread. Another thread of the test harness has not blocked the signal, and
/// where one thread has not blocked it, it is lost for those that wait for it.
fn route_child_signals() {
    FOLLOWER.store(gettid().as_raw(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::Handler(forward), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler makes one system call, which handlers may make.
    unsafe { sigaction(Signal::SIGCHLD, &action) }.unwrap();
}

/// Tags a process, lets it run for some time, and removes the tags. Returns the number of calls
/// that were counted, and whether no memory of tags remains.
fn cycle(pid: Pid, image: &Image, time: Duration) -> (u64, bool) {
    let process = Process::attach(pid).unwrap();
    let selection = Selection::default();
    let output = if time.is_zero() { Output::None } else { Output::Counts };
    let tagged = Tagged::new(process, image.clone(), selection, output, Start::Now).unwrap();
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGUSR1);
    let (process, thread) = (Pid::this().as_raw(), gettid().as_raw());
    let bell = std::thread::spawn(move || {
        std::thread::sleep(time);
        // SAFETY: signals a thread of this process, which waits for it.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) }
    });
    let (tagged, ending) = follow(tagged, signals, |_| {}).unwrap();
    assert_eq!(ending, Ending::Detached);
    assert_eq!(bell.join().unwrap(), 0);
    let calls = tagged.counts().iter().flat_map(|thread| thread.entries.clone()).sum();
    (calls, tagged.restore().unwrap().remaining.is_nothing())
}

#[test]
fn a_program_survives_a_thousand_attaches_and_detaches() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut child) = start(folder.path()) else { return };
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let image = Image::read(&folder.path().join("cycles")).unwrap();
    if let Err(error) = Process::attach(pid).and_then(Process::detach) {
        eprintln!("skipped: {error}");
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    }
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGUSR1);
    blocked.add(Signal::SIGCHLD);
    blocked.thread_block().unwrap();
    route_child_signals();
    let (mut seen, mut left) = (0, 0);
    for number in 0..CYCLES {
        let (calls, is_out) = cycle(pid, &image, Duration::from_micros(300 * (number as u64 % 7)));
        seen += usize::from(calls > 0);
        left += usize::from(!is_out);
    }
    let mut process = Process::attach(pid).unwrap();
    let mut there = vec![0; image.text[0].bytes.len()];
    // Stubs that had to stay are executable too.
    let is_text = |mapping: &Mapping| mapping.executable && mapping.path == image.path;
    let mapped = mappings(pid).unwrap().into_iter().find(is_text).unwrap();
    process.stopped().unwrap().read(mapped.start, &mut there).unwrap();
    process.detach().unwrap();
    assert!(there == image.text[0].bytes);
    let ours = mappings(pid).unwrap();
    let ours =
        ours.iter().filter(|mapping| mapping.path.to_string_lossy().contains("hmtt-tag")).count();
    assert!(ours <= left, "{ours} mappings of tags, {left} times memory had to stay");
    assert!(left * 10 < CYCLES, "{left} of {CYCLES} times memory had to stay");

    assert!(seen > 0, "no call was seen in any of {CYCLES} times");
    drop(child.stdin.take());
    line.clear();
    output.read_to_string(&mut line).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(line, "0 1 1\n");
}
