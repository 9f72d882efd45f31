//! Instructions of a region, and tags among them, to code elsewhere.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, Instruction, InstructionBlock, MemoryOperand,
    Register,
};

use super::{StubError, TagPlace, Tags};

/// Most bytes that one instruction of no meaning can stand for.
const DECLARED_BYTES: usize = 16;

/// Instructions to be encoded elsewhere.
#[derive(Default)]
pub(super) struct Moved {
    pub instructions: Vec<Instruction>,
    /// Where each of the region's instructions was, and its number among these.
    pub places: Vec<(u64, usize)>,
    /// Tags, and the number of the first instruction that holds their place.
    pub tags: Vec<(TagPlace, usize)>,
    /// A return address to be pushed, and the number of the instruction that does.
    pub constant: Option<(u64, usize)>,
}

impl Moved {
    /// Keeps room for a tag, if there is to be one. `ip`: where it is found by branches.
    pub fn add_tag(&mut self, tags: &Tags, place: TagPlace, ip: u64) -> Result<bool, StubError> {
        let bytes = vec![0xcc; tags.bytes(&place)?];
        if !bytes.is_empty() {
            self.tags.push((place, self.instructions.len()));
        }
        for (index, piece) in bytes.chunks(DECLARED_BYTES).enumerate() {
            let mut room = Instruction::with_declare_byte(piece).unwrap_or_default();
            room.set_ip(if index == 0 { ip } else { 0 });
            self.instructions.push(room);
        }
        Ok(!bytes.is_empty())
    }

    /// A call that returns to where it would have. `ip`: where it is found by branches.
    pub fn push_call(&mut self, call: Instruction, return_address: u64, ip: u64) {
        self.constant = Some((return_address, self.instructions.len()));
        let place = MemoryOperand::with_base_displ(Register::RIP, call.next_ip() as i64);
        let mut push = Instruction::with1(Code::Push_rm64, place).unwrap_or_default();
        push.set_ip(ip);
        let mut jump = call;
        jump.set_ip(0);
        jump.set_code(match call.code() {
            Code::Call_rel32_64 => Code::Jmp_rel32_64,
            _ => Code::Jmp_rm64,
        });
        self.instructions.extend([push, jump]);
    }
}

/// One by one, which takes a third of the time, with branches that reach far: none if one of them cannot.
fn encode_each(instructions: &[Instruction], at: u64) -> Option<(Vec<u8>, Vec<u32>)> {
    let mut encoder = Encoder::try_new(64).ok()?;
    let (mut offsets, mut inner) = (Vec::with_capacity(instructions.len()), Vec::new());
    let mut behind = 0;
    for instruction in instructions {
        let mut instruction = *instruction;
        let target = instruction.near_branch_target();
        if target != 0 {
            if instruction.is_loop() || instruction.is_loopcc() || instruction.is_jcx_short() {
                return None;
            }
            instruction.as_near_branch();
        }
        offsets.push(behind);
        let to = instructions.iter().position(|one| one.ip() == target).filter(|_| target != 0);
        if to.is_some() {
            instruction.set_near_branch64(at);
        }
        behind += encoder.encode(&instruction, at.wrapping_add(behind.into())).ok()? as u32;
        inner.extend(to.map(|to| (behind, to)));
    }
    let mut code = encoder.take_buffer();
    for (behind, to) in inner {
        // A distance is a branch's last four bytes.
        let place = code[..behind as usize].last_chunk_mut()?;
        *place = offsets[to].wrapping_sub(behind).to_le_bytes();
    }
    Some((code, offsets))
}

/// The code of instructions at an address, and where in it each of them is.
pub(super) fn encode(
    instructions: &[Instruction],
    at: u64,
) -> Result<(Vec<u8>, Vec<u32>), StubError> {
    let is_own = |address| address != 0 && instructions.iter().any(|one| one.ip() == address);
    // The block encoder would have it name the copy of what it names.
    let names_its_own = instructions
        .iter()
        .any(|one| one.is_ip_rel_memory_operand() && is_own(one.ip_rel_memory_address()));
    if names_its_own || !instructions.iter().any(|one| is_own(one.near_branch_target())) {
        if let Some(encoded) = encode_each(instructions, at) {
            return Ok(encoded);
        }
        if names_its_own {
            return Err(StubError { at, reason: "they name one of themselves".into() });
        }
    }
    let block = InstructionBlock::new(instructions, at);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = BlockEncoder::encode(64, block, options)
        .map_err(|error| StubError { at, reason: error.to_string() })?;
    Ok((result.code_buffer, result.new_instruction_offsets))
}

#[cfg(test)]
mod tests {
    use iced_x86::Decoder;
    use iced_x86::code_asm::*;

    use super::*;

    const HERE: u64 = 0x40_1000;
    const THERE: u64 = 0x40_2000;

    /// A function that names its own first instruction, with a branch back to its second one.
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
    fn what_names_its_own_region_names_it_still() {
        let (code, offsets) = encode(&names_itself(|asm, again| asm.jne(again)), THERE).unwrap();
        let moved: Vec<Instruction> = Decoder::with_ip(64, &code, THERE, 0).into_iter().collect();
        assert_eq!(moved[1].ip_rel_memory_address(), HERE);
        assert_eq!(moved[2].near_branch_target(), moved[1].ip());
        let places = moved.iter().map(|one| (one.ip() - THERE) as u32);
        assert!(places.eq(offsets), "{moved:?}");
    }

    #[test]
    fn what_names_its_own_region_and_has_a_short_branch_only_stays() {
        let error = encode(&names_itself(|asm, again| asm.loop_(again)), THERE).unwrap_err();
        assert_eq!(error.at, THERE);
        assert!(error.to_string().ends_with("they name one of themselves"), "{error}");
    }
}
