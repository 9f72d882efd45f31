//! Decodes a block from original code.
//!
//! A transfer is translated only if its exact encoding is known. Any other instruction that does
//! not continue at the next one ends the block and runs natively. Any bytes are accepted as input.

use std::cell::RefCell;

use hmtt_probe::address::RunAddr;
use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpKind,
};

use super::{
    Block, Class, End, MAX_BYTES, MAX_INSTRUCTIONS, Operation, StatusFlags, Untranslatable, Why,
    liveness, uses,
};
use crate::code::CodeBytes;
use crate::extent::Extent;
use crate::state::Registers;

thread_local! {
    /// Memory for describing instructions. It is kept, so that it is not allocated again for each
    /// block.
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

impl Block {
    /// Decodes the block that starts at an address.
    ///
    /// # Errors
    /// The first instruction is not translated.
    pub fn decode(code: &dyn CodeBytes, at: RunAddr) -> Result<Block, Untranslatable> {
        let mut bytes = [0; MAX_BYTES];
        let length = code.read(at, &mut bytes).min(MAX_BYTES);
        let mut block = Block::from_code(at, &bytes[..length], code.may_change(at))?;
        // The last instruction may be a store that names the descriptor of a restartable sequence
        // behind it.
        let behind = u64::from(matches!(block.end, End::FallThrough { .. }));
        if let Some(sequence) = code.sequence(&(at..block.limit().wrapping_add(behind))) {
            block.end_before(sequence)?;
        }
        Ok(Block { extent: code.extent(at), ..block })
    }

    /// Ends the block before the instruction at `sequence`, which belongs to a restartable
    /// sequence. If the last instruction before it is a store, which may name the sequence's
    /// descriptor, the block ends before the store: nothing may be executed between that store and
    /// the sequence.
    ///
    /// # Errors
    /// No instruction is left in the block.
    fn end_before(&mut self, sequence: RunAddr) -> Result<(), Untranslatable> {
        let last =
            self.operations.iter().rfind(|operation| operation.instruction.ip() < sequence.0);
        let is_native = last.filter(|operation| {
            let names = matches!(operation.class, Class::Store | Class::Update);
            let next = operation.instruction.next_ip();
            next > sequence.0 || names && next == sequence.0
        });
        let at = is_native.map_or(sequence, |one| RunAddr(one.instruction.ip()));
        self.cut(Untranslatable { at, why: Why::Sequence })
    }

    /// Decodes the block that starts at an address, from bytes.
    ///
    /// # Errors
    /// The first instruction is not translated, or is incomplete.
    pub fn from_bytes(start: RunAddr, bytes: &[u8]) -> Result<Block, Untranslatable> {
        Block::from_code(start, bytes, false)
    }

    /// Decodes the block that starts at an address, as [`from_bytes`](Self::from_bytes) does.
    /// `may_change`: whether the bytes may change without a system call.
    ///
    /// # Errors
    /// The first instruction is not translated, or is incomplete.
    pub fn from_code(
        start: RunAddr,
        bytes: &[u8],
        may_change: bool,
    ) -> Result<Block, Untranslatable> {
        FACTORY.with_borrow_mut(|factory| Self::decode_with(factory, start, bytes, may_change))
    }

    fn decode_with(
        factory: &mut InstructionInfoFactory,
        start: RunAddr,
        bytes: &[u8],
        may_change: bool,
    ) -> Result<Block, Untranslatable> {
        let mut decoder = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE);
        let mut operations: Vec<Operation> = Vec::with_capacity(8);
        let mut limit = 0;
        let end = loop {
            let next = start.wrapping_add(limit as u64);
            if operations.len() == MAX_INSTRUCTIONS {
                break End::FallThrough { next };
            }
            match decode_one(&mut decoder, factory, &bytes[limit..]) {
                // Decoding of the next block finds out whether there are more bytes.
                Err(Why::NotReadable) if !operations.is_empty() => break End::FallThrough { next },
                Err(why) if operations.is_empty() => return Err(Untranslatable { at: next, why }),
                Err(why) => break End::Untranslatable(Untranslatable { at: next, why }),
                Ok((operation, end)) => {
                    operations.push(operation);
                    limit += operation.instruction.len();
                    if let Some(end) = end {
                        break end;
                    }
                    if may_change && matches!(operation.class, Class::Store | Class::Update) {
                        break End::FallThrough { next: start.wrapping_add(limit as u64) };
                    }
                }
            }
        };
        liveness::set(&mut operations);
        Ok(Block {
            start,
            bytes: bytes[..limit].into(),
            operations,
            end,
            may_change,
            extent: Extent::Chosen,
        })
    }

    /// Ends the block before an instruction for which no code could be generated.
    ///
    /// # Errors
    /// The instruction is the first one of the block.
    pub fn cut(&mut self, untranslatable: Untranslatable) -> Result<(), Untranslatable> {
        let at = untranslatable.at;
        self.operations.retain(|operation| operation.instruction.ip() < at.0);
        if self.operations.is_empty() {
            return Err(untranslatable);
        }
        self.bytes = self.bytes[..at.wrapping_offset_from(self.start) as usize].into();
        self.end = End::Untranslatable(untranslatable);
        liveness::set(&mut self.operations);
        Ok(())
    }
}

