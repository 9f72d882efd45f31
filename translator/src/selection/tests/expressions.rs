//! Tests the expressions of accesses, with the versions of registers, instruction by instruction.

use hmtt_probe::address::RunAddr;
use iced_x86::code_asm::{
    al, byte_ptr, dword_ptr, eax, ecx, edx, ptr, qword_ptr, r12, rax, rbp, rbx, rcx, rdi, rdx, rsi,
    rsp, xmm0, xmmword_ptr, zmm0, zmm1, zmmword_ptr,
};

use super::super::Equality::Versions;
use super::{Block, block, found};

/// Decodes bytes as a block.
fn decoded(bytes: &[u8]) -> Block {
    Block::from_bytes(RunAddr(0x1000), bytes).unwrap()
}

#[test]
fn an_operand_has_base_index_and_displacement() {
    let block = block(|asm| {
        asm.mov(eax, dword_ptr(rbp - 0x14))?;
        asm.mov(byte_ptr(rbx + rsi * 8 + 0x10), al)?;
        asm.mov(eax, dword_ptr(rdi * 4 + 0x5000))?;
        asm.mov(eax, dword_ptr(0x6000u64))?;
        asm.movaps(xmmword_ptr(r12), xmm0)
    });
    let expected = [
        "0 R4 <rbp.0, -, -0x14>",
        "1 W1 <rbx.0, rsi.0*8, 0x10>",
        "2 R4 <0x5000, rdi.0*4, ->",
        "3 R4 <0x6000, -, ->",
        "4 W16 <r12.0, -, 0x0>",
    ];
    assert_eq!(found(&block, Versions), expected);
}

#[test]
fn an_address_relative_to_rip_is_absolute() {
    // mov eax, [rip+0x10]; mov eax, [rip+0xa]
    let block = decoded(&[0x8b, 5, 0x10, 0, 0, 0, 0x8b, 5, 0xa, 0, 0, 0]);
    assert_eq!(found(&block, Versions), ["0 R4 <0x1016, -, ->", "1 R4 <0x1016, -, ->"]);
}

#[test]
fn narrow_addresses_have_registers_of_their_own() {
    // mov eax, [eax-4]; mov ecx, [rax-4]; mov eax, [0xff000000] with 32-bit and 64-bit addresses
    let block = decoded(&[
        0x67, 0x8b, 0x40, 0xfc, 0x8b, 0x48, 0xfc, 0x67, 0x8b, 0x04, 0x25, 0, 0, 0, 0xff, 0x8b,
        0x04, 0x25, 0, 0, 0, 0xff,
    ]);
    let expected = [
        "0 R4 <eax.0, -, -0x4>",
        "1 R4 <rax.1, -, -0x4>",
        "2 R4 <0xff000000, -, ->",
        "3 R4 <0xffffffffff000000, -, ->",
    ];
    assert_eq!(found(&block, Versions), expected);
}

#[test]
fn an_access_uses_the_version_before_its_instruction() {
    let block = block(|asm| {
        asm.mov(rax, qword_ptr(rax))?;
        asm.mov(rax, qword_ptr(rax))?;
        asm.mov(rcx, qword_ptr(rax))
    });
    let expected = ["0 R8 <rax.0, -, 0x0>", "1 R8 <rax.1, -, 0x0>", "2 R8 <rax.2, -, 0x0>"];
    assert_eq!(found(&block, Versions), expected);
}

#[test]
fn partial_and_conditional_writes_raise_versions() {
    let block = block(|asm| {
        asm.mov(al, 1)?;
        asm.mov(edx, dword_ptr(rax))?;
        asm.cmove(rax, rcx)?;
        asm.mov(edx, dword_ptr(rax))?;
        asm.bsf(eax, ecx)?;
        asm.mov(edx, dword_ptr(rax))?;
        asm.cmp(rax, rcx)?;
        asm.test(rax, rax)?;
        asm.mov(ecx, dword_ptr(rax))
    });
    let expected = [
        "1 R4 <rax.1, -, 0x0>",
        "3 R4 <rax.2, -, 0x0>",
        "5 R4 <rax.3, -, 0x0>",
        "8 R4 <rax.3, -, 0x0>",
    ];
    assert_eq!(found(&block, Versions), expected);
}

