//! Runs random small functions in this process, unchanged and with all their blocks tagged. Results
//! must be equal, and the log must contain each block whenever an interpreter reaches its first
//! instruction.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use hmtt_files::tag_log::FunctionId;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::random::{Built, DATA, Source, build, interpret, source};
use super::{BUFFER, Bench, CODE_BYTES};
use crate::address::{LoadBias, RunAddr};
use crate::disassembly::{Disassembly, FileIndex, Granularity, Rewrite};
use crate::elf::{Function, Image, Text};
use crate::stubs::layout::LogShape;
use crate::stubs::{Sink, Stubs};
use crate::unwind::tests::check as check_unwinding;

/// Space for the events of all iterations that a function can make.
const SHAPE: LogShape = LogShape { chunk_bytes: 1 << 18, ..BUFFER };
/// Offset of the stubs in the memory for code.
const STUBS: u64 = 1 << 14;
/// The function's number.
const NUMBER: u32 = 5;

fn image(built: &Built, at: u64) -> Image {
    let function = |name: &str, range: Range<u64>| Function {
        name: name.into(),
        symbols: Vec::new(),
        start: range.start,
        size: range.end - range.start,
        ifunc: false,
        source: None,
    };
    let end = at + built.bytes.len() as u64;
    let text = |start, bytes: &[u8]| Text { start, offset: 0, bytes: bytes.to_vec() };
    Image {
        path: "random".into(),
        functions: vec![function("random", at..built.end), function("helper", built.end..end)],
        fragments: Vec::new(),
        text: vec![text(at, &built.bytes)],
        data: vec![text(at + DATA, &built.table)],
        pointers: Vec::new(),
        indirect_targets: Vec::new(),
        landing_pads: Vec::new(),
        call_sites: Vec::new(),
        entry: at,
        relocatable: true,
        dynamic: false,
        relocated: Vec::new(),
        differing: Vec::new(),
        sequences: crate::elf::RestartableSequences::default(),
        backing_file: Default::default(),
        go: None,
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

/// Writes a function's stubs and jumps to memory. Returns the number of each tagged block, by
/// address.
fn tag(bench: &Bench, image: &Image, rewrite: &Rewrite, sink: Sink) -> BTreeMap<u64, u32> {
    let at = bench.code();
    let max_bytes = Stubs::max_bytes(rewrite, sink) + 4096;
    assert!(STUBS + max_bytes <= CODE_BYTES as u64, "{max_bytes} bytes");
    let mut stubs =
        Stubs::new(RunAddr(at + STUBS), LoadBias::NONE, sink, Stubs::tags(rewrite)).unwrap();
    let changes = stubs.add(rewrite, at, FunctionId(NUMBER)).unwrap();
    assert!(check_unwinding(image, &stubs, &[&changes], LoadBias::NONE) > 0);
    let write = |address: u64, bytes: &[u8]| {
        // SAFETY: within the memory for code; nothing of it runs now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    };
    let code = stubs.code();
    assert!(code.len() as u64 <= max_bytes);
    write(at + STUBS, &code);
    changes.edits.iter().for_each(|(address, bytes)| write(address.0, bytes));
    let blocks = rewrite.tagged_blocks().zip(NUMBER + 1..);
    blocks.map(|(block, number)| (block.start, number)).collect()
}

/// A readable description of a rewrite, for failed assertions.
fn shown(rewrite: &Rewrite) -> String {
    let mut text = String::new();
    for (kind, regions) in [("region", &rewrite.regions), ("detour", &rewrite.detours)] {
        for region in regions {
            text += &format!("{kind} to {:x}, {:x?}\n", region.limit, region.jump);
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

/// Panics unless the tagged function computes the same and logs the expected events. Returns the
/// numbers of blocks and of tagged blocks.
fn check(
    source: &Source,
    granularity: Granularity,
    sink: Sink,
    inputs: &[(u32, u64)],
) -> (usize, usize) {
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
    let function = [(&image.functions[0], granularity)];
    let rewrites = Disassembly::new(&image, &FileIndex::new(&image))
        .rewrites_with_granularity(&function, sink.exits());
    let rewrite = rewrites.into_iter().next().unwrap();
    let Ok(rewrite) = rewrite else { return (0, 0) };
    let numbers = tag(&bench, &image, &rewrite, sink);
    if sink == Sink::Count {
        check_counts(&bench, &built, &numbers, inputs, &rewrite);
        return (rewrite.blocks.len(), numbers.len());
    }
    let mut record = bench.records(0);
    for (value, fuel) in inputs {
        let (passed, result) = interpret(&built, *value, *fuel);
        assert_eq!(call(at, *value, *fuel), result, "{}", shown(&rewrite));
        let end = bench.pointer();
        let words = (record..end).step_by(16).map(|at| bench.word(at + 12).load(Ordering::SeqCst));
        let mut words: Vec<u32> = words.collect();
        let expected = expected(&rewrite, &numbers, at, &passed);
        // A hidden exit site is logged where some branches to it are covered.
        for (place, (word, is_hidden)) in expected.iter().enumerate() {
            if *is_hidden && words.get(place) != Some(word) {
                words.insert(place.min(words.len()), *word);
            }
        }
        let expected: Vec<u32> = expected.into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, expected, "{}", shown(&rewrite));
        record = end;
    }
    (rewrite.blocks.len(), numbers.len())
}

/// Expected events for the executed instructions: event word, and whether it may be missing.
fn expected(
    rewrite: &Rewrite,
    numbers: &BTreeMap<u64, u32>,
    start: u64,
    passed: &[u64],
) -> Vec<(u32, bool)> {
    let exit =
        |from: &u64| (2 + 2 * NUMBER, rewrite.hidden.iter().any(|(address, _)| address == from));
    let mut expected = Vec::new();
    for (place, ip) in passed.iter().enumerate() {
        if *ip == start {
            // A branch back to the start leaves the function, and enters it again.
            expected.extend(passed[..place].last().map(exit));
            expected.push((1 + 2 * NUMBER, false));
        }
        expected.extend(numbers.get(ip).map(|number| (1 + 2 * number, false)));
    }
    expected.extend(passed.last().map(exit));
    expected
}

/// Like [`check`] with counters, which are at the start of the slot.
fn check_counts(
    bench: &Bench,
    built: &Built,
    numbers: &BTreeMap<u64, u32>,
    inputs: &[(u32, u64)],
    rewrite: &Rewrite,
) {
    let counter = |number: u32| bench.long(bench.slot() + 8 * u64::from(number));
    let event_numbers = NUMBER..=NUMBER + numbers.len() as u32;
    event_numbers.for_each(|number| counter(number).store(0, Ordering::SeqCst));
    let mut expected: BTreeMap<u32, u64> = numbers.values().map(|number| (*number, 0)).collect();
    let mut entries = 0;
    for (value, fuel) in inputs {
        let (passed, result) = interpret(built, *value, *fuel);
        assert_eq!(call(bench.code(), *value, *fuel), result, "{}", shown(rewrite));
        entries += passed.iter().filter(|ip| **ip == bench.code()).count() as u64;
        for number in passed.iter().filter_map(|ip| numbers.get(ip)) {
            *expected.entry(*number).or_default() += 1;
        }
    }
    expected.insert(NUMBER, entries);
    for (number, expected) in expected {
        let counted = counter(number).load(Ordering::SeqCst);
        assert_eq!(counted, expected, "{number}\n{}", shown(rewrite));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_functions_compute_the_same_and_log_each_block_in_order(
        source in source(),
        inputs in vec((any::<u32>(), 0u64..1 << 40), 1..6),
        granularity in prop::sample::select(vec![Granularity::Function, Granularity::Loops, Granularity::Blocks]),
        is_counted in any::<bool>(),
    ) {
        let sink = if is_counted { Sink::Count } else { Sink::Log(SHAPE) };
        check(&source, granularity, sink, &inputs);
    }
}

#[test]
fn most_blocks_of_random_functions_are_tagged() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut total, mut tagged) = (0, 0);
    for _ in 0..300 {
        let source = source().new_tree(&mut runner).unwrap().current();
        let (blocks, seen) = check(&source, Granularity::Blocks, Sink::Log(SHAPE), &[(7, 1 << 20)]);
        (total, tagged) = (total + blocks, tagged + seen);
    }
    println!("{tagged} of {total} blocks tagged");
    assert!(tagged * 10 >= total * 6 && total > 1000, "{tagged} of {total}");
}
