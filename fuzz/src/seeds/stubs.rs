//! Builds scripts of the target `stubs` from small functions as compilers generate them.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::targets::stubs::DATA;

/// Address of the code: the first of the target's bases.
const BASE: u64 = 0x40_1000;
/// Options: a position-independent program, and one of Go.
const RELOCATABLE: u8 = 4;
const GO: u8 = 8;
/// Kinds of addresses in data.
const REACHED: u8 = 0;
const LANDING_PAD: u8 = 2;
/// Granularities: loops of the first function, blocks of the second, and so on.
const GRAINS: u8 = 0b00_10_01_11;

/// Kind of a function or fragment, and its distance from the start in bytes.
type Place = (u8, u16);

fn script(
    head: [u8; 3],
    pieces: &[Place],
    addresses: &[Place],
    table: &[u16],
    code: &[u8],
) -> Vec<u8> {
    let counts = pieces.len() | addresses.len() << 3 | table.len() << 6;
    let place = |(kind, at): &Place| [&[*kind][..], &at.to_be_bytes()].concat();
    let places = pieces.iter().chain(addresses).flat_map(place);
    let table = table.iter().flat_map(|entry| entry.to_be_bytes());
    let head = head.into_iter().chain([counts as u8]);
    head.chain(places).chain(table).chain(code.iter().copied()).collect()
}

/// Assembles code at [`BASE`].
fn code(make: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> Vec<u8> {
    let code = CodeAssembler::new(64).and_then(|mut asm| {
        make(&mut asm)?;
        asm.assemble(BASE)
    });
    code.expect("it can be assembled")
}

/// Assembles a prologue, a loop, two calls, a tail call, and its target, with padding between
/// functions.
fn plain(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut again, mut behind, mut other) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    asm.push(rbp)?;
    asm.mov(rbp, rsp)?;
    asm.sub(rsp, 32)?;
    asm.mov(ecx, 10)?;
    asm.set_label(&mut again)?;
    asm.call(other)?;
    asm.call(qword_ptr(rax + 8))?;
    asm.dec(ecx)?;
    asm.jne(again)?;
    asm.test(eax, eax)?;
    asm.je(behind)?;
    asm.leave()?;
    asm.ret()?;
    asm.nops_with_size(3)?;
    asm.set_label(&mut behind)?;
    asm.leave()?;
    asm.jmp(other)?;
    asm.nops_with_size(9)?;
    asm.set_label(&mut other)?;
    asm.lea(rax, ptr(other))?;
    asm.ret()?;
    asm.int3()?;
    asm.int3()
}

/// Assembles a jump table, and branches with short displacements only.
fn tables(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut again, mut end) = (asm.create_label(), asm.create_label());
    asm.lea(r8, ptr(BASE + DATA))?;
    asm.movsxd(r9, dword_ptr(r8 + rdi * 4))?;
    asm.add(r9, r8)?;
    asm.jmp(r9)?;
    asm.nop()?;
    asm.set_label(&mut again)?;
    asm.jrcxz(end)?;
    asm.add(rax, qword_ptr(rsi))?;
    asm.loop_(again)?;
    asm.set_label(&mut end)?;
    asm.ret()?;
    asm.mov(eax, 1)?;
    asm.ret()?;
    asm.xor(eax, eax)?;
    asm.ret()
}

/// Assembles functions that are too short for a jump of five bytes.
fn small(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut first, mut second) = (asm.create_label(), asm.create_label());
    asm.xor(eax, eax)?;
    asm.ret()?;
    asm.nop()?;
    asm.set_label(&mut first)?;
    asm.inc(eax)?;
    asm.jne(second)?;
    asm.ret()?;
    asm.set_label(&mut second)?;
    asm.mov(rax, qword_ptr(rdi))?;
    asm.mov(rdx, qword_ptr(rdi + 8))?;
    asm.add(rax, rdx)?;
    asm.jmp(first)?;
    asm.nops_with_size(8)
}

/// Assembles a stack check as Go generates it, and the function that grows the stack.
fn checked(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    let (mut start, mut grow, mut grows) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    asm.set_label(&mut start)?;
    asm.cmp(rsp, qword_ptr(r14 + 16))?;
    asm.jbe(grow)?;
    asm.push(rbp)?;
    asm.mov(rbp, rsp)?;
    asm.mov(qword_ptr(rsp - 8), rax)?;
    asm.pop(rbp)?;
    asm.ret()?;
    asm.set_label(&mut grow)?;
    asm.call(grows)?;
    asm.jmp(start)?;
    asm.set_label(&mut grows)?;
    asm.mov(rbx, rsp)?;
    asm.ret()
}

/// Returns the scripts, each with every sink.
pub(super) fn scripts() -> Vec<Vec<u8>> {
    let (plain, tables, small, checked) = (code(plain), code(tables), code(small), code(checked));
    let other = plain.len() as u16 - 10;
    let last = checked.len() as u16 - 4;
    let scripts = (0..6).flat_map(|sink| {
        let head = |options| [sink, options, GRAINS];
        [
            script(head(RELOCATABLE), &[(0, 0), (0, other)], &[(REACHED, 12)], &[], &plain),
            script(head(0), &[(0, 0), (2, 35)], &[(LANDING_PAD, 35)], &[], &plain),
            script(head(0), &[(0, 0)], &[], &[17, 25, 31], &tables),
            script(head(16), &[(0, 0), (0, 4), (0, 9)], &[], &[], &small),
            script(head(GO), &[(0, 0), (0, last)], &[], &[], &checked),
        ]
    });
    scripts.collect()
}
