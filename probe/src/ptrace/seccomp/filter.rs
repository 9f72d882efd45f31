//! Evaluates a seccomp filter, a program in classic BPF (Linux,
//! `Documentation/userspace-api/seccomp_filter.rst`).
//!
//! An evaluation returns an action only if every value that the action depends on is known. Jumps
//! lead forward only, so an evaluation takes at most as many steps as the program has instructions.
//! A program that the kernel would not accept has no action.

use std::fmt;

use super::Call;

/// `AUDIT_ARCH_X86_64` (Linux, `include/uapi/linux/audit.h`).
const ARCHITECTURE: u32 = 0xc000_003e;
/// Words of scratch memory (`BPF_MEMWORDS`), and bytes of `struct seccomp_data`.
const MEMORY: usize = 16;
const DATA_BYTES: u32 = 64;

/// The answer of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is made.
    Allow,
    /// The call is made and logged by the kernel.
    Log,
    /// The call fails with an error.
    Error,
    /// The thread gets `SIGSYS`.
    Trap,
    /// A tracer decides.
    Trace,
    /// Another process decides, and may return any result.
    UserNotification,
    /// The thread or the process is killed. Unknown answers have the same effect.
    Kill,
}

impl Action {
    /// Decodes a `SECCOMP_RET_*` value; its data are ignored.
    fn from_return_value(value: u32) -> Action {
        match value & 0xffff_0000 {
            0x7fff_0000 => Action::Allow,
            0x7ffc_0000 => Action::Log,
            0x0005_0000 => Action::Error,
            0x0003_0000 => Action::Trap,
            0x7ff0_0000 => Action::Trace,
            0x7fc0_0000 => Action::UserNotification,
            _ => Action::Kill,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Allow => "ALLOW",
            Action::Log => "LOG",
            Action::Error => "ERRNO",
            Action::Trap => "TRAP",
            Action::Trace => "TRACE",
            Action::UserNotification => "USER_NOTIF",
            Action::Kill => "KILL",
        })
    }
}

/// The input of a filter: the words of `struct seccomp_data`. `None` stands for an unknown word.
pub(crate) struct Data([Option<u32>; DATA_BYTES as usize / 4]);

impl Data {
    /// Encodes a system call as filters see it.
    pub fn new(call: &Call) -> Self {
        let mut words = [None; DATA_BYTES as usize / 4];
        words[0] = Some(call.number as u32);
        words[1] = Some(ARCHITECTURE);
        let longs = std::iter::once(&call.instruction_pointer).chain(&call.arguments);
        for (pair, long) in words[2..].chunks_exact_mut(2).zip(longs) {
            pair[0] = long.map(|long| long as u32);
            pair[1] = long.map(|long| (long >> 32) as u32);
        }
        Data(words)
    }

    fn load(&self, offset: u32) -> Option<u32> {
        let word = self.0.get(offset as usize / 4).filter(|_| offset.is_multiple_of(4));
        word.copied().flatten()
    }
}

/// A seccomp filter.
#[derive(Clone)]
pub(crate) struct Filter(Vec<libc::sock_filter>);

/// Registers and scratch memory during an evaluation. `None` stands for an unknown value.
#[derive(Default)]
struct State {
    a: Option<u32>,
    x: Option<u32>,
    memory: [Option<u32>; MEMORY],
}

impl Filter {
    /// Takes the instructions of a filter.
    pub fn new(code: Vec<libc::sock_filter>) -> Self {
        Filter(code)
    }

    /// Evaluates the filter. `None` if the answer depends on an unknown value.
    ///
    /// For example, a filter that loads the system call number, compares it with `write`, and
    /// returns `ALLOW` or `KILL`, gives [`Action::Allow`] for `write` even if no argument is known.
    pub fn run(&self, data: &Data) -> Option<Action> {
        let mut state = State { a: Some(0), x: Some(0), memory: [Some(0); MEMORY] };
        let mut at = 0usize;
        loop {
            let instruction = self.0.get(at)?;
            at += 1;
            match u32::from(instruction.code) {
                libc::BPF_RET => return Some(Action::from_return_value(instruction.k)),
                RET_A => return Some(Action::from_return_value(state.a?)),
                code if code & 7 == libc::BPF_JMP => at += state.jump(code, instruction)?,
                code => state.step(code, instruction.k, data)?,
            }
        }
    }
}

