//! Tests selections in the code of real programs.

use std::io::Write;
use std::path::Path;

use hmtt_probe::address::RunAddr;
use hmtt_probe::elf::Image;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess};

use super::{Access, Block, Equality, accesses, selector};
use hmtt_files::access_trace::Accuracy;

/// Maximum number of bytes of a program that are examined.
const MAX_CODE: usize = 1 << 20;

/// Calls a function with the blocks of code, one behind the other. What is not translated is left
/// out.
fn for_each_block(start: u64, code: &[u8], mut call: impl FnMut(Block)) {
    let mut at = 0;
    while at < code.len() {
        let (address, rest) = (start + at as u64, &code[at..]);
        match Block::from_bytes(RunAddr(address), rest) {
            Ok(block) => {
                at += block.bytes.len();
                call(block);
            }
            Err(_) => {
                let mut decoder = Decoder::with_ip(64, rest, address, DecoderOptions::NONE);
                at += decoder.decode().len().max(1);
            }
        }
    }
}

/// The number of accesses by `iced_x86`'s list, with two for an update.
fn listed(block: &Block, factory: &mut InstructionInfoFactory) -> usize {
    let weight = |access| match access {
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => 2,
        OpAccess::None | OpAccess::NoMemAccess => 0,
        _ => 1,
    };
    let mut count = 0;
    for operation in &block.operations {
        let memory = factory.info(&operation.instruction).used_memory();
        count += memory.iter().map(|used| weight(used.access())).sum::<usize>();
    }
    count
}

/// Checks the selections of a block with rising shares. Returns the accuracy at 50 %.
fn check_shares(accesses: &[Access], at: RunAddr) -> Accuracy {
    let sets = accesses.iter().filter(|access| access.address.expression().is_none()).count();
    let (mut before, mut half) = (Accuracy::default(), Accuracy::default());
    for percent in [1, 10, 25, 50, 75, 99, 100] {
        let selection = selector(percent, 64).select(accesses);
        let total = selection.representatives.len();
        assert_eq!(selection.order.len(), percent as usize * total / 100, "{at:?}");
        assert_eq!(selection.chosen.len(), selection.order.len() + sets, "{at:?}");
        let accuracy = selection.accuracy();
        assert!(accuracy.equal >= before.equal, "{at:?}");
        assert!(accuracy.equal + accuracy.near >= before.equal + before.near, "{at:?}");
        if percent == 50 {
            half = accuracy;
        }
        before = accuracy;
    }
    assert_eq!((before.equal, before.near), (accesses.len() as u128, 0), "{at:?}");
    half
}

/// Checks all blocks of a program. Returns whether its code could be read.
fn check(path: &Path) -> bool {
    let Ok(image) = Image::read(path) else { return false };
    let mut factory = InstructionInfoFactory::new();
    for equality in [Equality::Versions, Equality::Values] {
        let (mut half, mut classes, mut blocks) = (Accuracy::default(), 0, 0);
        for text in &image.text {
            let code = &text.bytes[..text.bytes.len().min(MAX_CODE)];
            for_each_block(text.start, code, |block| {
                let accesses = accesses(&block, equality);
                assert_eq!(accesses.len(), listed(&block, &mut factory), "{:?}", block.start);
                half += check_shares(&accesses, block.start);
                classes += selector(100, 64).select(&accesses).representatives.len();
                blocks += 1;
            });
        }
        assert!(blocks > 100 && half.accesses > 100, "{}", path.display());
        let name = path.file_name().unwrap_or_default().display();
        println!(
            "{name}, {equality:?}: {blocks} blocks, {} accesses, {classes} representatives; at 50 % {:.3} \
             to {:.3} of the accesses are known, payoff {:.3}",
            half.accesses,
            half.minimal().unwrap(),
            half.alignment_independent().unwrap(),
            half.payoff().unwrap(),
        );
    }
    true
}

#[test]
fn programs_are_selected_consistently() {
    let own = std::env::current_exe().unwrap();
    let programs = [Path::new("/bin/true"), Path::new("/bin/ls"), &own];
    for program in programs {
        if !check(program) {
            let program = program.display();
            let _ = writeln!(std::io::stderr(), "skipped: {program}: its code cannot be read");
        }
    }
}