#[test]
fn the_stack_is_accessed_by_what_pushes_and_pops() {
    let code = block(|asm| {
        asm.push(rbx)?;
        asm.push(qword_ptr(rax))?;
        asm.pop(qword_ptr(rsp + 8))?;
        asm.pushfq()?;
        asm.leave()?;
        asm.call(qword_ptr(rcx + 8))
    });
    let expected = [
        "0 W8 <rsp.0, -, -0x8>",
        "1 R8 <rax.0, -, 0x0>",
        "1 W8 <rsp.1, -, -0x8>",
        "2 R8 <rsp.2, -, 0x0>",
        // The address is computed after rsp was raised by 8.
        "2 W8 <rsp.2, -, 0x10>",
        "3 W8 <rsp.3, -, -0x8>",
        "4 R8 <rbp.0, -, 0x0>",
        "5 R8 <rcx.0, -, 0x8>",
        "5 W8 <rsp.5, -, -0x8>",
    ];
    assert_eq!(found(&code, Versions), expected);
    assert_eq!(found(&block(|asm| asm.ret_1(8)), Versions), ["0 R8 <rsp.0, -, 0x0>"]);
    let nested = block(|asm| asm.enter(16, 2));
    let expected = [
        "0 W8 <rsp.0, -, -0x8>",
        "0 R8 <rbp.0, -, -0x8>",
        "0 W8 <rsp.0, -, -0x10>",
        "0 W8 <rsp.0, -, -0x18>",
    ];
    assert_eq!(found(&nested, Versions), expected);
}

#[test]
fn strings_have_an_access_for_each_operand() {
    let code = block(|asm| {
        asm.movsq()?;
        asm.cmpsb()?;
        asm.stosd()?;
        asm.lodsb()?;
        asm.xlatb()
    });
    let expected = [
        "0 R8 <rsi.0, -, 0x0>",
        "0 W8 <rdi.0, -, 0x0>",
        "1 R1 <rsi.1, -, 0x0>",
        "1 R1 <rdi.1, -, 0x0>",
        "2 W4 <rdi.2, -, 0x0>",
        "3 R1 <rsi.2, -, 0x0>",
        "4 R1 <rbx.0, al.1*1, 0x0>",
    ];
    assert_eq!(found(&code, Versions), expected);
}

#[test]
fn an_update_is_a_read_and_a_write() {
    let code = block(|asm| {
        asm.add(dword_ptr(rbp - 4), 1)?;
        asm.xchg(dword_ptr(rbp - 4), eax)?;
        asm.lock().cmpxchg(qword_ptr(rdi), rcx)
    });
    let expected = [
        "0 R4 <rbp.0, -, -0x4>",
        "0 W4 <rbp.0, -, -0x4>",
        "1 R4 <rbp.0, -, -0x4>",
        "1 W4 <rbp.0, -, -0x4>",
        "2 R8 <rdi.0, -, 0x0>",
        "2 W8? <rdi.0, -, 0x0>",
    ];
    assert_eq!(found(&code, Versions), expected);
}

#[test]
fn what_computes_addresses_only_is_no_access() {
    let code = block(|asm| {
        asm.lea(rax, ptr(rbp - 8))?;
        asm.nop_1(dword_ptr(rax))?;
        asm.prefetcht0(byte_ptr(rax))?;
        asm.prefetchw(byte_ptr(rax))?;
        asm.endbr64()?;
        asm.mov(rax, rcx)
    });
    assert_eq!(found(&code, Versions), [""; 0]);
}

#[test]
fn a_base_of_fs_has_a_version() {
    // mov rax, fs:[0x28]; wrfsbase rcx; mov rax, fs:[0x28]; mov fs, eax; mov rax, fs:[rcx+8]
    let code = [
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0][..],
        &[0xf3, 0x48, 0x0f, 0xae, 0xd1],
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
        &[0x8e, 0xe0],
        &[0x64, 0x48, 0x8b, 0x41, 8],
    ];
    let expected =
        ["0 R8 fs.0:<0x28, -, ->", "2 R8 fs.1:<0x28, -, ->", "4 R8 fs.2:<rcx.0, -, 0x8>"];
    assert_eq!(found(&decoded(&code.concat()), Versions), expected);
}

#[test]
fn sets_of_addresses_are_not_expressions() {
    let code = block(|asm| {
        asm.vpgatherdd(zmm0.k1(), dword_ptr(rax + zmm1 * 4))?;
        asm.rep().movsb()?;
        asm.repne().scasb()?;
        asm.fxsave(ptr(rax))?;
        asm.bts(dword_ptr(rax), ecx)?;
        asm.bts(dword_ptr(rax), 3)?;
        asm.vmovdqu64(zmmword_ptr(rdx), zmm0)
    });
    let expected = [
        "0 R4 set",
        "1 R1? set",
        "1 W1? set",
        "2 R1? set",
        "3 W512 <rax.0, -, 0x0>",
        "4 R4 set",
        "4 W4 set",
        "5 R4 <rax.0, -, 0x0>",
        "5 W4 <rax.0, -, 0x0>",
        "6 W64 <rdx.0, -, 0x0>",
    ];
    assert_eq!(found(&code, Versions), expected);
}
