//! All forms of instructions with operands in memory, each as one instruction.

use hmtt_translator::memory_accesses::memory_accesses;
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, Instruction, InstructionInfoFactory, MemoryOperand,
    OpAccess, OpCodeOperandKind, OpKind, Register,
};

/// Base of operands in memory.
pub const BASE: Register = Register::RBX;
/// Number of the vector with the indexes of a gather or scatter.
pub const INDEX: u32 = 2;
/// Address at which instructions are, and which they have if it is a part of them.
pub const CODE: u64 = 0x2400_0800;
/// What is at the address in an instruction.
pub const STATIC: u64 = 0x2000_c000;

/// A form of an instruction.
pub struct Form {
    pub instruction: Instruction,
    pub bytes: Vec<u8>,
}

impl Form {
    /// As manuals write it, with what the instruction has of what is optional.
    pub fn name(&self) -> String {
        let mut name = self.instruction.op_code().instruction_string().to_string();
        if self.instruction.is_broadcast() {
            name += " (broadcast)";
        }
        if self.instruction.has_op_mask() && !self.instruction.op_code().require_op_mask_register()
        {
            name += " (masked)";
        }
        if self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix() {
            name += " (repeated)";
        }
        name
    }
}

/// What of an instruction is optional.
#[derive(Clone, Copy, Default)]
struct Options {
    masked: bool,
    broadcast: bool,
    repeated: bool,
}

/// All forms in the order of the codes of `iced_x86`.
pub fn all() -> Vec<Form> {
    let mut factory = InstructionInfoFactory::new();
    let mut forms = Vec::new();
    for code in Code::values() {
        let info = code.op_code();
        if !info.is_instruction() || !info.mode64() {
            continue;
        }
        let must = info.require_op_mask_register();
        for broadcast in [false, true] {
            for masked in [false, true] {
                let is_possible = (!broadcast || info.can_broadcast())
                    && if masked { info.can_use_op_mask_register() } else { !must };
                let options = Options { masked, broadcast, repeated: false };
                forms.extend(is_possible.then(|| form(code, options)).flatten());
            }
        }
        if info.can_use_rep_prefix() {
            forms.extend(form(code, Options { repeated: true, ..Options::default() }));
        }
    }
    forms.retain(|form| {
        let info = factory.info(&form.instruction);
        let is_memory = |access| !matches!(access, OpAccess::None | OpAccess::NoMemAccess);
        info.used_memory().iter().any(|used| is_memory(used.access()))
            || !memory_accesses(&form.instruction).is_empty()
    });
    forms
}

/// A form of a code, as it is decoded. `None` if there is none with an operand in memory.
fn form(code: Code, options: Options) -> Option<Form> {
    let info = code.op_code();
    let mut instruction = Instruction::new();
    instruction.set_code(code);
    let mut general = [Register::R10, Register::R9, Register::R8].into_iter();
    for (operand, kind) in info.op_kinds().iter().enumerate() {
        set_operand(&mut instruction, operand as u32, *kind, &mut general)?;
    }
    if options.masked {
        instruction.set_op_mask(Register::K1);
    }
    instruction.set_is_broadcast(options.broadcast);
    if options.repeated {
        instruction.set_has_rep_prefix(true);
    }
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction, CODE).ok()?;
    let bytes = encoder.take_buffer();
    let decoded = Decoder::with_ip(64, &bytes, CODE, DecoderOptions::NONE).decode();
    (decoded.code() == code).then_some(Form { instruction: decoded, bytes })
}

