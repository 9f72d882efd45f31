//! Collects the instructions and tags of a region's stub, and encodes them at their new address.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, Encoder, Instruction,
    InstructionBlock, MemoryOperand, Register,
};

use super::rows::Origin;
use super::{StubError, StubErrorReason, TagPlace, Tags};
use crate::address::RunAddr;

/// Maximum number of bytes that one placeholder instruction can declare.
const DECLARED_BYTES: usize = 16;

/// Distance in bytes from which on a target may be out of reach from the end of a stub, although it
/// is in reach from the start.
const FAR: u64 = (1 << 31) - (1 << 24);
/// Number of instructions that the block encoder emits for a branch that has only a short encoding.
const REWRITTEN: usize = 3;

/// Instructions of a region's stub, which are to be encoded at a new address.
#[derive(Default)]
pub(super) struct MovedCode {
    pub instructions: Vec<Instruction>,
    /// Original address of each instruction of the region, with its index in `instructions`.
    pub places: Vec<(u64, usize)>,
    /// Spaces for tags between the instructions.
    pub tags: Vec<TagSpace>,
    /// Address of the original instruction that is being added.
    pub original: u64,
    /// For each instruction that belongs to no tag: its index, its origin, and the number of bytes
    /// by which the stack pointer is lower than at the original instruction.
    pub origins: Vec<(usize, Origin, u32)>,
    /// Return address that the stub pushes, with the index of the push.
    pub constant: Option<(RunAddr, usize)>,
}

/// Space for a tag, filled with placeholder instructions.
pub(super) struct TagSpace {
    pub place: TagPlace,
    /// Index of the first placeholder instruction.
    pub at: usize,
    /// Address of the original instruction that follows the tag.
    pub original: u64,
}

impl MovedCode {
    /// Reserves space for a tag; returns `false` if the sink has no tag here. `ip`: branches to
    /// this original address lead to the tag; 0 if no branches do.
    ///
    /// # Errors
    /// [`StubError`] if the tag cannot be encoded.
    pub fn add_tag(&mut self, tags: &Tags, place: TagPlace, ip: u64) -> Result<bool, StubError> {
        let bytes = vec![0xcc; tags.bytes(&place)?];
        if !bytes.is_empty() {
            let (at, original) = (self.instructions.len(), self.original);
            self.tags.push(TagSpace { place, at, original });
        }
        for (index, piece) in bytes.chunks(DECLARED_BYTES).enumerate() {
            let mut filler = Instruction::with_declare_byte(piece).unwrap_or_default();
            filler.set_ip(if index == 0 { ip } else { 0 });
            self.instructions.push(filler);
        }
        Ok(!bytes.is_empty())
    }

    /// Adds a copy of an instruction. `at`: address of the original instruction.
    pub fn push_copy(&mut self, copy: Instruction, at: u64) {
        self.origins.push((self.instructions.len(), Origin::Copy(at), 0));
        self.instructions.push(copy);
    }

    /// Adds a jump from the end of the stub to the original code. `to`: original address of the
    /// next instruction.
    pub fn push_jump(&mut self, jump: Instruction, to: u64) {
        self.origins.push((self.instructions.len(), Origin::At(to), 0));
        self.instructions.push(jump);
    }

    /// Adds a push of the return address and a jump in place of a call. `ip`: branches to this
    /// original address lead to the push; 0 if no branches do.
    pub fn push_call(&mut self, call: Instruction, return_address: RunAddr, ip: u64) {
        self.constant = Some((return_address, self.instructions.len()));
        let place = MemoryOperand::with_base_displ(Register::RIP, call.next_ip() as i64);
        let mut push = Instruction::with1(Code::Push_rm64, place).unwrap_or_default();
        push.set_ip(ip);
        let at = self.instructions.len();
        self.origins.push((at, Origin::At(call.ip()), 0));
        self.origins.push(match call.near_branch_target() {
            // The target is not known, so the unwind information of the call itself is used.
            0 => (at + 1, Origin::At(call.ip()), 8),
            function => (at + 1, Origin::At(function), 0),
        });
        let mut jump = call;
        jump.set_ip(0);
        jump.set_code(match call.code() {
            Code::Call_rel32_64 => Code::Jmp_rel32_64,
            _ => Code::Jmp_rm64,
        });
        self.instructions.extend([push, jump]);
    }
}

/// Indexes of instructions by original address. If several instructions have the same address, the
/// first one is found. Added instructions have the address 0 and are left out.
struct Numbers(Vec<(u64, usize)>);

impl Numbers {
    fn new(instructions: &[Instruction]) -> Self {
        let places = instructions.iter().map(Instruction::ip).zip(0..);
        let mut places: Vec<(u64, usize)> = places.filter(|(ip, _)| *ip != 0).collect();
        places.sort_unstable();
        Numbers(places)
    }

