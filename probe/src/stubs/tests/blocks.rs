//! Random small functions that run in this process, as they are and with all their blocks tagged: the same
//! comes out, and the log has each block whenever an interpreter gets to its first instruction.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use iced_x86::code_asm::*;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::{BUFFER, Bench, CODE_BYTES};
use crate::disassembly::{Disassembly, Grain, Rewrite};
use crate::elf::{Function, Image, Text};
use crate::stubs::layout::LogShape;
use crate::stubs::{Sink, Stubs};

/// Room for events of all turns that a function can make.
const SHAPE: LogShape = LogShape { chunk_bytes: 1 << 18, ..BUFFER };
/// Where tables are, and stubs, in the memory for code.
const DATA: u64 = 1 << 13;
const STUBS: u64 = 1 << 14;
/// The function's number.
const NUMBER: u32 = 5;

/// What a block does before it ends. Values are in `eax`; the carry flag is used across blocks.
#[derive(Clone, Debug)]
enum Step {
    /// `eax = eax + n`, or three times that, without flags.
    Add(i8),
    Triple(i8),
    /// `bt eax, n`.
    Test(u8),
    Clear,
    Set,
    /// So many bytes.
    Nop(usize),
    /// Below the stack pointer.
    Store(u8),
    Load(u8),
    /// A function that adds 1.
    Call,
}

/// How it ends. What goes back uses fuel up: half of it each time.
#[derive(Clone, Debug)]
enum End {
    Fall,
    Forward(usize),
    IfCarry(usize),
    Back(usize),
    Table([usize; 4]),
    Return,
}

type Source = Vec<(Vec<Step>, End)>;

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

