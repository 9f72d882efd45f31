//! Checks the stubs of single functions that are written by hand.

use hmtt_files::tag_log::FunctionId;

use crate::address::{FileAddr, LoadBias, RunAddr};
use crate::disassembly::tests::overlapping_code::{START, program};
use crate::disassembly::{Disassembly, FileIndex};
use crate::elf::Go;
use crate::elf::go::GoFunction;
use crate::stubs::{Sink, Stubs};

#[test]
fn an_entry_tag_after_all_moved_instructions_precedes_the_next_one() {
    // cmp rsp, [r14+16]; jbe; mov rax, [rbx]; ret; call of the next function; jmp start
    let checked =
        [0x49, 0x3b, 0x66, 0x10, 0x76, 4, 0x48, 0x8b, 3, 0xc3, 0xe8, 2, 0, 0, 0, 0xeb, 0xef];
    let grows = [0x48, 0x89, 0xe3, 0xc3];
    let mut image = program(&[&checked[..], &grows], &[]);
    let go_function = |(at, name): (usize, &str)| {
        let function = &image.functions[at];
        let (start, end, name) = (function.start, function.start + function.size, name.into());
        GoFunction { start, end, name, is_special: false }
    };
    let functions = [(0, "main.f"), (1, "runtime.morestack")].map(go_function).to_vec();
    image.go = Some(Go { functions, recovery_points: Vec::new() });
    let index = FileIndex::new(&image);
    let rewrites = Disassembly::new(&image, &index).rewrites(&[&image.functions[0]], false);
    let rewrite = rewrites.into_iter().next().unwrap().unwrap();
    let moved = &rewrite.regions[0].instructions;
    assert_eq!((rewrite.check, moved.len()), (2, 2));
    let mut stubs = Stubs::new(RunAddr(START + (1 << 20)), LoadBias::NONE, Sink::Count, 1).unwrap();
    let changes = stubs.add(&rewrite, START, FunctionId(1)).unwrap();
    let preceded: Vec<FileAddr> = changes.tags.iter().map(|tag| tag.original).collect();
    assert_eq!(preceded, [FileAddr(START + 6)]);
}

#[test]
fn an_entry_tag_at_the_end_of_a_stub_precedes_the_stub_of_the_next_region() {
    // cmp rsp, [r14+16]; jbe; push rbp; mov rbp, rsp; mov [rsp-8], rax: the instructions behind the
    // check are moved too. The exit (pop rbp; ret) is shorter than a near jump, so its jump is
    // placed in their bytes.
    let code = [
        0x49, 0x3b, 0x66, 0x10, 0x76, 0x0b, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x44, 0x24, 0xf8,
        0x00, 0xcf, 0x00, 0x00, 0x56, 0x08, 0xf9, 0xd3, 0xeb, 0x9c, 0xcf, 0x00, 0xc1, 0x48, 0xc1,
        0xc1, 0xaa, 0x00, 0xc1, 0x5d, 0xc3, 0xe8, 0x02, 0x00, 0x00, 0x00, 0xeb, 0xe8, 0x48, 0xe3,
        0xc3, 0x24, 0xf8, 0x5d, 0xc3, 0xe8, 0x02, 0x00, 0x00, 0x00, 0xeb, 0xe8, 0x48, 0xe3, 0xc3,
    ];
    let mut image = program(&[&code], &[]);
    let (start, end) = (image.functions[0].start, image.functions[0].start + code.len() as u64);
    let grows = GoFunction { start, end, name: "runtime.morestack".into(), is_special: false };
    image.go = Some(Go { functions: vec![grows], recovery_points: Vec::new() });
    let index = FileIndex::new(&image);
    let rewrites = Disassembly::new(&image, &index).rewrites(&[&image.functions[0]], true);
    let rewrite = rewrites.into_iter().next().unwrap().unwrap();
    let entry = rewrite.regions.iter().find(|region| region.entry).unwrap();
    assert_eq!((rewrite.check, entry.instructions.len()), (2, 2));
    let start = START + (1 << 20);
    let mut stubs = Stubs::new(RunAddr(start), LoadBias::NONE, Sink::Card, 3).unwrap();
    let changes = stubs.add(&rewrite, START, FunctionId(1)).unwrap();
    let moved = |original| changes.moved.iter().find(|(old, _)| old.0 == original).unwrap().1;
    let tag = changes.tags.iter().find(|tag| tag.original == FileAddr(START + 6)).unwrap();
    assert_eq!(tag.end, moved(START + 6), "the next stub follows the tag");
    let at = (tag.start.0 - start) as usize;
    assert_ne!(stubs.code()[at], 0xcc, "the space of the tag is not filled");
}

#[test]
fn an_exit_that_a_stub_does_not_reach_is_refused() {
    const FAR: u64 = 0x7000_0000;
    // nop; jo far forward; ud2: too long to be moved as a whole.
    let [a, b, c, d] = (FAR as u32).to_le_bytes();
    let code = [&[0x90; 400][..], &[0x0f, 0x80, a, b, c, d, 0x0f, 0x0b]].concat();
    let image = program(&[&code], &[]);
    let index = FileIndex::new(&image);
    let rewrites = Disassembly::new(&image, &index).rewrites(&[&image.functions[0]], true);
    let rewrite = rewrites.into_iter().next().unwrap().unwrap();
    assert_eq!(rewrite.redirects.len(), 1);
    let added = |start| {
        let stubs = Stubs::new(RunAddr(start), LoadBias::NONE, Sink::Card, 4);
        stubs.unwrap().add(&rewrite, START, FunctionId(1))
    };
    assert!(added(START + FAR).is_ok());
    assert!(added(START.wrapping_sub(FAR)).is_err());
}
