//! A running program whose controller is killed before each of its system calls, one time after the other, and that
//! notices nothing.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use hmtt_probe::control::{Abandoned, LogOutput, Output, Start, Tagged, follow};
use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::{Mapping, Process, mappings};
use hmtt_probe::selection::Selection;
use hmtt_probe::stubs::layout::{LogShape, WhenFull};
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Controllers that are killed, for each way of tagging each program.
const KILLS: usize = 90;
/// What a controller says when it cannot tag.
const FAILED: i32 = 9;

struct Lives {
    child: Child,
    output: ChildStdout,
    image: Image,
}

impl Lives {
    fn build(folder: &Path) -> Option<Image> {
        let program = folder.join("lives");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lives.c");
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

    fn start(image: &Image, words: &[&str]) -> Self {
        let mut command = Command::new(&image.path);
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut lives = Lives { child, output, image: image.clone() };
        lives.hear(b's');
        lives
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn hear(&mut self, expected: u8) {
        let mut byte = [0];
        self.output.read_exact(&mut byte).expect("it lives");
        assert_eq!(byte, [expected]);
    }

    fn answer(&mut self, question: u8) {
        self.child.stdin.as_mut().unwrap().write_all(&[question]).unwrap();
        self.hear(question.wrapping_add(1));
    }

    /// Takes out what a killed controller has left.
    fn clean(&self) {
        clean(self.pid());
        let process = Process::attach(self.pid()).unwrap();
        let text = &self.image.text;
        let is_text = |one: &Mapping| one.executable && one.path == self.image.path;
        let mapped = mappings(self.pid()).unwrap().into_iter().find(is_text).unwrap();
        let page = text[0].offset / 4096 * 4096;
        for text in text {
            let mut there = vec![0; text.bytes.len()];
            process.read(mapped.start + text.offset - page, &mut there).unwrap();
            assert!(there == text.bytes);
        }
        process.detach().unwrap();
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(text, "0 1\n");
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

/// Does something, and is killed at the beginning of its `last`th system call, or when it waits for what the
/// program does. How many there were.
fn killed(lives: &Lives, work: Work, last: usize) -> usize {
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
    let (mut calls, mut begins) = (0, true);
    let mut signal = None;
    loop {
        ptrace::syscall(child, signal.take()).unwrap();
        match waitpid(child, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::PtraceSyscall(_) if begins => {
                calls += 1;
                let number = ptrace::getregs(child).unwrap().orig_rax as i64;
                if calls == last || number == libc::SYS_rt_sigtimedwait {
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
    let Some(image) = Lives::build(folder.path()) else { return };
    for words in [&[][..], &["computes"]] {
        let mut lives = Lives::start(&image, words);
        if let Err(error) = Process::attach(lives.pid()).and_then(Process::detach) {
            eprintln!("skipped: {error}");
            lives.end();
            return;
        }
        for work in [Work::Count, Work::Log] {
            let calls = killed(&lives, work, usize::MAX);
            lives.answer(1);
            for number in 0..KILLS {
                let last = 1 + number * calls / (KILLS - 1);
                killed(&lives, work, last);
                lives.answer(number as u8);
                if number % 3 == 1 {
                    killed(&lives, Work::Clean, 1 + number * 7 % 400);
                    lives.answer(number as u8);
                }
                if number % 3 != 0 {
                    lives.clean();
                    lives.answer(!number as u8);
                }
            }
            lives.clean();
        }
        lives.end();
    }
}
