//! Describes the instructions of a block from their bytes: sizes, branches, and the registers that
//! they read and write.
//!
//! The bytes are original code as it is stored in traces. The description ends at the first bytes
//! that are no instruction.
//!
//! For `add (%rbx),%eax`, `rax` and `rbx` are read, and `rax` and the flags are written.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, Register, RflagsBits,
};

/// The status flags, which arithmetic sets and branches read.
const STATUS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// A register, or another part of the processor's state that instructions read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A general register, in the order of encodings: `rax`, `rcx`, `rdx`, `rbx`, `rsp`, `rbp`,
    /// `rsi`, `rdi`, `r8`...
    General(u8),
    /// The status flags.
    Flags,
    /// The base of a segment: 0 for `fs`, 1 for `gs`.
    Segment(u8),
    /// A register of the x87 unit or MMX.
    Floating(u8),
    /// A mask register.
    Mask(u8),
    /// A vector register.
    Vector(u8),
}

/// Number of the bit of the first register of each kind in a [`StateSet`].
const FLAGS: u8 = 16;
const SEGMENT: u8 = 18;
const FLOATING: u8 = 24;
const MASK: u8 = 32;
const VECTOR: u8 = 40;
const END: u8 = 72;

impl State {
    fn bit(self) -> u8 {
        match self {
            State::General(number) => number,
            State::Flags => FLAGS,
            State::Segment(number) => SEGMENT + number,
            State::Floating(number) => FLOATING + number,
            State::Mask(number) => MASK + number,
            State::Vector(number) => VECTOR + number,
        }
    }

    fn from_bit(bit: u8) -> Self {
        match bit {
            ..FLAGS => State::General(bit),
            FLAGS..SEGMENT => State::Flags,
            SEGMENT..FLOATING => State::Segment(bit - SEGMENT),
            FLOATING..MASK => State::Floating(bit - FLOATING),
            MASK..VECTOR => State::Mask(bit - MASK),
            VECTOR.. => State::Vector(bit - VECTOR),
        }
    }

    fn from_register(register: Register) -> Option<Self> {
        let register = register.full_register();
        let number = register.number() as u8;
        if register.is_gpr() {
            Some(State::General(number))
        } else if register.is_vector_register() {
            Some(State::Vector(number))
        } else if register.is_st() || register.is_mm() {
            Some(State::Floating(number))
        } else if register.is_k() {
            Some(State::Mask(number))
        } else {
            match register {
                Register::FS => Some(State::Segment(0)),
                Register::GS => Some(State::Segment(1)),
                _ => None,
            }
        }
    }
}

/// A set of registers, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateSet(u128);

impl StateSet {
    /// Adds a register.
    pub fn insert(&mut self, state: State) {
        self.0 |= 1 << state.bit();
    }

    /// Whether a register is in the set.
    pub fn contains(self, state: State) -> bool {
        self.0 >> state.bit() & 1 != 0
    }

    /// The registers of the set: general ones first, then the flags and others.
    pub fn iter(self) -> impl Iterator<Item = State> {
        (0..END).filter(move |bit| self.0 >> bit & 1 != 0).map(State::from_bit)
    }
}

/// How an instruction determines the instruction that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction in memory follows, also after a system call, which returns there.
    Next,
    /// A jump to an address in the instruction.
    Jump,
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A jump under a condition.
    Branch,
    /// A call of an address in the instruction.
    Call,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A return.
    Return,
}

/// An instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Offset in the block, in bytes.
    pub offset: u16,
    /// Number of its bytes.
    pub bytes: u8,
    /// How it determines the instruction that follows it.
    pub flow: Flow,
    /// Address to which a direct jump, branch or call leads; 0 for other instructions.
    pub target: u64,
    /// Registers that it reads or may read, also to address memory.
    pub reads: StateSet,
    /// Registers that it writes or may write.
    pub writes: StateSet,
}

/// Describes the instructions in the original bytes of a block, up to the first bytes that are no
/// instruction. `start`: original address of the block.
///
/// `50 74 fe` at 0 is a push at offset 0 and a branch at offset 1 whose target is 1.
pub fn instructions(start: u64, code: &[u8]) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instructions = Vec::new();
    let mut offset = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        instructions.push(describe(&instruction, offset, &mut factory));
        offset = offset.wrapping_add(instruction.len() as u16);
    }
    instructions
}

