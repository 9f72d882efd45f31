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

/// The same, one by one, which takes a third of the time: if none branches to another of them, or only does near.
fn encode_each(instructions: &[Instruction], at: u64) -> Option<(Vec<u8>, Vec<u32>)> {
    let mut encoder = Encoder::try_new(64).ok()?;
    let mut offsets = Vec::with_capacity(instructions.len());
    let mut code = 0;
    for instruction in instructions {
        let mut instruction = *instruction;
        let target = instruction.near_branch_target();
        if target != 0 {
            let is_inside = instructions.iter().any(|one| one.ip() == target);
            if is_inside
                || instruction.is_loop()
                || instruction.is_loopcc()
                || instruction.is_jcx_short()
            {
                return None;
            }
            instruction.as_near_branch();
        }
        offsets.push(code);
        code += encoder.encode(&instruction, at.wrapping_add(code.into())).ok()? as u32;
    }
    Some((encoder.take_buffer(), offsets))
}

/// The code of instructions at an address, and where in it each of them is.
pub(super) fn encode(
    instructions: &[Instruction],
    at: u64,
) -> Result<(Vec<u8>, Vec<u32>), StubError> {
    if let Some(encoded) = encode_each(instructions, at) {
        return Ok(encoded);
    }
    let block = InstructionBlock::new(instructions, at);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = BlockEncoder::encode(64, block, options)
        .map_err(|error| StubError { at, reason: error.to_string() })?;
    Ok((result.code_buffer, result.new_instruction_offsets))
}
