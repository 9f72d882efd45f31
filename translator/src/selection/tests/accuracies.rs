//! Tests the accuracy of selections for blocks.

use iced_x86::code_asm::{byte_ptr, dword_ptr, eax, ecx, rbp, rdi};

use super::{Equality, Selector, accesses, block, selector};
use hmtt_files::access_trace::Accuracy;

#[test]
fn accesses_are_counted_by_what_is_known_of_them() {
    let code = block(|asm| {
        asm.mov(eax, dword_ptr(rbp - 4))?;
        asm.mov(dword_ptr(rbp - 4), ecx)?;
        asm.mov(ecx, dword_ptr(rbp - 8))?;
        asm.mov(byte_ptr(rdi), 0)?;
        asm.rep().stosb()
    });
    let accesses = accesses(&code, Equality::Versions);
    let accuracy = |selector: Selector| selector.select(&accesses).accuracy();
    let third = accuracy(selector(34, 16));
    assert_eq!(third, Accuracy { accesses: 5, traced: 2, equal: 3, near: 1 });
    assert_eq!((third.minimal(), third.alignment_independent()), (Some(0.6), Some(0.8)));
    assert_eq!(third.traced_share(), Some(0.4));
    assert_eq!((third.payoff(), third.alignment_independent_payoff()), (Some(1.5), Some(2.0)));
    let every = accuracy(Selector::Every);
    assert_eq!(every, Accuracy { accesses: 5, traced: 5, equal: 5, near: 0 });
    assert_eq!((every.minimal(), every.payoff()), (Some(1.0), Some(1.0)));
    assert_eq!(accuracy(selector(100, 16)), Accuracy { accesses: 5, traced: 4, equal: 5, near: 0 });
}
