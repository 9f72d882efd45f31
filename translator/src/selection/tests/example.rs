//! The example of the paper, reconstructed.
//!
//! The 18 accesses of the published example were not available. The block below is a reconstruction
//! that has all the properties that are known of it: 18 accesses with 8 representatives, accesses 9
//! and 11 equal and with displacement -0xc or -0x14, the traced representatives and both accuracies
//! at 50 % and in chunks of 16 bytes, and the order of choice at 100 %. The scores of single
//! accesses are those of the reconstruction.

use hmtt_probe::address::RunAddr;
use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, dword_ptr, eax, ecx, edx, esi, qword_ptr, rax, rbp, rcx, rsi,
};

use super::{Block, Equality, accesses, block, printed, selector};
use hmtt_files::access_trace::Accuracy;

/// The instructions up to access 15, with the displacement of accesses 9 and 11.
fn code(asm: &mut CodeAssembler, ninth: i32) -> Result<(), IcedError> {
    asm.mov(rax, qword_ptr(rbp - 8))?; // 1: representative 1
    asm.mov(edx, dword_ptr(rbp - 0x10))?; // 2: representative 2
    asm.add(edx, dword_ptr(rbp - 0x18))?; // 3: representative 3
    asm.add(dword_ptr(rbp - 0x10), 1)?; // 4 and 5
    asm.mov(rcx, qword_ptr(rbp - 8))?; // 6
    asm.add(dword_ptr(rbp - 0x18), edx)?; // 7 and 8
    asm.mov(esi, dword_ptr(rbp + ninth))?; // 9: representative 4
    asm.cmp(esi, dword_ptr(rbp - 0x10))?; // 10
    asm.mov(dword_ptr(rbp + ninth), edx)?; // 11
    asm.add(dword_ptr(rax), edx)?; // 12 and 13: representative 5
    asm.mov(rsi, qword_ptr(rbp - 8))?; // 14
    asm.mov(eax, dword_ptr(0x6010u64))?; // 15: representative 6
    asm.mov(edx, dword_ptr(rcx))?; // 16: representative 7
    asm.mov(ecx, dword_ptr(rsi))?; // 17: representative 8
    asm.mov(rax, qword_ptr(rbp - 8)) // 18
}

/// Numbers of representatives, from 1, in the order in which they are chosen.
fn order(block: &Block, percent: u32) -> Vec<usize> {
    let selection = selector(percent, 16).select(&accesses(block, Equality::Versions));
    selection.order.iter().map(|one| one + 1).collect()
}

#[test]
fn the_published_choice_is_made_with_both_readings() {
    for ninth in [-0xc, -0x14] {
        let block = block(|asm| code(asm, ninth));
        let accesses = accesses(&block, Equality::Versions);
        assert_eq!(block.start, RunAddr(0x1000));
        assert_eq!(accesses.len(), 18);
        assert_eq!(accesses[8].address, accesses[10].address);
        assert_eq!(order(&block, 50), [1, 3, 5, 6]);
        assert_eq!(order(&block, 100), [1, 3, 5, 6, 7, 8, 2, 4]);
        let selection = selector(50, 16).select(&accesses);
        assert_eq!(selection.representatives.len(), 8);
        let accuracy = selection.accuracy();
        assert_eq!(accuracy, Accuracy { accesses: 18, traced: 4, equal: 10, near: 6 });
        assert_eq!(accuracy.minimal(), Some(10.0 / 18.0));
        assert_eq!(accuracy.alignment_independent(), Some(16.0 / 18.0));
        assert_eq!(accuracy.payoff(), Some(2.5));
    }
}

#[test]
fn the_scores_are_as_expected() {
    let block = block(|asm| code(asm, -0x14));
    let accesses = accesses(&block, Equality::Versions);
    let selection = selector(50, 16).select(&accesses);
    let lines = selection.representatives.iter().map(|representative| {
        let average = representative.score.average.value();
        let text = &printed(&accesses[representative.access..=representative.access])[0];
        format!("{text} x{} {average:.2} {:?}", representative.score.count, representative.coverage)
    });
    let expected = [
        "0 R8 <rbp.0, -, -0x8> x4 2.33 Traced",
        "1 R4 <rbp.0, -, -0x10> x4 1.50 Near(0)",
        "2 R4 <rbp.0, -, -0x18> x3 2.33 Traced",
        "6 R4 <rbp.0, -, -0x14> x2 1.50 Near(0)",
        "9 R4 <rax.1, -, 0x0> x2 3.00 Traced",
        "11 R4 <0x6010, -, -> x1 5.00 Traced",
        "12 R4 <rcx.1, -, 0x0> x1 3.00 Missed",
        "13 R4 <rsi.2, -, 0x0> x1 3.00 Missed",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}
