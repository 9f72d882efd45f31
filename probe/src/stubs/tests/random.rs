//! Generates random small functions: as machine code, and as actions for an interpreter.

use iced_x86::code_asm::*;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use proptest::collection::vec;
use proptest::prelude::*;

/// Offset of the jump tables from the function's start.
pub const DATA: u64 = 1 << 13;

/// An action of a block before it ends. The value is in `eax`; the carry flag is live across
/// blocks.
#[derive(Clone, Debug)]
pub enum Step {
    /// `eax = eax + n`, or `eax = 3 * eax + n`, without changing flags.
    Add(i8),
    Triple(i8),
    /// `bt eax, n`.
    Test(u8),
    /// `clc` and `stc`.
    Clear,
    Set,
    /// Nops of this number of bytes.
    Nop(usize),
    /// Accesses to the red zone.
    Store(u8),
    Load(u8),
    /// Calls a function that adds 1.
    Call,
}

/// How a block ends. A backward branch uses fuel: half of it each time.
#[derive(Clone, Debug)]
pub enum End {
    Fall,
    Forward(usize),
    IfCarry(usize),
    Back(usize),
    Table([usize; 4]),
    Return,
}

pub type Source = Vec<(Vec<Step>, End)>;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<i8>().prop_map(Step::Add),
        any::<i8>().prop_map(Step::Triple),
        (0u8..32).prop_map(Step::Test),
        Just(Step::Clear),
        Just(Step::Set),
        (1usize..10).prop_map(Step::Nop),
        (2u8..6).prop_map(Step::Store),
        (2u8..6).prop_map(Step::Load),
        Just(Step::Call),
    ]
}

/// A list of blocks. Targets are distances in blocks, forward or backward.
pub fn source() -> impl Strategy<Value = Source> {
    let end = prop_oneof![
        2 => Just(End::Fall),
        2 => (0usize..6).prop_map(End::Forward),
        4 => (0usize..6).prop_map(End::IfCarry),
        3 => (0usize..6).prop_map(End::Back),
        1 => [0usize..4, 0usize..4, 0usize..4, 0usize..4].prop_map(End::Table),
        1 => Just(End::Return),
    ];
    vec((vec(step(), 0..5), end), 1..14)
}

/// The effect of one instruction, for the interpreter.
#[derive(Clone, Debug)]
enum Action {
    Step(Step),
    Halve,
    Jump(usize),
    IfCarry(usize),
    IfFuel(usize),
    Nothing,
    Table([usize; 4]),
    Return,
}

/// A function in memory.
pub struct Built {
    pub bytes: Vec<u8>,
    pub table: Vec<u8>,
    /// Effect and address of each instruction.
    actions: Vec<(Action, u64)>,
    /// Number of the first instruction of each block.
    blocks: Vec<usize>,
    /// Address after the function's last instruction.
    pub end: u64,
}