/// Blocks by how far they are ahead, or behind.
fn source() -> impl Strategy<Value = Source> {
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

/// What one instruction does, for the interpreter.
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
struct Built {
    bytes: Vec<u8>,
    table: Vec<u8>,
    /// What each instruction does, and where it is.
    actions: Vec<(Action, u64)>,
    /// First instruction of each block, by number.
    blocks: Vec<usize>,
    /// Behind the function's last instruction.
    end: u64,
}

/// Assembles a function at an address, with the one that it calls behind it.
fn build(source: &Source, at: u64) -> Built {
    let count = source.len();
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut labels: Vec<CodeLabel> = (0..=count).map(|_| asm.create_label()).collect();
    let mut helper = asm.create_label();
    let (mut actions, mut blocks, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    // In the first block: what goes back there goes back to the function's first instruction.
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
                // No flags outlive a call.
                asm.clc().unwrap();
                actions.push(Action::Step(Step::Clear));
            }
        }
        match end {
            // A label is before an instruction.
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
    // Those of the helper are none of ours.
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

/// The addresses of all instructions in the order in which they run, and what comes out.
fn interpret(built: &Built, start: u32, mut fuel: u64) -> (Vec<u64>, u32) {
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

fn image(built: &Built, at: u64) -> Image {
    let function = |name: &str, range: Range<u64>| Function {
        name: name.into(),
        symbols: Vec::new(),
        start: range.start,
        size: range.end - range.start,
        ifunc: false,
        source: None,
    };
    let behind = at + built.bytes.len() as u64;
    let text = |start, bytes: &[u8]| Text { start, offset: 0, bytes: bytes.to_vec() };
    Image {
        path: "random".into(),
        functions: vec![function("random", at..built.end), function("helper", built.end..behind)],
        fragments: Vec::new(),
        text: vec![text(at, &built.bytes)],
        data: vec![text(at + DATA, &built.table)],
        reached: Vec::new(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry: at,
        relocatable: true,
        dynamic: false,
    }
}

fn call(at: u64, value: u32, fuel: u64) -> u32 {
    let mut result = u64::from(value);
    // SAFETY: the code changes these registers and flags, and memory below the stack pointer.
    unsafe {
        std::arch::asm!(
            "lea rsp, [rsp-1024]", "stc", "clc", "call {at}", "lea rsp, [rsp+1024]",
            at = in(reg) at, inout("rax") result, inout("r10") fuel => _,
            out("r8") _, out("r9") _,
        );
    }
    result as u32
}

/// Puts a function's stubs and jumps in. Number of each block that is tagged, by address.
fn tag(bench: &Bench, rewrite: &Rewrite, sink: Sink) -> BTreeMap<u64, u32> {
    let at = bench.code();
    let room = Stubs::room(rewrite, sink) + 4096;
    assert!(STUBS + room <= CODE_BYTES as u64, "{room} bytes");
    let mut stubs = Stubs::new(at + STUBS, 0, sink, Stubs::tags(rewrite)).unwrap();
    let changes = stubs.add(rewrite, at, NUMBER).unwrap();
    let write = |address: u64, bytes: &[u8]| {
        // SAFETY: within the memory for code; nothing of it runs now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    };
    let code = stubs.code();
    assert!(code.len() as u64 <= room);
    write(at + STUBS, &code);
    changes.edits.iter().for_each(|(address, bytes)| write(*address, bytes));
    let blocks = rewrite.seen_blocks().zip(NUMBER + 1..);
    blocks.map(|(block, number)| (block.start, number)).collect()
}

/// What is changed, for people.
fn shown(rewrite: &Rewrite) -> String {
    let mut text = String::new();
    for (kind, regions) in [("region", &rewrite.regions), ("detour", &rewrite.detours)] {
        for region in regions {
            text += &format!("{kind} to {:x}, {:x?}\n", region.room, region.jump);
            for instruction in &region.instructions {
                text += &format!(
                    "  {:x} {:?} {:x}\n",
                    instruction.ip(),
                    instruction.code(),
                    instruction.near_branch_target()
                );
            }
        }
    }
    for branch in &rewrite.redirects {
        text += &format!("redirected {:x} {:?}\n", branch.ip(), branch.code());
    }
    text + &format!("hidden {:x?}\n{:x?}\n", rewrite.hidden, rewrite.blocks)
}

/// Panics unless a function does the same tagged, and says so.
fn check(source: &Source, grain: Grain, sink: Sink, inputs: &[(u32, u64)]) -> (usize, usize) {
    let bench = Bench::new(SHAPE);
    let at = bench.code();
    let built = build(source, at);
    // SAFETY: within the memory for code.
    unsafe {
        let (text, data) = (at as *mut u8, (at + DATA) as *mut u8);
        std::ptr::copy_nonoverlapping(built.bytes.as_ptr(), text, built.bytes.len());
        std::ptr::copy_nonoverlapping(built.table.as_ptr(), data, built.table.len());
    }
    for (value, fuel) in inputs {
        assert_eq!(call(at, *value, *fuel), interpret(&built, *value, *fuel).1, "untagged");
    }
    let image = image(&built, at);
    let function = [(&image.functions[0], grain)];
    let rewrites = Disassembly::of(&image).finer_rewrites(&function, sink.exits());
    let rewrite = rewrites.into_iter().next().unwrap();
    let Ok(rewrite) = rewrite else { return (0, 0) };
    let numbers = tag(&bench, &rewrite, sink);
    if sink == Sink::Count {
        check_counts(&bench, &built, &numbers, inputs, &rewrite);
        return (rewrite.blocks.len(), numbers.len());
    }
    let mut record = bench.records(0);
    for (value, fuel) in inputs {
        let (passed, result) = interpret(&built, *value, *fuel);
        assert_eq!(call(at, *value, *fuel), result, "{}", shown(&rewrite));
        let entry = std::iter::once(1 + 2 * NUMBER);
        let blocks = passed.iter().filter_map(|ip| Some(1 + 2 * numbers.get(ip)?));
        let end = bench.pointer();
        let words = (record..end).step_by(16).map(|at| bench.word(at + 12).load(Ordering::SeqCst));
        let mut words: Vec<u32> = words.collect();
        // A way out that cannot be seen may be seen where some branches to it are.
        let is_hidden = rewrite.hidden.iter().any(|(address, _)| Some(address) == passed.last());
        let exit = 2 + 2 * NUMBER;
        if is_hidden && words.last() != Some(&exit) {
            words.push(exit);
        }
        let expected: Vec<u32> = entry.chain(blocks).chain([exit]).collect();
        assert_eq!(words, expected, "{}", shown(&rewrite));
        record = end;
    }
    (rewrite.blocks.len(), numbers.len())
}

/// The same with counters, which are where the slot of a log would be.
fn check_counts(
    bench: &Bench,
    built: &Built,
    numbers: &BTreeMap<u64, u32>,
    inputs: &[(u32, u64)],
    rewrite: &Rewrite,
) {
    let counter = |number: u32| bench.long(bench.slot() + 8 * u64::from(number));
    let all = NUMBER..=NUMBER + numbers.len() as u32;
    all.for_each(|number| counter(number).store(0, Ordering::SeqCst));
    let mut expected: BTreeMap<u32, u64> = numbers.values().map(|number| (*number, 0)).collect();
    for (value, fuel) in inputs {
        let (passed, result) = interpret(built, *value, *fuel);
        assert_eq!(call(bench.code(), *value, *fuel), result, "{}", shown(rewrite));
        for number in passed.iter().filter_map(|ip| numbers.get(ip)) {
            *expected.entry(*number).or_default() += 1;
        }
    }
    expected.insert(NUMBER, inputs.len() as u64);
    for (number, expected) in expected {
        let counted = counter(number).load(Ordering::SeqCst);
        assert_eq!(counted, expected, "{number}\n{}", shown(rewrite));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_functions_do_the_same_and_log_each_block_in_order(
        source in source(),
        inputs in vec((any::<u32>(), 0u64..1 << 40), 1..6),
        grain in prop::sample::select(vec![Grain::Function, Grain::Loops, Grain::Blocks]),
        is_counted in any::<bool>(),
    ) {
        let sink = if is_counted { Sink::Count } else { Sink::Log(SHAPE) };
        check(&source, grain, sink, &inputs);
    }
}

#[test]
fn most_blocks_of_random_functions_are_tagged() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut all, mut tagged) = (0, 0);
    for _ in 0..300 {
        let source = source().new_tree(&mut runner).unwrap().current();
        let (blocks, seen) = check(&source, Grain::Blocks, Sink::Log(SHAPE), &[(7, 1 << 20)]);
        (all, tagged) = (all + blocks, tagged + seen);
    }
    println!("{tagged} of {all} blocks tagged");
    assert!(tagged * 10 >= all * 6 && all > 1000, "{tagged} of {all}");
}
