//! Distances and their averages.

use iced_x86::Register;

use super::super::{Average, Chunk, Distance, Index, Template, Versioned};
use super::Expression;

/// A register of version 0.
fn register(register: Register) -> Versioned {
    Versioned { register, version: 0 }
}

/// An index by a register, with scale 4.
fn by(of: Register) -> Option<Index> {
    Some(Index { register: register(of), scale: 4 })
}

fn rri(base: Versioned, index: Option<Index>, displacement: i64) -> Expression {
    Expression { segment: None, template: Template::Rri { base, index, displacement } }
}

fn irr(base: u64, index: Option<Index>, displacement: Option<Versioned>) -> Expression {
    Expression { segment: None, template: Template::Irr { base, index, displacement } }
}

/// The distance in chunks of 16 bytes, which is the same in both directions.
fn distance(one: Expression, other: Expression) -> Option<Distance> {
    let chunk = Chunk::new(16).unwrap();
    let found = one.distance(&other, chunk);
    assert_eq!(found, other.distance(&one, chunk));
    assert_eq!(found.is_some(), one.is_comparable(&other));
    found
}

#[test]
fn distances_from_a_register_follow_the_first_tree() {
    let (rax, rbx) = (register(Register::RAX), register(Register::RBX));
    let (rcx, rdx) = (by(Register::RCX), by(Register::RDX));
    let newer = Versioned { version: 1, ..rax };
    let one = rri(rax, rcx, 0);
    assert_eq!(distance(one, rri(rax, rcx, 15)), Some(0));
    assert_eq!(distance(one, rri(rax, rcx, -16)), Some(5));
    assert_eq!(distance(one, rri(rax, rdx, 0)), Some(1));
    assert_eq!(distance(one, rri(rax, None, 4096)), Some(1));
    let wide = rcx.map(|index| Index { scale: 8, ..index });
    assert_eq!(distance(one, rri(rax, wide, 0)), Some(1));
    assert_eq!(distance(one, rri(rbx, rcx, 4096)), Some(3));
    assert_eq!(distance(one, rri(newer, rcx, 0)), Some(3));
    assert_eq!(distance(one, rri(rbx, rdx, 0)), Some(4));
    let segment = Some(register(Register::FS));
    assert_eq!(distance(one, Expression { segment, ..one }), Some(3));
    assert_eq!(distance(rri(rax, None, i64::MIN), rri(rax, None, i64::MAX)), Some(0));
    assert_eq!(distance(rri(rax, None, i64::MIN), rri(rax, None, 0)), Some(5));
}

#[test]
fn distances_from_an_immediate_follow_the_second_tree() {
    let (rax, rbx) = (Some(register(Register::RAX)), Some(register(Register::RBX)));
    let (rcx, rdx) = (by(Register::RCX), by(Register::RDX));
    let one = irr(0x5000, rcx, rax);
    assert_eq!(distance(one, irr(0x500f, rcx, rax)), Some(0));
    assert_eq!(distance(one, irr(0x5010, rcx, rax)), Some(5));
    assert_eq!(distance(one, irr(0x5010, rdx, rbx)), Some(5));
    assert_eq!(distance(one, irr(0x4ff1, rcx, rbx)), Some(1));
    assert_eq!(distance(one, irr(0x5000, rdx, rax)), Some(3));
    assert_eq!(distance(one, irr(0x5000, None, None)), Some(4));
    let segment = Some(register(Register::FS));
    assert_eq!(distance(one, Expression { segment, ..one }), Some(5));
    assert_eq!(distance(irr(0, None, None), irr(u64::MAX, None, None)), Some(0));
    assert_eq!(distance(irr(0, None, None), irr(1 << 63, None, None)), Some(5));
}

#[test]
fn templates_have_no_distance_from_each_other() {
    let rax = register(Register::RAX);
    assert_eq!(distance(rri(rax, None, 0), irr(0, None, None)), None);
}

#[test]
fn averages_are_compared_exactly() {
    let of = |distances: &[Distance]| Average::of(distances.iter().copied());
    assert_eq!(of(&[]), of(&[5, 5]));
    assert!(of(&[1, 3, 3]) > of(&[3, 1]));
    assert_eq!(of(&[3, 1]), of(&[1, 3, 1, 3]));
    assert!((of(&[5, 4]).value() - 4.5).abs() < 1e-12);
}
