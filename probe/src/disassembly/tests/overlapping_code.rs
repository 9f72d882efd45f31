//! Tests overlapping code: control arrives in the middle of bytes that look like one instruction.

use super::{Disassembly, FileIndex, Rewrite};
use crate::elf::{Function, Image, Text};

pub(crate) const START: u64 = 0x40_1000;

/// A made-up program of adjacent functions. `targets`: addresses that its data contain.
pub(crate) fn program(functions: &[&[u8]], targets: &[u64]) -> Image {
    let mut image = Image {
        path: "made up".into(),
        functions: Vec::new(),
        fragments: Vec::new(),
        text: vec![Text { start: START, offset: 0, bytes: functions.concat() }],
        data: Vec::new(),
        pointers: Vec::new(),
        indirect_targets: targets.to_vec(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry: START,
        relocatable: true,
        dynamic: false,
        relocated: Vec::new(),
        differing: Vec::new(),
        sequences: crate::elf::RestartableSequences::default(),
        backing_file: Default::default(),
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

/// The planned changes of the first function.
fn rewrite(functions: &[&[u8]], targets: &[u64]) -> Rewrite {
    let image = program(functions, targets);
    let index = FileIndex::new(&image);
    let rewrites = Disassembly::new(&image, &index).rewrites(&[&image.functions[0]], true);
    rewrites.into_iter().next().unwrap().unwrap()
}

/// A nop with space for a jump, and `lea rax, [rip-7]`. An instruction that names itself is not
/// moved together with the one before it.
const ENTRY: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x8d, 0x05, 0xf9, 0xff, 0xff, 0xff];

#[test]
fn padding_with_a_target_inside_is_not_overwritten() {
    // and ecx, ecx; ret; nop dword [rax]
    let code = [ENTRY, &[0x21, 0xc9, 0xc3, 0x0f, 0x1f, 0x00]].concat();
    let end = START + code.len() as u64;
    let last = |targets: &[u64]| {
        let rewrite = rewrite(&[&code], targets);
        rewrite.regions.iter().map(|region| region.limit).max().unwrap()
    };
    assert_eq!(last(&[]), end);
    for inside in [end - 2, end - 1] {
        assert!(last(&[inside]) <= end - 3, "{inside:x}");
    }
}

#[test]
fn a_branch_with_a_target_inside_is_not_redirected() {
    // jo to the second function, which follows the first; ud2; nop
    let code = [ENTRY, &[0x0f, 0x80, 3, 0, 0, 0, 0x0f, 0x0b, 0x90]].concat();
    let branch = START + ENTRY.len() as u64;
    let redirected = |targets: &[u64]| {
        let rewrite = rewrite(&[&code, &[0xc3; 16]], targets);
        rewrite.redirects.iter().any(|instruction| instruction.ip() == branch)
    };
    assert!(redirected(&[]));
    assert!(!redirected(&[branch + 2]));
}

#[test]
fn a_short_branch_with_prefixes_is_not_redirected() {
    // jo to the second function, with four prefixes that have no effect; ud2; nop
    let code = [ENTRY, &[0x2e, 0x2e, 0x2e, 0x2e, 0x70, 3, 0x0f, 0x0b, 0x90]].concat();
    let rewrite = rewrite(&[&code, &[0xc3; 16]], &[]);
    assert_eq!(rewrite.redirects, []);
}

#[test]
fn a_call_with_a_target_inside_is_not_listed() {
    // jmp over a distance; call the second function; ret
    let code = |distance: u8| [0xeb, distance, 0xe8, 1, 0, 0, 0, 0xc3];
    let calls = |distance, targets: &[u64]| {
        let image = program(&[&code(distance), &[0xc3]], targets);
        Disassembly::new(&image, &FileIndex::new(&image)).calls().len()
    };
    assert_eq!(calls(0, &[]), 1);
    assert_eq!(calls(0, &[START + 2]), 1);
    assert_eq!(calls(0, &[START + 4]), 0);
    assert_eq!(calls(1, &[]), 0);
}
