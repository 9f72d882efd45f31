//! Small programs, written by hand.

use hmtt_translator::cache::Instrument;
use hmtt_translator::layout::area;
use iced_x86::BlockEncoderOptions;
use iced_x86::code_asm::*;

use super::machine::{CachedRun, Controller, Machine, Outcome, new_cache};
use super::memory::Shared;
use super::processor::Registers;

/// Registers with which programs start.
pub fn start(machine: &Machine) -> Registers {
    let mut general =
        std::array::from_fn(|number| 0x1111_2222_3333_4444_u64.wrapping_mul(number as u64));
    general[4] = machine.stack_pointer();
    general[6] = machine.data.start;
    Registers { general, flags: 0x202, vectors: std::array::from_fn(|number| number as u128) }
}

/// Runs a program both ways, with each kind of cache.
fn compare(
    controller: Controller,
    build: impl Fn(&mut CodeAssembler, &Machine) -> Result<(), iced_x86::IcedError>,
) -> Vec<(CachedRun, Outcome)> {
    compare_code(controller, false, build)
}

/// As `compare`. `may_change`: whether the program changes its code.
fn compare_code(
    controller: Controller,
    may_change: bool,
    build: impl Fn(&mut CodeAssembler, &Machine) -> Result<(), iced_x86::IcedError>,
) -> Vec<(CachedRun, Outcome)> {
    let mut runs = Vec::new();
    for instrument in [Instrument::None, Instrument::Ring] {
        for batch in [1, 16] {
            let mut machine = Machine::new();
            machine.code_may_change = may_change;
            let mut asm = CodeAssembler::new(64).unwrap();
            build(&mut asm, &machine).unwrap();
            asm.jmp(qword_ptr(rsi)).unwrap();
            let options = BlockEncoderOptions::NONE;
            let code = asm.assemble_options(machine.code.start, options).unwrap();
            machine.code.write(0, &code.inner.code_buffer);
            let data = machine.processor.exit.to_le_bytes();
            let registers = start(&machine);
            let plain = machine.run(machine.code.start, &registers, &data);
            machine.code.write(0, &code.inner.code_buffer);
            // The programs do not fill a chunk. Address space near the code is scarce.
            let shared = Shared::new(1, area::WAIT);
            let mut cache = new_cache(&machine, instrument, batch, 0);
            let at = machine.code.start;
            let run = machine.run_cached(&mut cache, &shared, controller, at, &registers, &data);
            if let Some(difference) = plain.difference(&run.outcome) {
                panic!("{instrument:?}, batch {batch}: {difference}");
            }
            runs.push((run, plain));
        }
    }
    runs
}

#[test]
fn a_loop_ends_as_in_plain_execution() {
    let runs = compare(Controller::Alive, |asm, _| {
        let mut head = asm.create_label();
        asm.mov(ecx, 1000)?;
        asm.xor(eax, eax)?;
        asm.set_label(&mut head)?;
        asm.add(rax, rcx)?;
        asm.dec(rcx)?;
        asm.jne(head)
    });
    assert_eq!(runs[0].1.registers.general[0], 500_500);
    let numbers = &runs[3].0.numbers;
    assert_eq!(numbers.len(), 1001, "{numbers:?}");
    // The start, the body of the loop, and what follows it.
    assert_eq!(runs[2].0.answers, 3);
}

