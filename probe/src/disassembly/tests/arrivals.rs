//! Code that is read in two ways: control arrives in the middle of what looks like one instruction.

use super::{Disassembly, Known, Rewrite};
use crate::elf::{Function, Image, Text};

pub(crate) const START: u64 = 0x40_1000;

/// A program of functions one behind the other, and what of its addresses data hold.
pub(crate) fn program(functions: &[&[u8]], reached: &[u64]) -> Image {
    let mut image = Image {
        path: "made up".into(),
        functions: Vec::new(),
        fragments: Vec::new(),
        text: vec![Text { start: START, offset: 0, bytes: functions.concat() }],
        data: Vec::new(),
        reached: reached.to_vec(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry: START,
        relocatable: true,
        dynamic: false,
        relocated: Vec::new(),
        differing: Vec::new(),
        origin: Default::default(),
        go: None,
    };
    let mut start = START;
    for code in functions {
        let size = code.len() as u64;
        let (name, symbols) = (format!("f{start:x}"), Vec::new());
        image.functions.push(Function { name, symbols, start, size, ifunc: false, source: None });
        start += size;
    }
    image
}

/// What is changed in the first function.
fn rewrite(functions: &[&[u8]], reached: &[u64]) -> Rewrite {
    let image = program(functions, reached);
    let known = Known::of(&image);
    let all = Disassembly::new(&image, &known).rewrites(&[&image.functions[0]], true);
    all.into_iter().next().unwrap().unwrap()
}

/// A nop that makes room for a jump, and `lea rax, [rip-7]`: what names itself is not moved with what is before.
const ENTRY: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x8d, 0x05, 0xf9, 0xff, 0xff, 0xff];

#[test]
fn padding_that_control_arrives_in_stays() {
    // and ecx, ecx; ret; nop dword [rax]
    let code = [ENTRY, &[0x21, 0xc9, 0xc3, 0x0f, 0x1f, 0x00]].concat();
    let end = START + code.len() as u64;
    let last = |reached: &[u64]| {
        let rewrite = rewrite(&[&code], reached);
        rewrite.regions.iter().map(|region| region.room).max().unwrap()
    };
    assert_eq!(last(&[]), end);
    for inside in [end - 2, end - 1] {
        assert!(last(&[inside]) <= end - 3, "{inside:x}");
    }
}

#[test]
fn a_branch_that_control_arrives_in_keeps_its_target() {
    // jo to the second function, which is behind the first; ud2; nop
    let code = [ENTRY, &[0x0f, 0x80, 3, 0, 0, 0, 0x0f, 0x0b, 0x90]].concat();
    let branch = START + ENTRY.len() as u64;
    let redirected = |reached: &[u64]| {
        let rewrite = rewrite(&[&code, &[0xc3; 16]], reached);
        rewrite.redirects.iter().any(|one| one.ip() == branch)
    };
    assert!(redirected(&[]));
    assert!(!redirected(&[branch + 2]));
}

#[test]
fn a_short_branch_with_prefixes_has_no_room_for_another_target() {
    // jo to the second function, with four prefixes that say nothing; ud2; nop
    let code = [ENTRY, &[0x2e, 0x2e, 0x2e, 0x2e, 0x70, 3, 0x0f, 0x0b, 0x90]].concat();
    let rewrite = rewrite(&[&code, &[0xc3; 16]], &[]);
    assert_eq!(rewrite.redirects, []);
}

#[test]
fn a_call_that_control_arrives_in_is_none_that_may_be_changed() {
    // jmp by a distance; call the second function; ret
    let code = |distance: u8| [0xeb, distance, 0xe8, 1, 0, 0, 0, 0xc3];
    let calls = |distance, reached: &[u64]| {
        let image = program(&[&code(distance), &[0xc3]], reached);
        Disassembly::new(&image, &Known::of(&image)).calls().len()
    };
    assert_eq!(calls(0, &[]), 1);
    assert_eq!(calls(0, &[START + 2]), 1);
    assert_eq!(calls(0, &[START + 4]), 0);
    assert_eq!(calls(1, &[]), 0);
}
