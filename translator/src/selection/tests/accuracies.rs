//! Accuracy of blocks, and of executions of many blocks.

use iced_x86::code_asm::{byte_ptr, dword_ptr, eax, ecx, rbp, rdi};

use super::super::{Accuracies, Accuracy};
use super::{Equality, Selector, accesses, block, selector};

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
    let of = |selector: Selector| Accuracy::of(&selector.select(&accesses));
    let third = of(selector(34, 16));
    assert_eq!(third, Accuracy { accesses: 5, traced: 2, equal: 3, near: 1 });
    assert_eq!((third.minimal(), third.alignment_independent()), (Some(0.6), Some(0.8)));
    assert_eq!(third.traced_share(), Some(0.4));
    assert_eq!((third.payoff(), third.alignment_independent_payoff()), (Some(1.5), Some(2.0)));
    let every = of(Selector::Every);
    assert_eq!(every, Accuracy { accesses: 5, traced: 5, equal: 5, near: 0 });
    assert_eq!((every.minimal(), every.payoff()), (Some(1.0), Some(1.0)));
    assert_eq!(of(selector(100, 16)), Accuracy { accesses: 5, traced: 4, equal: 5, near: 0 });
}

#[test]
fn nothing_has_no_accuracy() {
    let none = Accuracy::of(&Selector::Every.select(&[]));
    assert_eq!((none.minimal(), none.payoff(), none.traced_share()), (None, None, None));
    let missed = Accuracy { accesses: 1, ..none };
    assert_eq!((missed.minimal(), missed.payoff()), (Some(0.0), None));
}

#[test]
fn executions_weight_blocks() {
    let one = Accuracy { accesses: 4, traced: 1, equal: 1, near: 1 };
    let other = Accuracy { accesses: 1, traced: 1, equal: 1, near: 0 };
    let mut all = Accuracies::default();
    all.add("f", one, 10);
    all.add("g", other, u64::MAX);
    all.add("f", other, 60);
    all.add("g", other, 1);
    all.add("h", one, 0);
    let f = all.groups["f"];
    assert_eq!(f, Accuracy { accesses: 100, traced: 70, equal: 70, near: 10 });
    assert_eq!((f.minimal(), f.alignment_independent()), (Some(0.7), Some(0.8)));
    assert_eq!(all.groups["g"].accesses, 1 << 64);
    assert_eq!(all.overall.accesses, (1 << 64) + 100);
    assert_eq!(all.groups["h"].minimal(), None);
}
