//! A running program that checks that it works correctly, with threads, signals and waits of many
//! kinds.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use hmtt_probe::elf::Image;
use hmtt_probe::ptrace::mappings;
use nix::unistd::Pid;

/// Source of the program, in C.
pub const SOURCE: &str = include_str!("workload.c");

/// The running program.
pub struct Workload {
    child: Child,
    output: ChildStdout,
    pub image: Image,
}

impl Workload {
    /// Starts the program. `image`: the program's file.
    pub fn start(image: Image, words: &[&str]) -> Self {
        let mut command = Command::new(&image.path);
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut workload = Workload { child, output, image };
        workload.expect(b's');
        workload
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn expect(&mut self, expected: u8) {
        let mut byte = [0];
        self.output.read_exact(&mut byte).expect("the program runs");
        assert_eq!(byte, [expected]);
    }

    /// Sends a byte to the program, and waits for the answer.
    pub fn answer(&mut self, question: u8) {
        self.child.stdin.as_mut().unwrap().write_all(&[question]).unwrap();
        self.expect(question.wrapping_add(1));
    }

    /// Whether the program's code in memory is that of its file.
    pub fn has_original_code(&self) -> bool {
        let text = &self.image.text;
        let mapped = mappings(self.pid()).unwrap();
        let mapping =
            mapped.iter().find(|mapping| mapping.executable && mapping.path == self.image.path);
        let start = mapping.unwrap().start - text[0].offset / 4096 * 4096;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        text.iter().all(|text| {
            let mut there = vec![0; text.bytes.len()];
            memory.read_exact_at(&mut there, (start + text.offset).0).unwrap();
            there == text.bytes
        })
    }

    /// Ends the program, and requires that it reports no failed check.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(text, "0 1\n");
    }
}
