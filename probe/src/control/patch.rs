//! Chosen functions to jumps at their entries, and back.

use super::{Overwritten, TagError};
use crate::disassembly::{Heads, JUMP_BYTES, Prologue};
use crate::elf::{Function, Image};
use crate::ptrace::{Process, PtraceError};
use crate::stubs::tags::TAG_BYTES;
use crate::stubs::{Sink, Stub, StubError, Stubs};

/// Room for any stub, with its tag's cold instructions, and for what tags share.
const STUB_BYTES: u64 = 96 + TAG_BYTES as u64;
const SHARED_BYTES: u64 = 1024;
/// `jmp rel32`.
const JUMP: u8 = 0xe9;

/// A function that begins with a jump to a stub.
#[derive(Debug)]
pub(super) struct Patched {
    pub function: Function,
    /// Where it is in memory.
    address: u64,
    original: [u8; JUMP_BYTES],
    jump: [u8; JUMP_BYTES],
    stub: Stub,
}

/// What is to be patched.
pub(super) struct Plan {
    prologues: Vec<(Function, Prologue)>,
    refused: Vec<(Function, String)>,
}

/// Looks at the chosen functions.
pub(super) fn plan(image: &Image, chosen: impl Fn(&Function) -> bool) -> Plan {
    let heads = Heads::of(image);
    let mut plan = Plan { prologues: Vec::new(), refused: Vec::new() };
    for function in image.functions.iter().filter(|function| chosen(function)) {
        match heads.prologue(image, function) {
            Ok(prologue) => plan.prologues.push((function.clone(), prologue)),
            Err(refusal) => plan.refused.push((function.clone(), refusal.to_string())),
        }
    }
    plan
}

impl Plan {
    /// Room that the stubs need.
    pub fn stub_bytes(&self) -> u64 {
        self.prologues.len() as u64 * STUB_BYTES + SHARED_BYTES
    }

    /// The patches, what could not be patched after all, and the code of the stubs.
    pub fn stubs(
        self,
        start: u64,
        bias: u64,
        sink: Sink,
    ) -> Result<(Vec<Patched>, Vec<(Function, String)>, Vec<u8>), StubError> {
        let Plan { prologues, mut refused } = self;
        let mut stubs = Stubs::new(start, sink, prologues.len())?;
        let mut patched = Vec::new();
        for (function, prologue) in prologues {
            let loaded = prologue.loaded(bias);
            match stubs.add(&loaded, patched.len() as u32) {
                Ok(stub) => patched.push(Patched::new(function, &loaded, bias, stub)),
                Err(error) => refused.push((function, error.to_string())),
            }
        }
        Ok((patched, refused, stubs.code()))
    }
}

impl Patched {
    fn new(function: Function, prologue: &Prologue, bias: u64, stub: Stub) -> Self {
        let address = function.start.wrapping_add(bias);
        let mut original = [0; JUMP_BYTES];
        original.copy_from_slice(&prologue.bytes[..JUMP_BYTES]);
        let distance = stub.start.wrapping_sub(address + JUMP_BYTES as u64) as u32;
        let mut jump = [JUMP; JUMP_BYTES];
        jump[1..].copy_from_slice(&distance.to_le_bytes());
        Patched { function, address, original, jump, stub }
    }

    /// What stood where the jump is.
    pub fn overwritten(&self) -> Overwritten {
        Overwritten { address: self.address, bytes: self.original.to_vec() }
    }

    /// Where the function is in memory.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where a thread that stands in what is overwritten is to go on; none if it stands elsewhere, or
    /// where it has no counterpart.
    fn counterpart(&self, rip: u64) -> Option<Option<u64>> {
        let inside = rip > self.address && rip < self.address + JUMP_BYTES as u64;
        let moved = self.stub.moved.iter().find(|(old, _)| *old == rip);
        inside.then(|| moved.map(|(_, new)| *new))
    }
}

/// Puts the jumps in; all threads stand still.
///
/// # Errors
/// [`TagError::InTheWay`] if a thread stands where it cannot be moved from; nothing was changed.
pub(super) fn tag(process: &Process, patched: &[Patched]) -> Result<(), TagError> {
    let mut moves = Vec::new();
    for thread in process.threads.keys() {
        let registers = process.registers(*thread)?;
        let counterpart = patched.iter().find_map(|patched| patched.counterpart(registers.rip));
        match counterpart {
            None => {}
            Some(None) => return Err(TagError::InTheWay(*thread, registers.rip)),
            Some(Some(rip)) => moves.push((*thread, libc::user_regs_struct { rip, ..registers })),
        }
    }
    for (thread, registers) in moves {
        process.set_registers(thread, registers)?;
    }
    Ok(patched.iter().try_for_each(|patched| process.write(patched.address, &patched.jump))?)
}

/// Takes the jumps out. A thread in a stub goes on there: stubs stay, and lead back behind the jump.
pub(super) fn restore(
    write: impl Fn(u64, &[u8]) -> Result<(), PtraceError>,
    patched: &[Patched],
) -> Result<(), PtraceError> {
    patched.iter().try_for_each(|patched| write(patched.address, &patched.original))
}