    fn find(&self, address: u64) -> Option<usize> {
        let place = self.0.partition_point(|(ip, _)| *ip < address);
        self.0.get(place).filter(|(ip, _)| *ip == address).map(|(_, number)| *number)
    }
}

/// Encodes the instructions one by one, with near branches. This takes a third of the block
/// encoder's time. `None` if a branch has only a short encoding.
fn encode_each(instructions: &[Instruction], at: u64) -> Option<(Vec<u8>, Vec<u32>)> {
    let mut encoder = Encoder::try_new(64).ok()?;
    let (mut offsets, mut inner) = (Vec::with_capacity(instructions.len()), Vec::new());
    let mut after = 0;
    let numbers = Numbers::new(instructions);
    for instruction in instructions {
        let mut instruction = *instruction;
        let target = instruction.near_branch_target();
        if target != 0 {
            if instruction.is_loop() || instruction.is_loopcc() || instruction.is_jcx_short() {
                return None;
            }
            instruction.as_near_branch();
        }
        offsets.push(after);
        let to = numbers.find(target);
        if to.is_some() {
            instruction.set_near_branch64(at);
        }
        after += encoder.encode(&instruction, at.wrapping_add(after.into())).ok()? as u32;
        inner.extend(to.map(|to| (after, to)));
    }
    let mut code = encoder.take_buffer();
    for (after, to) in inner {
        // The distance is the last four bytes of a branch.
        let place = code[..after as usize].last_chunk_mut()?;
        *place = offsets[to].wrapping_sub(after).to_le_bytes();
    }
    Some((code, offsets))
}

/// Encodes instructions at an address. Returns the code, and the offset of each instruction in the
/// code.
///
/// # Errors
/// [`StubError`] if an instruction cannot be moved to the address.
pub(super) fn encode(
    instructions: &[Instruction],
    at: u64,
) -> Result<(Vec<u8>, Vec<u32>), StubError> {
    let numbers = Numbers::new(instructions);
    // The block encoder would redirect a memory reference to one of the moved instructions to its
    // copy. It would redirect a reference to address 0, the start of a file, to an added
    // instruction.
    let is_own = |address| numbers.find(address).is_some();
    let names_itself = instructions
        .iter()
        .filter(|instruction| instruction.is_ip_rel_memory_operand())
        .map(Instruction::ip_rel_memory_address)
        .any(|address| address == 0 || is_own(address));
    if names_itself
        || !instructions.iter().any(|instruction| is_own(instruction.near_branch_target()))
    {
        if let Some(encoded) = encode_each(instructions, at) {
            return Ok(encoded);
        }
        if names_itself {
            return Err(StubError { at, reason: StubErrorReason::RefersToItself });
        }
    }
    // For a target out of reach, the block encoder would load the target from memory, or compute it
    // in 32 bits.
    if !instructions.iter().all(|instruction| reaches(instruction, at)) {
        return Err(StubError { at, reason: StubErrorReason::ReferenceTooFar });
    }
    let block = InstructionBlock::new(instructions, at);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = BlockEncoder::encode(64, block, options).map_err(StubError::encoding(at))?;
    let (code, mut offsets) = (result.code_buffer, result.new_instruction_offsets);
    fill(&mut offsets, instructions, &code);
    Ok((code, offsets))
}

/// Whether an instruction's target and memory operand are within 2 GiB of code at an address. An
/// address that is computed in 32 bits does not count, because it would change when the file is
/// loaded elsewhere.
fn reaches(instruction: &Instruction, at: u64) -> bool {
    let is_near = |to: u64| to.wrapping_sub(at).cast_signed().unsigned_abs() < FAR;
    let (target, base) = (instruction.near_branch_target(), instruction.memory_base());
    (target == 0 || is_near(target))
        && base != Register::EIP
        && (base != Register::RIP || is_near(instruction.memory_displacement64()))
}

