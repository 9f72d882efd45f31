//! Tests the rules by which accesses are chosen, one by one.

use iced_x86::Register;
use iced_x86::code_asm::{dword_ptr, eax, ecx, qword_ptr, rax, rbx, rcx, rdi, zmm0, zmm1};

use super::super::{Coverage, OutOfRange, Selection, Template, Versioned};
use super::{Access, Equality, Expression, Omega, Selector, access, accesses, block, selector};

#[test]
fn the_share_is_exact_and_rounded_down() {
    assert_eq!(Omega::from_percent(0), Err(OutOfRange(0)));
    assert_eq!(Omega::from_percent(101), Err(OutOfRange(101)));
    assert_eq!(Omega::from_percent(256 + 50), Err(OutOfRange(306)));
    let capacity = |percent, count| Omega::from_percent(percent).unwrap().capacity(count);
    assert_eq!(
        [capacity(50, 1), capacity(50, 8), capacity(29, 100), capacity(1, 99), capacity(1, 100)],
        [0, 4, 29, 0, 1]
    );
    assert_eq!(Omega::ALL.capacity(37), 37);
}

/// Accesses of one byte at offsets from `rax`.
fn at(offsets: &[i64]) -> Vec<Access> {
    let base = Versioned { register: Register::RAX, version: 0 };
    let with = |displacement| Template::Rri { base, index: None, displacement };
    let access_at = |offset| access(Expression { segment: None, template: with(offset) });
    offsets.iter().copied().map(access_at).collect()
}

/// The access of each chosen representative, in the order of choice.
fn order(selection: &Selection) -> Vec<usize> {
    selection.order.iter().map(|one| selection.representatives[*one].access).collect()
}

#[test]
fn frequent_accesses_come_first_then_distant_ones_then_earlier_ones() {
    // 0x100 occurs twice. 0x200 and 0x300 are far from all others, 0 and 4 near each other.
    let accesses = at(&[0, 4, 0x200, 0x100, 0x300, 0x100]);
    let selection = selector(100, 16).select(&accesses);
    assert_eq!(order(&selection), [3, 2, 4, 0, 1]);
    assert_eq!(selection.represented_by, [0, 1, 2, 3, 4, 3].map(Some));
    assert_eq!(selection.chosen, [0, 1, 2, 3, 4]);
}

#[test]
fn neighbours_of_chosen_ones_wait_until_no_other_is_left() {
    // 0 is the most frequent; 8 is near 0 and 16, which are not near each other.
    let accesses = at(&[0, 0, 0, 8, 8, 16]);
    let coverage = |percent| {
        let selection = selector(percent, 16).select(&accesses);
        selection
            .representatives
            .iter()
            .map(|representative| representative.coverage)
            .collect::<Vec<_>>()
    };
    use Coverage::{Missed, Near, Traced};
    assert_eq!(order(&selector(100, 16).select(&accesses)), [0, 5, 3]);
    assert_eq!(coverage(34), [Traced, Near(0), Missed]);
    assert_eq!(coverage(67), [Traced, Near(0), Traced]);
    assert_eq!(coverage(100), [Traced; 3]);
    assert_eq!(coverage(33), [Missed; 3]);
    // In chunks of one byte nothing is near.
    assert_eq!(order(&selector(100, 1).select(&accesses)), [0, 3, 5]);
}

#[test]
fn a_neighbour_freezes_others_when_it_is_chosen_later() {
    // 4 and 6 are near each other and near 0. The second round chooses 4, the third 6.
    let selection = selector(100, 16).select(&at(&[0, 0, 0, 4, 4, 6, 0x100]));
    assert_eq!(order(&selection), [0, 6, 3, 5]);
}

#[test]
fn sets_are_always_traced_and_use_no_capacity() {
    let code = block(|asm| {
        asm.vpgatherdd(zmm0.k1(), dword_ptr(rax + zmm1 * 4))?;
        asm.mov(eax, dword_ptr(rbx))?;
        asm.mov(ecx, dword_ptr(rdi))?;
        asm.rep().stosd()
    });
    let accesses = accesses(&code, Equality::Versions);
    let selection = selector(50, 64).select(&accesses);
    assert_eq!(selection.chosen, [0, 1, 3]);
    assert_eq!(selection.represented_by, [None, Some(0), Some(1), None]);
}

#[test]
fn every_access_is_chosen_without_selection() {
    let accesses = at(&[0, 0, 8]);
    let selection = Selector::Every.select(&accesses);
    assert_eq!(selection.chosen, [0, 1, 2]);
    assert_eq!(selection.represented_by, [None; 3]);
}

#[test]
fn a_block_without_accesses_has_nothing_to_choose() {
    let code = block(|asm| asm.mov(rax, rcx));
    for selector in [Selector::Every, selector(100, 1)] {
        assert_eq!(selector.select(&accesses(&code, Equality::Values)).chosen, [0; 0]);
    }
}

#[test]
fn values_make_pushes_neighbours() {
    let code = block(|asm| {
        asm.push(rax)?;
        asm.push(rbx)?;
        asm.push(rcx)?;
        asm.mov(qword_ptr(rdi), rax)
    });
    let near = |equality| {
        let selection = selector(50, 64).select(&accesses(&code, equality));
        selection
            .representatives
            .iter()
            .filter(|representative| matches!(representative.coverage, Coverage::Near(_)))
            .count()
    };
    assert_eq!((near(Equality::Versions), near(Equality::Values)), (0, 2));
}