/// Sets an operand. `None` if it is of a kind that has no memory in 64-bit mode.
fn set_operand(
    instruction: &mut Instruction,
    operand: u32,
    kind: OpCodeOperandKind,
    general: &mut impl Iterator<Item = Register>,
) -> Option<()> {
    use OpCodeOperandKind as Kind;
    let mut general = |first: Register| {
        let whole = general.next().unwrap_or(Register::R10);
        if first == Register::AL {
            Register::R8L + (whole.number() as u32 - 8)
        } else {
            first + whole.number() as u32
        }
    };
    let register = match kind {
        Kind::None => return Some(()),
        Kind::mem
        | Kind::mem_mpx
        | Kind::mem_mib
        | Kind::r8_or_mem
        | Kind::r16_or_mem
        | Kind::r32_or_mem
        | Kind::r32_or_mem_mpx
        | Kind::r64_or_mem
        | Kind::r64_or_mem_mpx
        | Kind::mm_or_mem
        | Kind::xmm_or_mem
        | Kind::ymm_or_mem
        | Kind::zmm_or_mem
        | Kind::bnd_or_mem_mpx
        | Kind::k_or_mem => {
            return memory(instruction, operand, MemoryOperand::with_base(BASE));
        }
        Kind::sibmem => {
            let address = MemoryOperand::with_base_index(BASE, Register::R9);
            return memory(instruction, operand, address);
        }
        Kind::mem_vsib32x | Kind::mem_vsib64x => {
            return indexed(instruction, operand, Register::XMM0);
        }
        Kind::mem_vsib32y | Kind::mem_vsib64y => {
            return indexed(instruction, operand, Register::YMM0);
        }
        Kind::mem_vsib32z | Kind::mem_vsib64z => {
            return indexed(instruction, operand, Register::ZMM0);
        }
        Kind::mem_offs => {
            return memory(instruction, operand, MemoryOperand::with_displ(STATIC, 8));
        }
        Kind::seg_rSI => return implied(instruction, operand, OpKind::MemorySegRSI),
        Kind::es_rDI => return implied(instruction, operand, OpKind::MemoryESRDI),
        Kind::seg_rDI => return implied(instruction, operand, OpKind::MemorySegRDI),
        Kind::seg_rBX_al => {
            instruction.set_memory_base(Register::RBX);
            instruction.set_memory_index(Register::AL);
            return implied(instruction, operand, OpKind::Memory);
        }
        Kind::imm8 | Kind::imm4_m2z => return implied(instruction, operand, OpKind::Immediate8),
        Kind::imm8_const_1 => {
            instruction.set_immediate8(1);
            return implied(instruction, operand, OpKind::Immediate8);
        }
        Kind::imm8sex16 => return implied(instruction, operand, OpKind::Immediate8to16),
        Kind::imm8sex32 => return implied(instruction, operand, OpKind::Immediate8to32),
        Kind::imm8sex64 => return implied(instruction, operand, OpKind::Immediate8to64),
        Kind::imm16 => return implied(instruction, operand, OpKind::Immediate16),
        Kind::imm32 => return implied(instruction, operand, OpKind::Immediate32),
        Kind::imm32sex64 => return implied(instruction, operand, OpKind::Immediate32to64),
        Kind::br64_1 | Kind::br64_4 => {
            instruction.set_near_branch64(CODE + 5);
            return implied(instruction, operand, OpKind::NearBranch64);
        }
        Kind::r8_reg | Kind::r8_opcode => general(Register::AL),
        Kind::r16_reg | Kind::r16_reg_mem | Kind::r16_rm | Kind::r16_opcode => {
            general(Register::AX)
        }
        Kind::r32_reg | Kind::r32_reg_mem | Kind::r32_rm | Kind::r32_opcode | Kind::r32_vvvv => {
            general(Register::EAX)
        }
        Kind::r64_reg | Kind::r64_rm | Kind::r64_opcode | Kind::r64_vvvv => general(Register::RAX),
        // It is the base of what is written.
        Kind::r64_reg_mem => BASE,
        Kind::seg_reg => Register::DS,
        Kind::k_reg | Kind::kp1_reg => Register::K2,
        Kind::k_rm | Kind::k_vvvv => Register::K4,
        Kind::mm_reg => Register::MM1,
        Kind::mm_rm => Register::MM5,
        Kind::xmm_reg => Register::XMM1,
        Kind::xmm_rm => Register::XMM5,
        Kind::xmm_vvvv => Register::XMM3,
        Kind::xmmp3_vvvv => Register::XMM4,
        Kind::xmm_is4 | Kind::xmm_is5 => Register::XMM6,
        Kind::ymm_reg => Register::YMM1,
        Kind::ymm_rm => Register::YMM5,
        Kind::ymm_vvvv => Register::YMM3,
        Kind::ymm_is4 | Kind::ymm_is5 => Register::YMM6,
        Kind::zmm_reg => Register::ZMM1,
        Kind::zmm_rm => Register::ZMM5,
        Kind::zmm_vvvv => Register::ZMM3,
        Kind::zmmp3_vvvv => Register::ZMM4,
        Kind::bnd_reg => Register::BND1,
        Kind::tmm_reg => Register::TMM1,
        Kind::tmm_rm => Register::TMM2,
        Kind::tmm_vvvv => Register::TMM3,
        Kind::es => Register::ES,
        Kind::cs => Register::CS,
        Kind::ss => Register::SS,
        Kind::ds => Register::DS,
        Kind::fs => Register::FS,
        Kind::gs => Register::GS,
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        Kind::st0 => Register::ST0,
        Kind::sti_opcode => Register::ST1,
        _ => return None,
    };
    instruction.set_op_kind(operand, OpKind::Register);
    instruction.set_op_register(operand, register);
    Some(())
}

fn implied(instruction: &mut Instruction, operand: u32, kind: OpKind) -> Option<()> {
    instruction.set_op_kind(operand, kind);
    Some(())
}

fn memory(instruction: &mut Instruction, operand: u32, address: MemoryOperand) -> Option<()> {
    instruction.set_op_kind(operand, OpKind::Memory);
    instruction.set_memory_base(address.base);
    instruction.set_memory_index(address.index);
    instruction.set_memory_index_scale(address.scale);
    instruction.set_memory_displ_size(address.displ_size);
    instruction.set_memory_displacement64(address.displacement as u64);
    Some(())
}

fn indexed(instruction: &mut Instruction, operand: u32, first: Register) -> Option<()> {
    let address = MemoryOperand::with_base_index_scale(BASE, first + INDEX, 2);
    memory(instruction, operand, address)
}
