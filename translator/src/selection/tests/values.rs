//! Tests the expressions of accesses if values are compared.

use hmtt_probe::address::RunAddr;
use iced_x86::code_asm::{
    dword_ptr, eax, ecx, ptr, qword_ptr, r8, r9, rax, rbp, rbx, rcx, rdi, rdx, rsi, rsp, sp,
};

use super::super::Equality::{Values, Versions};
use super::{Block, block, found};

#[test]
fn pushes_and_pops_have_one_base() {
    let code = block(|asm| {
        asm.push(rbp)?;
        asm.mov(rbp, rsp)?;
        asm.push(rbx)?;
        asm.sub(rsp, 0x18)?;
        asm.mov(qword_ptr(rbp - 0x10), rdi)?;
        asm.mov(qword_ptr(rsp), rsi)?;
        asm.add(rsp, 0x18)?;
        asm.pop(rbx)?;
        asm.pop(rbp)?;
        asm.ret()
    });
    let expected = [
        "0 W8 <rsp.0, -, -0x8>",
        "2 W8 <rsp.0, -, -0x10>",
        "4 W8 <rsp.0, -, -0x18>",
        "5 W8 <rsp.0, -, -0x28>",
        "7 R8 <rsp.0, -, -0x10>",
        "8 R8 <rsp.0, -, -0x8>",
        "9 R8 <rsp.0, -, 0x0>",
    ];
    assert_eq!(found(&code, Values), expected);
    let bases = |text: String| text.split(' ').nth(2).unwrap().to_owned();
    let named: Vec<String> = found(&code, Versions).into_iter().map(bases).collect();
    let versions = ["rsp.0", "rsp.1", "rbp.1", "rsp.3", "rsp.4", "rsp.5", "rsp.6"];
    assert_eq!(named, versions.map(|register| format!("<{register},")));
}

#[test]
fn constants_are_added_up() {
    let code = block(|asm| {
        asm.lea(rcx, ptr(rax + 0x20))?;
        asm.inc(rcx)?;
        asm.sub(rcx, -7)?;
        asm.mov(rdx, rcx)?;
        asm.dec(rdx)?;
        asm.add(rdx, 0x1000)?;
        asm.mov(eax, dword_ptr(rcx + rdx * 4 - 8))
    });
    // rcx = rax + 0x28, rdx = rax + 0x1027
    assert_eq!(found(&code, Values), ["6 R4 <rax.0, rax.0*4, 0x40bc>"]);
}

#[test]
fn a_static_address_is_an_immediate_base() {
    // lea rax, [rip+0xff9]; mov ecx, [rax+rdx*4+8]; mov ecx, [rdx+rax]; mov ecx, [rax+rax]
    let code =
        [0x48, 0x8d, 5, 0xf9, 0x0f, 0, 0, 0x8b, 0x4c, 0x90, 8, 0x8b, 0x0c, 0x02, 0x8b, 0x0c, 0];
    let code = Block::from_bytes(RunAddr(0x1000), &code).unwrap();
    let expected = ["1 R4 <0x2008, rdx.0*4, ->", "2 R4 <0x2000, -, rdx.0>", "3 R4 <0x4000, -, ->"];
    assert_eq!(found(&code, Values), expected);
    assert_eq!(found(&code, Versions)[0], "1 R4 <rax.1, rdx.0*4, 0x8>");
}

#[test]
fn frames_are_entered_and_left() {
    let code = block(|asm| {
        asm.enter(0x20, 0)?;
        asm.mov(eax, dword_ptr(rbp - 4))?;
        asm.mov(eax, dword_ptr(rsp))?;
        asm.leave()?;
        asm.mov(ecx, dword_ptr(rbp))?;
        asm.ret()
    });
    let expected = [
        "0 W8 <rsp.0, -, -0x8>",
        "1 R4 <rsp.0, -, -0xc>",
        "2 R4 <rsp.0, -, -0x28>",
        "3 R8 <rsp.0, -, -0x8>",
        "4 R4 <rbp.2, -, 0x0>",
        "5 R8 <rsp.0, -, 0x0>",
    ];
    assert_eq!(found(&code, Values), expected);
}

#[test]
fn other_results_are_unknown() {
    let unknown = |code: Block, register: &str| {
        let last = found(&code, Values).pop().unwrap();
        assert!(last.ends_with(&format!("<{register}, -, 0x0>")), "{last}");
    };
    let read = || dword_ptr(rax);
    unknown(
        block(|asm| {
            asm.mov(eax, ecx)?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.add(eax, 4)?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.add(rax, rcx)?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.lea(rax, ptr(rcx + rdx))?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.lea(eax, ptr(rcx + 8))?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.lea(rax, ptr(ecx + 8))?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.cmovne(rax, rcx)?;
            asm.mov(ecx, read())
        }),
        "rax.1",
    );
    unknown(
        block(|asm| {
            asm.and(rsp, -16)?;
            asm.mov(ecx, dword_ptr(rsp))
        }),
        "rsp.1",
    );
    unknown(
        block(|asm| {
            asm.pop(rsp)?;
            asm.mov(ecx, dword_ptr(rsp))
        }),
        "rsp.1",
    );
    unknown(
        block(|asm| {
            asm.pop(sp)?;
            asm.mov(ecx, dword_ptr(rsp))
        }),
        "rsp.1",
    );
    // pop rsp in its longer encoding, mov eax, [rsp]
    let long = Block::from_bytes(RunAddr(0x1000), &[0x8f, 0xc4, 0x8b, 0x04, 0x24]);
    unknown(long.unwrap(), "rsp.1");
}

#[test]
fn a_value_outlives_the_register_that_it_came_from() {
    let code = block(|asm| {
        asm.mov(r8, rax)?;
        asm.mov(rax, qword_ptr(rax))?;
        asm.mov(r9, qword_ptr(r8))?;
        asm.mov(ecx, dword_ptr(rax))
    });
    let expected = ["1 R8 <rax.0, -, 0x0>", "2 R8 <rax.0, -, 0x0>", "3 R4 <rax.1, -, 0x0>"];
    assert_eq!(found(&code, Values), expected);
}
