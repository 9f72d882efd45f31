//! Decides what may be changed in functions of Go programs.
//!
//! Go's runtime finds functions by address (`pclntab`). An address in a stub is in no function, so
//! nothing may happen in a stub that makes the runtime look up the current address. A fault becomes
//! a panic, depending on the function that it is in. A goroutine can be interrupted, and its stack
//! copied, only where the runtime knows the function. Invariants for moved instructions:
//!
//! - They cannot fault, and are no calls or system calls: the runtime never finds an address in a
//!   stub on a stack.
//! - They contain no backward branch: each loop keeps an instruction at its original address, where
//!   the runtime can interrupt the loop.
//!
//! Most functions begin with a check of the stack:
//!
//! ```text
//! start:  cmp rsp, [r14+16]       or lea r12, [rsp-N]; cmp r12, [r14+16], or two checks if N is large
//!         jbe grow
//!         ...
//! grow:   call runtime.morestack_noctxt      copies the stack; also used to pause goroutines
//!         jmp start
//! ```
//!
//! The entry tag follows the check. Control passes there once per call, whether or not the stack
//! has grown. At this point there is also enough stack for a log's tag, which writes below the
//! stack pointer: `StackGuard` guarantees at least 928 bytes. A function without the check has at
//! most the space that its callers have left.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::call::Call;
use super::{Refusal, branch_target, bytes_of, instructions, is_call};
use crate::elf::Image;

/// Maximum number of instructions of a stack check.
const LONGEST: usize = 8;
/// Maximum number of instructions from the target of the check's branch to the call that grows the
/// stack. In between, registers are saved: at most 9 general ones and 15 of floating point.
const AHEAD: usize = 32;
/// Offsets of the stack limits in a goroutine's descriptor: `g.stackguard0`, and `g.stackguard1`
/// for C code.
const GUARDS: [u64; 2] = [16, 24];

/// Constraints that Go's runtime imposes on a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GoConstraints {
    /// Whether the function is Go code.
    pub is_go: bool,
    /// Reason why the function cannot be changed; `None` if it can.
    pub refusal: Option<Refusal>,
    /// Whether the function belongs to the runtime or a package close to it.
    pub is_runtime: bool,
    /// Number of instructions of the function's stack check; 0 if it has none.
    pub check: usize,
}

impl GoConstraints {
    /// Finds the constraints for a function or a part of a function. `instructions`: instructions
    /// of the part.
    pub fn new(
        image: &Image,
        function: &Range<u64>,
        instructions: &[Instruction],
    ) -> GoConstraints {
        let Some(go) = &image.go else { return GoConstraints::default() };
        if !go.is_known() {
            let refusal = Some(Refusal::GoVersion);
            return GoConstraints { is_go: true, refusal, ..GoConstraints::default() };
        }
        let Some(known) = go.function_at(function.start) else { return GoConstraints::default() };
        GoConstraints {
            is_go: true,
            refusal: known.is_special.then_some(Refusal::GoRuntime),
            is_runtime: known.is_runtime(),
            check: if instructions
                .first()
                .is_some_and(|instruction| instruction.ip() == function.start)
            {
                stack_check(image, instructions)
            } else {
                0
            },
        }
    }
}

/// Number of instructions of the stack check at the start of a function; 0 if there is no check.
fn stack_check(image: &Image, instructions: &[Instruction]) -> usize {
    let mut length = 0;
    for (index, instruction) in instructions.iter().take(LONGEST).enumerate() {
        match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Sub if is_for_check(instruction) => {}
            Mnemonic::Cmp if is_guard(instruction) => {}
            Mnemonic::Jb | Mnemonic::Jbe => match branch_target(instruction) {
                Some(target) if grows_stack(image, target) => length = index + 1,
                _ => break,
            },
            _ => break,
        }
    }
    length
}

/// Whether an instruction compares an address with a limit of the stack.
fn is_guard(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Memory
        && matches!(instruction.op0_register(), Register::RSP | Register::R12 | Register::RSI)
        && GUARDS.contains(&instruction.memory_displacement64())
}

/// Whether an instruction belongs to a stack check before its comparison: it reads the address of
/// the goroutine's descriptor, or computes the end of the function's frame.
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

/// Whether the code at an address grows the stack.
fn grows_stack(image: &Image, address: u64) -> bool {
    let Some(go) = &image.go else { return false };
    let Some(function) = go.function_at(address) else { return false };
    let bytes = bytes_of(image, address, function.end - address).unwrap_or_default();
    let call = instructions(bytes, address).take(AHEAD).find(is_call);
    let target = call.filter(Instruction::is_call_near).map(|call| call.near_branch_target());
    target.and_then(|target| go.function_at(target)).is_some_and(|called| called.grows_stack())
}

/// Starts of Go functions that are called by a Go function without a check of the stack.
pub(super) fn called_unchecked(image: &Image, calls: &[Call]) -> HashSet<u64> {
    let Some(go) = image.go.as_ref().filter(|go| go.is_known()) else { return HashSet::new() };
    let mut checks: HashMap<u64, bool> = HashMap::new();
    let mut is_checked = |from: u64| {
        let Some(caller) = go.function_at(from) else { return true };
        *checks.entry(caller.start).or_insert_with(|| {
            let bytes = bytes_of(image, caller.start, caller.end - caller.start);
            let first: Vec<Instruction> =
                instructions(bytes.unwrap_or_default(), caller.start).take(LONGEST).collect();
            stack_check(image, &first) != 0
        })
    };
    calls.iter().filter(|call| !is_checked(call.next - 1)).map(|call| call.target).collect()
}
