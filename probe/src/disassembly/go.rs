//! Functions of Go to what may be changed in them.
//!
//! Go's runtime finds functions by their addresses (`pclntab`). An address in a stub is none of them, so nothing may
//! happen there that the runtime looks up: a fault becomes a panic by the function it is in, a goroutine can only
//! be interrupted, and its stack copied, where the runtime knows the function. Invariants of what is moved:
//!
//! - it cannot fault, and holds no call or system call: the runtime never sees an address of a stub on a stack;
//! - it holds no branch back: no loop is without an instruction that is where it was, and where the runtime can
//!   interrupt it.
//!
//! Most functions begin with a check of the stack:
//!
//! ```text
//! start:  cmp rsp, [r14+16]       or lea r12, [rsp-N]; cmp r12, [r14+16], or two checks if N is large
//!         jbe grow
//!         ...
//! grow:   call runtime.morestack_noctxt      copies the stack elsewhere; also how goroutines are asked to pause
//!         jmp start
//! ```
//!
//! The tag of the entry comes behind it, where a call arrives once, whether its stack has grown or not; there also is
//! room for what a tag of a log writes below the stack pointer, at least `StackGuard` of 928 bytes. Functions without
//! the check have at most what those that called them left.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::call::Call;
use super::{Refusal, branch_target, bytes_of, instructions, is_call};
use crate::elf::Image;

/// Longest check, in instructions.
const LONGEST: usize = 8;
/// How far from where its branch leads the call is that makes the stack grow: registers are saved before, at most
/// 9 whole ones and 15 of floating point.
const AHEAD: usize = 32;
/// What a function's context begins with: `g.stackguard0` and `g.stackguard1`, for C.
const GUARDS: [u64; 2] = [16, 24];

/// What Go's runtime makes of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Runtime {
    /// Whether it is a function of Go.
    pub is_go: bool,
    /// Why it cannot be changed.
    pub refusal: Option<Refusal>,
    /// Whether the runtime, or what is close to it, has it.
    pub is_runtime: bool,
    /// How many instructions check the stack.
    pub check: usize,
}

impl Runtime {
    /// Of a function, or of a part of one.
    pub fn of(image: &Image, function: &Range<u64>, instructions: &[Instruction]) -> Runtime {
        let Some(go) = &image.go else { return Runtime::default() };
        if !go.is_known() {
            let refusal = Some(Refusal::GoVersion);
            return Runtime { is_go: true, refusal, ..Runtime::default() };
        }
        let Some(known) = go.function_at(function.start) else { return Runtime::default() };
        Runtime {
            is_go: true,
            refusal: known.is_special.then_some(Refusal::GoRuntime),
            is_runtime: known.is_runtime(),
            check: if instructions.first().is_some_and(|one| one.ip() == function.start) {
                check(image, instructions)
            } else {
                0
            },
        }
    }
}

/// How many instructions at a function's start check whether there is room on the stack.
fn check(image: &Image, all: &[Instruction]) -> usize {
    let mut length = 0;
    for (index, instruction) in all.iter().take(LONGEST).enumerate() {
        match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Sub if is_for_check(instruction) => {}
            Mnemonic::Cmp if is_guard(instruction) => {}
            Mnemonic::Jb | Mnemonic::Jbe => match branch_target(instruction) {
                Some(target) if grows(image, target) => length = index + 1,
                _ => break,
            },
            _ => break,
        }
    }
    length
}

/// Whether an instruction compares with a limit of the stack.
fn is_guard(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Memory
        && matches!(instruction.op0_register(), Register::RSP | Register::R12 | Register::RSI)
        && GUARDS.contains(&instruction.memory_displacement64())
}

/// Whether it reads where the goroutine's context is, or computes where the function's frame will end.
fn is_for_check(instruction: &Instruction) -> bool {
    let is_scratch = matches!(
        instruction.op0_register(),
        Register::R12 | Register::R14 | Register::RCX | Register::RSI
    );
    let is_context = instruction.memory_segment() == Register::FS;
    let from_stack = instruction.op1_register() == Register::RSP
        || instruction.mnemonic() == Mnemonic::Lea && instruction.memory_base() == Register::RSP;
    let subtracts = instruction.mnemonic() == Mnemonic::Sub
        && matches!(instruction.op0_register(), Register::R12 | Register::RSI)
        && instruction.op1_kind() != OpKind::Memory;
    is_scratch && (is_context || from_stack || subtracts)
}

/// Whether what is at an address makes the stack grow.
fn grows(image: &Image, address: u64) -> bool {
    let Some(go) = &image.go else { return false };
    let Some(function) = go.function_at(address) else { return false };
    let bytes = bytes_of(image, address, function.end - address).unwrap_or_default();
    let call = instructions(bytes, address).take(AHEAD).find(is_call);
    let target = call.filter(Instruction::is_call_near).map(|call| call.near_branch_target());
    target.and_then(|target| go.function_at(target)).is_some_and(|called| called.grows_stack())
}

/// Functions of Go that are called by some that do not check the stack.
pub(super) fn called_unchecked(image: &Image, calls: &[Call]) -> HashSet<u64> {
    let Some(go) = image.go.as_ref().filter(|go| go.is_known()) else { return HashSet::new() };
    let mut checks: HashMap<u64, bool> = HashMap::new();
    let mut is_checked = |from: u64| {
        let Some(caller) = go.function_at(from) else { return true };
        *checks.entry(caller.start).or_insert_with(|| {
            let bytes = bytes_of(image, caller.start, caller.end - caller.start);
            let first: Vec<Instruction> =
                instructions(bytes.unwrap_or_default(), caller.start).take(LONGEST).collect();
            check(image, &first) != 0
        })
    };
    calls.iter().filter(|call| !is_checked(call.next - 1)).map(|call| call.target).collect()
}