fn describe(
    instruction: &iced_x86::Instruction,
    offset: u16,
    factory: &mut InstructionInfoFactory,
) -> Instruction {
    let flow = match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::ConditionalBranch => Flow::Branch,
        FlowControl::Call if instruction.is_call_near() => Flow::Call,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return => Flow::Return,
        _ => Flow::Next,
    };
    let is_direct = matches!(flow, Flow::Jump | Flow::Branch | Flow::Call);
    let target = if is_direct { instruction.near_branch_target() } else { 0 };
    let (mut reads, mut writes) = (StateSet::default(), StateSet::default());
    for used in factory.info(instruction).used_registers() {
        let Some(state) = State::from_register(used.register()) else { continue };
        let (is_read, is_written) = match used.access() {
            OpAccess::None | OpAccess::NoMemAccess => (false, false),
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        };
        if is_read {
            reads.insert(state);
        }
        if is_written {
            writes.insert(state);
        }
    }
    if instruction.rflags_read() & STATUS != 0 {
        reads.insert(State::Flags);
    }
    if instruction.rflags_modified() & STATUS != 0 {
        writes.insert(State::Flags);
    }
    Instruction { offset, bytes: instruction.len() as u8, flow, target, reads, writes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: State = State::General(0);
    const RBX: State = State::General(3);
    const RSP: State = State::General(4);

    fn sets(instruction: &Instruction) -> [Vec<State>; 2] {
        [instruction.reads.iter().collect(), instruction.writes.iter().collect()]
    }

    #[test]
    fn registers_and_flags_are_those_of_the_instructions() {
        // add (%rbx),%eax; push %rax; vaddps %ymm1,%ymm2,%ymm17{%k3}; mov %fs:0x28,%rax
        let code = [
            &[0x03, 0x03][..],
            &[0x50],
            &[0x62, 0xe1, 0x6c, 0x2b, 0x58, 0xc9],
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
        ];
        let instructions = instructions(0x1000, &code.concat());
        let places: Vec<_> = instructions
            .iter()
            .map(|instruction| (instruction.offset, instruction.bytes))
            .collect();
        assert_eq!(places, [(0, 2), (2, 1), (3, 6), (9, 9)]);
        assert!(
            instructions
                .iter()
                .all(|instruction| instruction.flow == Flow::Next && instruction.target == 0)
        );
        assert_eq!(sets(&instructions[0]), [vec![RAX, RBX], vec![RAX, State::Flags]]);
        assert_eq!(sets(&instructions[1]), [vec![RAX, RSP], vec![RSP]]);
        let [reads, writes] = sets(&instructions[2]);
        assert!(reads.contains(&State::Mask(3)) && reads.contains(&State::Vector(2)));
        assert_eq!(writes, [State::Vector(17)]);
        assert_eq!(sets(&instructions[3]), [vec![State::Segment(0)], vec![RAX]]);
    }

    #[test]
    fn branches_are_known_by_their_kind() {
        let cases: [(&[u8], Flow, u64); 9] = [
            (&[0xeb, 0x10], Flow::Jump, 0x1012),
            (&[0xff, 0xe0], Flow::IndirectJump, 0),
            (&[0x74, 0xfe], Flow::Branch, 0x1000),
            (&[0xe3, 0x00], Flow::Branch, 0x1002),
            (&[0xe8, 0, 1, 0, 0], Flow::Call, 0x1105),
            (&[0xff, 0x15, 0, 0, 0, 0], Flow::IndirectCall, 0),
            (&[0xc3], Flow::Return, 0),
            (&[0x0f, 0x05], Flow::Next, 0),
            (&[0xf3, 0xa4], Flow::Next, 0),
        ];
        for (code, flow, target) in cases {
            let instructions = instructions(0x1000, code);
            assert_eq!(
                (instructions.len(), instructions[0].flow, instructions[0].target),
                (1, flow, target),
                "{code:x?}"
            );
        }
        let branch = instructions(0, &[0x74, 0xfe])[0];
        assert_eq!(sets(&branch), [vec![State::Flags], vec![]]);
    }

    #[test]
    fn what_is_no_instruction_ends_a_block() {
        assert_eq!(instructions(u64::MAX, &[0x90, 0x90, 0x06, 0x90]).len(), 2);
        assert_eq!(instructions(0, &[0x90, 0x48]).len(), 1);
        assert_eq!(instructions(0, &[]), []);
    }

    #[test]
    fn sets_have_all_registers() {
        for bit in 0..END {
            let mut set = StateSet::default();
            set.insert(State::from_bit(bit));
            assert_eq!(set.iter().count(), 1);
            assert!(set.contains(State::from_bit(bit)));
        }
    }
}
