//! Finds the address of `main` in the code at the entry point.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};

use super::Image;

/// Maximum number of bytes that are decoded. The start code of all C libraries is shorter.
const LONGEST: usize = 64;

/// Returns the value of `rdi` at the first call: `__libc_start_main` takes the address of `main`
/// there.
///
/// `None` if the value is not known (musl passes the stack to a C function of its own) or is no
/// address of an instruction.
pub(super) fn main(image: &Image) -> Option<u64> {
    let entry = image.entry;
    let bytes = image.text.iter().find_map(|text| {
        let skipped = usize::try_from(entry.checked_sub(text.start)?).ok()?;
        text.bytes.get(skipped..).filter(|bytes| !bytes.is_empty())
    })?;
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let mut first = None;
    for instruction in &mut Decoder::with_ip(64, bytes, entry, DecoderOptions::NONE) {
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                return first.filter(|main| is_code(image, *main));
            }
            _ => return None,
        }
        if instruction.op_count() > 0 && instruction.op0_register().full_register() == Register::RDI
        {
            first = value(&instruction);
        }
    }
    None
}

/// The constant that an instruction writes to its first operand; `None` if it writes no constant.
fn value(instruction: &Instruction) -> Option<u64> {
    match instruction.code() {
        Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
            Some(instruction.ip_rel_memory_address())
        }
        Code::Mov_r64_imm64 | Code::Mov_rm64_imm32 | Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 => {
            Some(instruction.immediate(1))
        }
        _ => None,
    }
}

fn is_code(image: &Image, address: u64) -> bool {
    let inside = |start: u64, bytes: &[u8]| {
        address.checked_sub(start).is_some_and(|skipped| skipped < bytes.len() as u64)
    };
    image.text.iter().any(|text| inside(text.start, &text.bytes))
}