const RET_A: u32 = libc::BPF_RET | libc::BPF_A;
const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const LOAD_X_LENGTH: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_LEN;
const LOAD_CONSTANT: u32 = libc::BPF_LD | libc::BPF_IMM;
const LOAD_X_CONSTANT: u32 = libc::BPF_LDX | libc::BPF_IMM;
const LOAD_MEMORY: u32 = libc::BPF_LD | libc::BPF_MEM;
const LOAD_X_MEMORY: u32 = libc::BPF_LDX | libc::BPF_MEM;
const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
const TO_A: u32 = libc::BPF_MISC | libc::BPF_TXA;

impl State {
    /// Number of instructions that a jump skips. `None` if its condition depends on an unknown
    /// value, or filters cannot contain the jump.
    fn jump(&self, code: u32, instruction: &libc::sock_filter) -> Option<usize> {
        let operation = code & 0xf0;
        if operation == libc::BPF_JA {
            return Some(instruction.k as usize);
        }
        let (a, other) = (self.a?, self.operand(code, instruction.k)?);
        let holds = match operation {
            libc::BPF_JEQ => a == other,
            libc::BPF_JGT => a > other,
            libc::BPF_JGE => a >= other,
            libc::BPF_JSET => a & other != 0,
            _ => return None,
        };
        Some(usize::from(if holds { instruction.jt } else { instruction.jf }))
    }

    fn operand(&self, code: u32, k: u32) -> Option<u32> {
        if code & libc::BPF_X != 0 { self.x } else { Some(k) }
    }

    /// Executes an instruction; `None` if filters cannot contain it.
    fn step(&mut self, code: u32, k: u32, data: &Data) -> Option<()> {
        let scratch = k as usize;
        match code {
            LOAD => self.a = data.load(k),
            LOAD_LENGTH => self.a = Some(DATA_BYTES),
            LOAD_X_LENGTH => self.x = Some(DATA_BYTES),
            LOAD_CONSTANT => self.a = Some(k),
            LOAD_X_CONSTANT => self.x = Some(k),
            LOAD_MEMORY => self.a = *self.memory.get(scratch)?,
            LOAD_X_MEMORY => self.x = *self.memory.get(scratch)?,
            libc::BPF_ST => *self.memory.get_mut(scratch)? = self.a,
            libc::BPF_STX => *self.memory.get_mut(scratch)? = self.x,
            TO_X => self.x = self.a,
            TO_A => self.a = self.x,
            code if code & 7 == libc::BPF_ALU => {
                let other = self.operand(code, k);
                self.a = calculate(code & 0xf0, self.a, other)?;
            }
            _ => return None,
        }
        Some(())
    }
}

/// Computes an operation. The outer `None` means that the operation does not exist; the inner
/// `None` means that the result is unknown.
fn calculate(operation: u32, a: Option<u32>, other: Option<u32>) -> Option<Option<u32>> {
    let both = a.zip(other);
    Some(match operation {
        libc::BPF_ADD => both.map(|(a, b)| a.wrapping_add(b)),
        libc::BPF_SUB => both.map(|(a, b)| a.wrapping_sub(b)),
        libc::BPF_MUL => both.map(|(a, b)| a.wrapping_mul(b)),
        // A division by 0 makes the filter return 0 in the kernel, which kills the thread.
        libc::BPF_DIV => both.and_then(|(a, b)| a.checked_div(b)),
        libc::BPF_AND => both.map(|(a, b)| a & b),
        libc::BPF_OR => both.map(|(a, b)| a | b),
        libc::BPF_XOR => both.map(|(a, b)| a ^ b),
        libc::BPF_LSH => both.and_then(|(a, b)| a.checked_shl(b)),
        libc::BPF_RSH => both.and_then(|(a, b)| a.checked_shr(b)),
        libc::BPF_NEG => a.map(u32::wrapping_neg),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