#[test]
fn changed_code_is_executed_as_it_is_now() {
    for controller in [Controller::Alive, Controller::DiesAfter(4), Controller::Dead] {
        let runs = compare_code(controller, true, |asm, _| {
            let (mut head, mut patched) = (asm.create_label(), asm.create_label());
            let mut function = asm.create_label();
            let mut over = asm.create_label();
            asm.jmp(over)?;
            asm.set_label(&mut function)?;
            asm.mov(edi, 0)?;
            asm.ret()?;
            asm.set_label(&mut over)?;
            asm.xor(ebx, ebx)?;
            asm.mov(ecx, 7)?;
            asm.set_label(&mut head)?;
            asm.lea(rdx, qword_ptr(function))?;
            // The constants of the next instruction, and of the function.
            asm.mov(dword_ptr(rdx + 1), ecx)?;
            asm.lea(rdx, qword_ptr(patched))?;
            asm.cmp(ecx, 3)?;
            asm.mov(dword_ptr(rdx + 1), ecx)?;
            asm.set_label(&mut patched)?;
            asm.mov(eax, 0)?;
            asm.setg(bl)?;
            asm.movzx(ebp, bl)?;
            asm.add(dword_ptr(rsi + 64), eax)?;
            asm.add(dword_ptr(rsi + 68), ebp)?;
            asm.call(function)?;
            asm.add(dword_ptr(rsi + 72), edi)?;
            asm.dec(ecx)?;
            asm.jne(head)
        });
        for (run, plain) in &runs {
            let word = |at: usize| plain.data[at];
            assert_eq!((word(64), word(68), word(72)), (28, 4, 28));
            assert!(controller != Controller::Alive || run.answers > 14, "{}", run.answers);
        }
    }
}

#[test]
fn flags_are_kept_for_code_that_may_be_changed() {
    let runs = compare_code(Controller::Alive, true, |asm, _| {
        let (mut head, mut function) = (asm.create_label(), asm.create_label());
        let mut over = asm.create_label();
        asm.jmp(over)?;
        asm.set_label(&mut function)?;
        asm.sub(edi, edi)?;
        asm.nop()?;
        asm.nop()?;
        asm.ret()?;
        asm.set_label(&mut over)?;
        asm.mov(ecx, 7)?;
        asm.set_label(&mut head)?;
        // sub edi, edi; nop; nop, and setl dil
        asm.mov(eax, 0x9090_ff29_u32)?;
        asm.mov(ebx, 0xc79c_0f40_u32)?;
        asm.cmp(ecx, 5)?;
        asm.cmovl(eax, ebx)?;
        asm.lea(rdx, qword_ptr(function))?;
        asm.mov(dword_ptr(rdx), eax)?;
        asm.cmp(ecx, 5)?;
        asm.call(function)?;
        asm.add(dword_ptr(rsi + 64), edi)?;
        asm.dec(ecx)?;
        asm.jne(head)
    });
    assert!(runs.iter().all(|(_, plain)| plain.data[64] == 4));
}

#[test]
fn calls_push_original_addresses() {
    compare(Controller::Alive, |asm, _| {
        let (mut function, mut over) = (asm.create_label(), asm.create_label());
        asm.call(function)?;
        asm.lea(rax, qword_ptr(function))?;
        asm.call(rax)?;
        asm.push(rax)?;
        asm.call(qword_ptr(rsp))?;
        asm.pop(r15)?;
        asm.push(r15)?;
        asm.mov(r15, rsp)?;
        asm.call(qword_ptr(r15))?;
        asm.pop(r15)?;
        asm.call(r15)?;
        asm.stc()?;
        asm.jmp(over)?;
        asm.set_label(&mut function)?;
        asm.mov(rdx, qword_ptr(rsp))?;
        asm.inc(r15d)?;
        asm.dec(r15d)?;
        asm.add(qword_ptr(rsi + 64), rdx)?;
        asm.ret()?;
        asm.set_label(&mut over)?;
        asm.nop()
    });
}

#[test]
fn without_a_controller_programs_go_on_in_original_code() {
    for controller in [Controller::Dead, Controller::DiesAfter(1), Controller::DiesAfter(2)] {
        compare(controller, |asm, _| {
            let (mut function, mut over) = (asm.create_label(), asm.create_label());
            asm.mov(ecx, 20)?;
            asm.mov(r15, 5i64)?;
            asm.stc()?;
            asm.call(function)?;
            asm.jmp(over)?;
            asm.set_label(&mut function)?;
            asm.sbb(rax, r15)?;
            asm.loop_(function)?;
            asm.ret_1(16)?;
            asm.set_label(&mut over)?;
            asm.setc(al)
        });
    }
}
