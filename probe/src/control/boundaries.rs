//! Computes the state of a thread in a stub at the next [`boundary`], or at the last one before its
//! position.
//!
//! The thread's stack is read once. The code of a tag is read from its start to the thread's
//! position. A thread that is in code shared by tags, and has all signals blocked, has no boundary.
//!
//! [`boundary`]: crate::stubs::boundary

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use libc::user_regs_struct;

use super::patch::PatchedFunction;
use super::{PatchedCode, TagError};
use crate::address::RunAddr;
use crate::ptrace::{Stopped, StoppedThread};
use crate::stubs::boundary::{Effects, restore_registers};
use crate::stubs::chunk_switch::SystemCalls;
use crate::stubs::unfinished_tag::ThreadMemory;
use crate::stubs::{Sink, chunk_switch};

/// Maximum number of steps from a thread's position to a boundary. A step leaves the chunk switch,
/// leaves a tag, or follows a jump.
const STEPS: usize = 16;
/// Opcode of `push qword [rip+disp32]`, size of the instruction and of the pushed value in bytes.
const PUSH: [u8; 2] = [0xff, 0x35];
const PUSH_BYTES: u64 = 6;
const ADDRESS_BYTES: u64 = 8;
/// Maximum length of an instruction, in bytes.
const LONGEST: usize = 15;
/// `orig_rax` of a thread that is in no system call.
pub(super) const NO_CALL: u64 = u64::MAX;
/// Number of bytes below the stack pointer, and number of all bytes around it, that are read at
/// once. Tags save registers in these bytes.
const BELOW: u64 = 128;
const AROUND: usize = 512;

/// State of a thread in a stub, moved to a boundary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary {
    /// The original registers, except `rip`, which is the address of the boundary in the stub.
    pub registers: user_regs_struct,
    /// Address in the program's code that corresponds to the boundary.
    pub original: RunAddr,
}

/// Memory of a thread. Bytes around the stack pointer are read in advance.
pub(super) struct Stack<'p> {
    thread: StoppedThread<'p>,
    start: RunAddr,
    bytes: Vec<u8>,
}

impl<'p> Stack<'p> {
    pub fn new(thread: StoppedThread<'p>, rsp: u64) -> Self {
        let start = RunAddr(rsp).wrapping_sub(BELOW);
        let mut bytes = vec![0; AROUND];
        // If a part is not mapped, words are read one by one.
        if thread.read(start, &mut bytes).is_err() {
            bytes.clear();
        }
        Stack { thread, start, bytes }
    }
}

impl ThreadMemory for Stack<'_> {
    fn read(&self, address: RunAddr) -> Option<u64> {
        let at = usize::try_from(address.wrapping_offset_from(self.start)).ok();
        let word = at.and_then(|at| self.bytes.get(at..)?.first_chunk());
        word.map(|word| u64::from_le_bytes(*word))
            .or_else(|| ThreadMemory::read(&self.thread, address))
    }

    fn write(&mut self, address: RunAddr, bytes: &[u8]) -> Option<()> {
        let end = self.start.wrapping_add(self.bytes.len() as u64);
        if address < end && self.start < address.wrapping_add(bytes.len() as u64) {
            self.bytes.clear();
        }
        ThreadMemory::write(&mut self.thread, address, bytes)
    }
}

impl PatchedCode {
    /// Computes the thread's state at the next boundary, or at the last one. `None` if the state
    /// cannot be computed.
    ///
    /// For example, a thread that is within a tag gets the registers that it had at the start of
    /// the tag. If the tag has already written its record or counter, the thread is moved to the
    /// end of the tag instead.
    pub(super) fn boundary(
        &self,
        thread: StoppedThread<'_>,
        mut registers: user_regs_struct,
    ) -> Option<Boundary> {
        for _ in 0..STEPS {
            let rip = RunAddr(registers.rip);
            if let Some(restorer) = self.restorers.around(rip) {
                registers.rip = restorer.address.0;
                return Some(Boundary { registers, original: restorer.address });
            }
            if !self.is_tag_memory(rip) {
                return Some(Boundary { registers, original: rip });
            }
            let Some(patched) = self.stub_at(rip) else {
                self.leave_shared_code(thread, &mut registers)?;
                // If `r11` holds no address in a tag, it holds a value of the program.
                if !self.is_tag_memory(RunAddr(registers.rip)) {
                    return None;
                }
                continue;
            };
            if let Some(original) = patched.original(rip) {
                return Some(Boundary { registers, original });
            }
            let Some(tag) = patched.tag_around(rip) else {
                skip_jump(thread, patched, &mut registers)?;
                continue;
            };
            let effects = Effects::from_code(&code(thread, tag.start, rip)?);
            let stack = Stack::new(thread, registers.rsp);
            effects.undo(&mut registers, &stack)?;
            registers.rip = if effects.is_done { tag.end } else { tag.start }.0;
        }
        None
    }