/// Fills in missing offsets: those of branches that the block encoder has rewritten as three
/// instructions, because they have only a short encoding. Each begins at the end of the previous
/// instruction. The rewritten branch leads over a jump to the next instruction, to a jump to the
/// original target.
fn fill(offsets: &mut [u32], instructions: &[Instruction], code: &[u8]) {
    let mut after = 0;
    for (offset, instruction) in offsets.iter_mut().zip(instructions) {
        let pieces = if *offset == u32::MAX { REWRITTEN } else { 1 };
        *offset = if *offset == u32::MAX { after } else { *offset };
        after = match instruction.code() {
            Code::DeclareByte => *offset + instruction.declare_data_len() as u32,
            _ => {
                let rest = code.get(*offset as usize..).unwrap_or_default();
                let rest = Decoder::new(64, rest, DecoderOptions::NONE).into_iter().take(pieces);
                *offset + rest.map(|one| one.len() as u32).sum::<u32>()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;

    const HERE: u64 = 0x40_1000;
    const THERE: u64 = 0x40_2000;

    /// A function that refers to its own first instruction, with a branch back to its second one.
    fn names_itself(
        back: impl Fn(&mut CodeAssembler, CodeLabel) -> Result<(), iced_x86::IcedError>,
    ) -> Vec<Instruction> {
        let mut asm = CodeAssembler::new(64).unwrap();
        let (mut start, mut again) = (asm.create_label(), asm.create_label());
        asm.set_label(&mut start).unwrap();
        asm.nop().unwrap();
        asm.set_label(&mut again).unwrap();
        asm.lea(rsi, ptr(start)).unwrap();
        back(&mut asm, again).unwrap();
        asm.ret().unwrap();
        let code = asm.assemble(HERE).unwrap();
        Decoder::with_ip(64, &code, HERE, 0).into_iter().collect()
    }

    #[test]
    fn a_reference_to_the_moved_region_keeps_its_target() {
        let (code, offsets) = encode(&names_itself(|asm, again| asm.jne(again)), THERE).unwrap();
        let moved: Vec<Instruction> = Decoder::with_ip(64, &code, THERE, 0).into_iter().collect();
        assert_eq!(moved[1].ip_rel_memory_address(), HERE);
        assert_eq!(moved[2].near_branch_target(), moved[1].ip());
        let places = moved.iter().map(|instruction| (instruction.ip() - THERE) as u32);
        assert!(places.eq(offsets), "{moved:?}");
    }

    #[test]
    fn a_reference_to_the_start_of_the_file_keeps_its_target() {
        let start = MemoryOperand::with_base_displ(Register::RIP, 0);
        let mut lea = Instruction::with2(Code::Lea_r64_m, Register::RDI, start).unwrap();
        lea.set_ip(HERE);
        let added = Instruction::with(Code::Nopd);
        let mut back = Instruction::with_branch(Code::Jne_rel32_64, HERE).unwrap();
        back.set_ip(HERE + 7);
        let (code, _) = encode(&[lea, added, back], THERE).unwrap();
        let moved: Vec<Instruction> = Decoder::with_ip(64, &code, THERE, 0).into_iter().collect();
        assert_eq!(moved[0].ip_rel_memory_address(), 0);
        assert_eq!(moved[2].near_branch_target(), THERE);
    }

    /// Encodes a loop around an instruction.
    fn in_loop(instruction: Instruction) -> Result<(Vec<u8>, Vec<u32>), StubError> {
        let mut back = Instruction::with_branch(Code::Jne_rel32_64, HERE).unwrap();
        back.set_ip(HERE + 16);
        let mut instruction = instruction;
        instruction.set_ip(HERE);
        encode(&[instruction, back], THERE)
    }

    #[test]
    fn far_and_32_bit_references_are_refused() {
        let lea = |base, to| {
            let place = MemoryOperand::with_base_displ(base, to);
            Instruction::with2(Code::Lea_r64_m, Register::RAX, place).unwrap()
        };
        let jump = |to| Instruction::with_branch(Code::Je_rel32_64, to).unwrap();
        let far = (THERE + (1 << 31)) as i64;
        assert!(in_loop(lea(Register::RIP, 0x50_0000)).is_ok());
        assert!(in_loop(jump(0x50_0000)).is_ok());
        for instruction in
            [lea(Register::RIP, far), lea(Register::EIP, 0x50_0000), jump(far as u64)]
        {
            let error = in_loop(instruction).unwrap_err();
            assert!(error.to_string().contains("too far away"), "{instruction:?}: {error}");
        }
    }

    #[test]
    fn each_of_several_short_branches_has_its_own_offset() {
        let near = |(code, at)| {
            let mut branch = Instruction::with_branch(code, 0x50_0000).unwrap();
            branch.set_ip(at);
            branch
        };
        let branches = [(Code::Loope_rel8_64_RCX, HERE), (Code::Jrcxz_rel8_64, HERE + 2)];
        let mut instructions: Vec<Instruction> = branches.into_iter().map(near).collect();
        // A branch within the moved code.
        let mut back = Instruction::with_branch(Code::Jne_rel32_64, HERE).unwrap();
        back.set_ip(HERE + 4);
        instructions.push(back);
        let (code, offsets) = encode(&instructions, THERE).unwrap();
        let starts = offsets.iter().map(|at| {
            let rest = &code[*at as usize..];
            Decoder::with_ip(64, rest, THERE, 0).decode().mnemonic()
        });
        assert!(starts.eq(instructions.iter().map(Instruction::mnemonic)), "{offsets:?}");
    }

    #[test]
    fn a_self_reference_with_a_short_branch_is_refused() {
        let error = encode(&names_itself(|asm, again| asm.loop_(again)), THERE).unwrap_err();
        assert_eq!(error.at, THERE);
        assert!(error.to_string().ends_with("the moved code refers to itself"), "{error}");
    }
}