/// Assembles a function at an address, followed by the function that it calls.
pub fn build(source: &Source, at: u64) -> Built {
    let count = source.len();
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut labels: Vec<CodeLabel> = (0..=count).map(|_| asm.create_label()).collect();
    let mut helper = asm.create_label();
    let (mut actions, mut blocks, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    // Within the first block: a branch back to it leads to the function's first instruction.
    asm.set_label(&mut labels[0]).unwrap();
    for slot in 2..6 {
        asm.mov(dword_ptr(rsp - 8 * slot), eax).unwrap();
        actions.push(Action::Step(Step::Store(slot as u8)));
    }
    for (number, (steps, end)) in source.iter().enumerate() {
        let ahead = |far: &usize| (number + 1 + far).min(count);
        if number > 0 {
            asm.set_label(&mut labels[number]).unwrap();
        }
        blocks.push(if number > 0 { actions.len() } else { 0 });
        for step in steps {
            assemble(&mut asm, step, helper);
            actions.push(Action::Step(step.clone()));
            if matches!(step, Step::Call) {
                // Flags are not preserved across calls.
                asm.clc().unwrap();
                actions.push(Action::Step(Step::Clear));
            }
        }
        match end {
            // A label must precede an instruction.
            End::Fall => {
                asm.nop().unwrap();
                actions.push(Action::Nothing);
            }
            End::Forward(far) => {
                asm.jmp(labels[ahead(far)]).unwrap();
                actions.push(Action::Jump(ahead(far)));
            }
            End::IfCarry(far) => {
                asm.jc(labels[ahead(far)]).unwrap();
                actions.push(Action::IfCarry(ahead(far)));
            }
            End::Back(far) => {
                asm.shr(r10, 1).unwrap();
                asm.jne(labels[number.saturating_sub(*far)]).unwrap();
                actions.push(Action::Halve);
                actions.push(Action::IfFuel(number.saturating_sub(*far)));
            }
            End::Table(far) => {
                let table = at + DATA + 16 * tables.len() as u64;
                tables.push(far.map(|far| ahead(&far)));
                let place = MemoryOperand::with_base_displ(Register::RIP, table as i64);
                let lea = Instruction::with2(Code::Lea_r64_m, Register::R8, place).unwrap();
                asm.add_instruction(lea).unwrap();
                asm.mov(r9d, eax).unwrap();
                asm.and(r9d, 3).unwrap();
                asm.movsxd(r9, dword_ptr(r8 + r9 * 4)).unwrap();
                asm.add(r9, r8).unwrap();
                asm.clc().unwrap();
                asm.jmp(r9).unwrap();
                actions.extend(vec![Action::Nothing; 5]);
                actions.push(Action::Step(Step::Clear));
                actions.push(Action::Table(far.map(|far| ahead(&far))));
            }
            End::Return => {
                asm.ret().unwrap();
                actions.push(Action::Return);
            }
        }
    }
    asm.set_label(&mut labels[count]).unwrap();
    blocks.push(actions.len());
    asm.ret().unwrap();
    actions.push(Action::Return);
    asm.set_label(&mut helper).unwrap();
    asm.lea(eax, ptr(rax + 1)).unwrap();
    asm.ret().unwrap();
    finish(asm.assemble(at).unwrap(), at, actions, blocks, &tables)
}

fn assemble(asm: &mut CodeAssembler, step: &Step, helper: CodeLabel) {
    let done = match step {
        Step::Add(n) => asm.lea(eax, ptr(rax + i32::from(*n))),
        Step::Triple(n) => asm.lea(eax, ptr(rax + rax * 2 + i32::from(*n))),
        Step::Test(bit) => asm.bt(eax, u32::from(*bit)),
        Step::Clear => asm.clc(),
        Step::Set => asm.stc(),
        Step::Nop(bytes) => asm.nops_with_size(*bytes),
        Step::Store(slot) => asm.mov(dword_ptr(rsp - 8 * i32::from(*slot)), eax),
        Step::Load(slot) => asm.mov(eax, dword_ptr(rsp - 8 * i32::from(*slot))),
        Step::Call => asm.call(helper),
    };
    done.unwrap();
}

fn finish(
    bytes: Vec<u8>,
    at: u64,
    actions: Vec<Action>,
    blocks: Vec<usize>,
    tables: &[[usize; 4]],
) -> Built {
    let decoder = iced_x86::Decoder::with_ip(64, &bytes, at, 0);
    let ips: Vec<u64> = decoder.into_iter().map(|instruction| instruction.ip()).collect();
    // The helper's two instructions have no actions.
    assert_eq!(ips.len(), actions.len() + 2);
    let mut table = Vec::new();
    for (number, targets) in tables.iter().enumerate() {
        let start = at + DATA + 16 * number as u64;
        for target in targets {
            let distance = ips[blocks[*target]].wrapping_sub(start) as u32;
            table.extend(distance.to_le_bytes());
        }
    }
    let end = ips[actions.len()];
    let actions = actions.into_iter().zip(ips).collect();
    Built { bytes, table, actions, blocks, end }
}

/// Addresses of all instructions in the order of execution, and the result.
pub fn interpret(built: &Built, start: u32, mut fuel: u64) -> (Vec<u64>, u32) {
    let (mut value, mut carry, mut slots, mut at) = (start, false, [0u32; 6], 0);
    let mut passed = Vec::new();
    loop {
        let (action, ip) = &built.actions[at];
        passed.push(*ip);
        at += 1;
        match action {
            Action::Step(step) => match step {
                Step::Add(n) => value = value.wrapping_add_signed(i32::from(*n)),
                Step::Triple(n) => {
                    value = value.wrapping_mul(3).wrapping_add_signed(i32::from(*n));
                }
                Step::Test(bit) => carry = value >> bit & 1 != 0,
                Step::Clear => carry = false,
                Step::Set => carry = true,
                Step::Nop(_) => {}
                Step::Store(slot) => slots[usize::from(*slot)] = value,
                Step::Load(slot) => value = slots[usize::from(*slot)],
                Step::Call => value = value.wrapping_add(1),
            },
            Action::Halve => (carry, fuel) = (fuel & 1 != 0, fuel >> 1),
            Action::Jump(block) => at = built.blocks[*block],
            Action::IfCarry(block) if carry => at = built.blocks[*block],
            Action::IfFuel(block) if fuel != 0 => at = built.blocks[*block],
            Action::IfCarry(_) | Action::IfFuel(_) | Action::Nothing => {}
            Action::Table(blocks) => at = built.blocks[blocks[value as usize & 3]],
            Action::Return => return (passed, value),
        }
    }
}