/// Decodes an instruction. Also returns how the block ends, if the instruction ends it.
fn decode_one(
    decoder: &mut Decoder,
    factory: &mut InstructionInfoFactory,
    bytes: &[u8],
) -> Result<(Operation, Option<End>), Why> {
    if !decoder.can_decode() {
        return Err(Why::NotReadable);
    }
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        let is_short = decoder.last_error() == DecoderError::NoMoreBytes;
        return Err(if is_short { Why::NotReadable } else { Why::Invalid });
    }
    let (uses, class) = uses::find(factory, &instruction);
    if uses.gs {
        return Err(Why::UsesGs);
    }
    let end = transfer(&instruction, &bytes[..instruction.len()])?;
    let relative_at = instruction
        .is_ip_rel_memory_operand()
        .then(|| decoder.get_constant_offsets(&instruction).displacement_offset() as u8);
    let class = if end.is_some() { Class::Transfer } else { class };
    let operation = Operation {
        instruction,
        class,
        uses,
        live: Registers::ALL,
        live_flags: StatusFlags::ALL,
        relative_at,
    };
    Ok((operation, end))
}

/// How a block ends if this is its last instruction; `None` if the instruction ends no block. The
/// error says why the instruction is not translated.
fn transfer(instruction: &Instruction, bytes: &[u8]) -> Result<Option<End>, Why> {
    if instruction.flow_control() == FlowControl::Next {
        // ENCLU enters an enclave, which returns to an address in a register.
        let is_hidden = instruction.mnemonic() == Mnemonic::Enclu;
        return if is_hidden { Err(Why::Transfer) } else { Ok(None) };
    }
    let next = RunAddr(instruction.next_ip());
    let to = RunAddr(instruction.near_branch_target());
    let end = match instruction.code() {
        Code::Syscall => return Ok(Some(End::Syscall { next })),
        Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => End::Direct { to },
        Code::Call_rel32_64 => End::Call { to, return_to: next },
        Code::Jmp_rm64 => End::Indirect,
        Code::Call_rm64 => End::IndirectCall { return_to: next },
        Code::Retnq => End::Return { pop: 0 },
        Code::Retnq_imm16 => End::Return { pop: instruction.immediate16() },
        _ if instruction.flow_control() == FlowControl::ConditionalBranch
            && instruction.op0_kind() == OpKind::NearBranch64 =>
        {
            End::Conditional { to, next }
        }
        _ => return Err(Why::Transfer),
    };
    // Processors disagree about the operand size of such a transfer.
    if has_short_operand(bytes) { Err(Why::Transfer) } else { Ok(Some(end)) }
}