    /// Moves a thread from the code that the tags of a log share back to the tag that has called
    /// it. `None` while all signals of the thread are blocked.
    fn leave_shared_code(
        &self,
        thread: StoppedThread<'_>,
        registers: &mut user_regs_struct,
    ) -> Option<()> {
        let Sink::Log(shape) = self.sink else { return None };
        let rip = RunAddr(registers.rip);
        let area = self.areas.iter().find(|area| area.contains(&rip))?;
        let code = chunk_switch::code(&shape, area.start.0).ok()?;
        let at = (rip - area.start) as usize;
        if at >= code.len() {
            let current = instruction(thread, rip, area.end)?;
            let is_load = current.op0_register() == Register::R11;
            registers.rip = if is_load { current.memory_displacement64() } else { registers.r11 };
            return Some(());
        }
        let calls = SystemCalls::find(&code)?.offsets;
        if at <= *calls.first()? {
            let stack = Stack::new(thread, registers.rsp);
            Effects::from_code(&code[..at]).undo(registers, &stack)?;
            registers.rip = registers.r11;
        } else if at > *calls.last()? {
            let stack = Stack::new(thread, registers.rsp);
            restore_registers(&code[at..], registers, &stack)?;
            registers.orig_rax = NO_CALL;
        } else {
            return None;
        }
        Some(())
    }

    /// Moves threads from stubs to the original code after the jumps were removed. `is_left`:
    /// whether threads are to leave the stub at an address. Returns whether a thread was moved.
    pub(super) fn move_out_of_stubs(
        &self,
        process: &Stopped<'_>,
        is_left: impl Fn(RunAddr) -> bool,
    ) -> Result<bool, TagError> {
        let mut has_moved = false;
        for (id, stop_state) in &process.threads {
            let thread = process.thread(*id);
            let registers = thread.registers()?;
            let rip = RunAddr(registers.rip);
            if !is_left(rip) || !self.is_tag_memory(rip) {
                continue;
            }
            let Some(Boundary { registers: at, original }) = self.boundary(thread, registers)
            else {
                continue;
            };
            if let Some(signal) = stop_state.signal() {
                self.replace_fault_address(thread, signal, &registers, original)?;
            }
            let rip = original.0;
            thread.set_registers(user_regs_struct { rip, ..at })?;
            has_moved = true;
        }
        Ok(has_moved)
    }
}

fn code(thread: StoppedThread<'_>, start: RunAddr, end: RunAddr) -> Option<Vec<u8>> {
    let mut code = vec![0; end.offset_from(start)? as usize];
    thread.read(start, &mut code).ok().map(|()| code)
}

fn instruction(thread: StoppedThread<'_>, address: RunAddr, end: RunAddr) -> Option<Instruction> {
    let code = code(thread, address, end.min(address + LONGEST as u64))?;
    Some(Decoder::with_ip(64, &code, address.0, DecoderOptions::NONE).decode())
}

/// Target of the jump at an address.
pub(super) fn jump_target(thread: StoppedThread<'_>, address: RunAddr) -> Option<RunAddr> {
    let jump = instruction(thread, address, address + 5)?;
    (jump.mnemonic() == Mnemonic::Jmp && jump.near_branch_target() != 0)
        .then(|| RunAddr(jump.near_branch_target()))
}

/// Moves a thread over a jump that the stub has added. For a moved call, which is a push and a
/// jump, the thread is moved back before the push.
fn skip_jump(
    thread: StoppedThread<'_>,
    patched: &PatchedFunction,
    registers: &mut user_regs_struct,
) -> Option<()> {
    let rip = RunAddr(registers.rip);
    let push = rip.wrapping_sub(PUSH_BYTES);
    if patched.stubs.contains(&push)
        && let [first, second, distance @ ..] = code(thread, push, rip)?.as_slice()
        && [*first, *second] == PUSH
    {
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        // A push in the program's own code reads memory of the program, not of the stubs.
        if patched.stubs.contains(&rip.wrapping_add_signed(distance.into())) {
            registers.rip = push.0;
            registers.rsp = registers.rsp.wrapping_add(ADDRESS_BYTES);
            return Some(());
        }
    }
    let jump = instruction(thread, rip, patched.stubs.end)?;
    let target = jump.near_branch_target();
    registers.rip = Some(target).filter(|_| jump.mnemonic() == Mnemonic::Jmp && target != 0)?;
    Some(())
}
