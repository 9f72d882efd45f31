//! Checks the stubs of single functions that are written by hand.

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
        let one = &image.functions[at];
        let (start, end, name) = (one.start, one.start + one.size, name.into());
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
    let changes = stubs.add(&rewrite, START, 1).unwrap();
    let preceded: Vec<FileAddr> = changes.tags.iter().map(|tag| tag.original).collect();
    assert_eq!(preceded, [FileAddr(START + 6)]);
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
        stubs.unwrap().add(&rewrite, START, 1)
    };
    assert!(added(START + FAR).is_ok());
    assert!(added(START.wrapping_sub(FAR)).is_err());
}