/// Whether an instruction has the prefix for 16-bit operands, and no prefix for 64-bit operands.
fn has_short_operand(bytes: &[u8]) -> bool {
    let is_legacy =
        |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let prefixes = bytes.iter().take_while(|byte| is_legacy(byte)).count();
    let is_wide = bytes.get(prefixes).is_some_and(|byte| byte & 0xf8 == 0x48);
    bytes[..prefixes].contains(&0x66) && !is_wide
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Block, Why> {
        Block::from_bytes(RunAddr(0x1000), bytes).map_err(|error| error.why)
    }

    #[test]
    fn a_block_ends_with_its_first_transfer() {
        let end = |bytes: &[u8]| decoded(&[&[0x90], bytes, &[0x90]].concat()).unwrap().end;
        let (to, next) = (RunAddr(0x1008), RunAddr(0x1003));
        assert_eq!(end(&[0xeb, 5]), End::Direct { to });
        assert_eq!(end(&[0x74, 5]), End::Conditional { to, next });
        assert_eq!(end(&[0xe2, 5]), End::Conditional { to, next });
        assert_eq!(end(&[0xff, 0xe0]), End::Indirect);
        assert_eq!(end(&[0xff, 0xd0]), End::IndirectCall { return_to: next });
        assert_eq!(end(&[0x0f, 0x05]), End::Syscall { next });
        assert_eq!(end(&[0xc2, 8, 0]), End::Return { pop: 8 });
        let return_to = RunAddr(0x1006);
        assert_eq!(end(&[0xe8, 0, 0, 0, 0]), End::Call { to: return_to, return_to });
    }

    #[test]
    fn what_must_run_natively_is_refused() {
        let why = |bytes: &[u8]| decoded(bytes).map(|_| ()).unwrap_err();
        for gs in [
            &[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0][..],
            &[0x8e, 0xe8],                   // mov gs, eax
            &[0x0f, 0xa9],                   // pop gs
            &[0xf3, 0x48, 0x0f, 0xae, 0xd8], // wrgsbase
            &[0xf3, 0x48, 0x0f, 0xae, 0xc8], // rdgsbase
            &[0x65, 0x48, 0xad],             // lods gs:[rsi]
        ] {
            assert_eq!(why(gs), Why::UsesGs, "{gs:x?}");
        }
        for transfer in [
            &[0xcc][..],
            &[0xcd, 0x80],
            &[0x0f, 0x0b],
            &[0xcb],
            &[0x48, 0xcf],
            &[0xff, 0x28],
            &[0xc7, 0xf8, 0, 0, 0, 0], // xbegin
            &[0x66, 0xc3],             // ret with 16-bit operand
            &[0x0f, 0x34],             // sysenter
        ] {
            assert_eq!(why(transfer), Why::Transfer, "{transfer:x?}");
        }
        assert_eq!(why(&[0x06; 16]), Why::Invalid);
        assert_eq!(why(&[0x48]), Why::NotReadable);
        assert_eq!(why(&[]), Why::NotReadable);
        // As compilers write calls of __tls_get_addr.
        assert!(decoded(&[0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0]).is_ok());
    }

    #[test]
    fn a_value_is_dead_only_if_it_is_always_overwritten() {
        // mov eax, ecx; add dl, al; test ebx, ebx; je
        let block = decoded(&[0x89, 0xc8, 0x00, 0xc2, 0x85, 0xdb, 0x74, 0]).unwrap();
        let first = &block.operations[0];
        assert!(!first.live.contains(0) && first.live.contains(2) && first.live.contains(1));
        assert!(first.live_flags.is_empty());
        // shl eax, cl leaves the flags if cl is 0; bsf leaves eax if its source is 0.
        assert!(!decoded(&[0xd3, 0xe0, 0xc3]).unwrap().operations[0].live_flags.is_empty());
        assert!(decoded(&[0x0f, 0xbc, 0xc1, 0xc3]).unwrap().operations[0].live.contains(0));
        // rep stosb leaves rdi if rcx is 0; cmove leaves eax.
        assert!(decoded(&[0xf3, 0xaa, 0xc3]).unwrap().operations[0].live.contains(7));
        assert!(decoded(&[0x0f, 0x44, 0xc1, 0xc3]).unwrap().operations[0].live.contains(0));
    }

    #[test]
    fn a_block_that_may_change_ends_with_a_store() {
        // mov eax, [rcx]; push rax; nop; ret
        let code = [0x8b, 0x01, 0x50, 0x90, 0xc3];
        let end = |may_change| Block::from_code(RunAddr(0x1000), &code, may_change).unwrap().end;
        assert_eq!(end(true), End::FallThrough { next: RunAddr(0x1003) });
        assert_eq!(end(false), End::Return { pop: 0 });
    }

    #[test]
    fn a_long_block_falls_through() {
        let block = decoded(&[0x90; MAX_BYTES]).unwrap();
        let next = RunAddr(0x1000 + MAX_INSTRUCTIONS as u64);
        assert_eq!((block.end, block.limit()), (End::FallThrough { next }, next));
        // Its bytes end within an instruction.
        let block = decoded(&[0x90, 0xe9, 0, 0]).unwrap();
        assert_eq!(block.end, End::FallThrough { next: RunAddr(0x1001) });
        let at = RunAddr(0x1001);
        let block = decoded(&[0x90, 0xcc]).unwrap();
        assert_eq!(block.end, End::Untranslatable(Untranslatable { at, why: Why::Transfer }));
    }
}
