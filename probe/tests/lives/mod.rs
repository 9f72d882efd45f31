//! A running program that tells whether all it does still goes right: threads, signals and waits of many kinds.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::mappings;
use nix::unistd::Pid;

/// The program, in C.
pub const SOURCE: &str = include_str!("lives.c");

/// The running program.
pub struct Lives {
    child: Child,
    output: ChildStdout,
    pub image: Image,
}

impl Lives {
    /// Starts it. `image`: its file.
    pub fn start(image: Image, words: &[&str]) -> Self {
        let mut command = Command::new(&image.path);
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut lives = Lives { child, output, image };
        lives.hear(b's');
        lives
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn hear(&mut self, expected: u8) {
        let mut byte = [0];
        self.output.read_exact(&mut byte).expect("it lives");
        assert_eq!(byte, [expected]);
    }

    /// Asks something, and waits for the answer.
    pub fn answer(&mut self, question: u8) {
        self.child.stdin.as_mut().unwrap().write_all(&[question]).unwrap();
        self.hear(question.wrapping_add(1));
    }

    /// Whether its instructions are those of its file.
    pub fn is_plain(&self) -> bool {
        let text = &self.image.text;
        let mapped = mappings(self.pid()).unwrap();
        let mapping = mapped.iter().find(|one| one.executable && one.path == self.image.path);
        let start = mapping.unwrap().start - text[0].offset / 4096 * 4096;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        text.iter().all(|text| {
            let mut there = vec![0; text.bytes.len()];
            memory.read_exact_at(&mut there, start + text.offset).unwrap();
            there == text.bytes
        })
    }

    /// Lets it end: it says that nothing went wrong.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(text, "0 1\n");
    }
}
