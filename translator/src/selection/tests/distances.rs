//! Tests distances and their averages.

use iced_x86::Register;

use super::super::{Average, Chunk, Distance, Index, Template, Versioned};
use super::Expression;

/// A register of version 0.
fn register(register: Register) -> Versioned {
    Versioned { register, version: 0 }
}

/// An index by a register, with scale 4.
fn by(index_register: Register) -> Option<Index> {
    Some(Index { register: register(index_register), scale: 4 })
}

fn rri(base: Versioned, index: Option<Index>, displacement: i64) -> Expression {
    Expression { segment: None, template: Template::Rri { base, index, displacement } }
}

fn irr(base: u64, index: Option<Index>, displacement: Option<Versioned>) -> Expression {
    Expression { segment: None, template: Template::Irr { base, index, displacement } }
}

/// The distance in chunks of 16 bytes, which is the same in both directions.
fn distance(expression: Expression, other: Expression) -> Option<Distance> {
    let chunk = Chunk::new(16).unwrap();
    let distance = expression.distance(&other, chunk);
    assert_eq!(distance, other.distance(&expression, chunk));
    assert_eq!(distance.is_some(), expression.is_comparable(&other));
    distance
}

#[test]
fn distances_from_a_register_follow_the_first_tree() {
    let (rax, rbx) = (register(Register::RAX), register(Register::RBX));
    let (rcx, rdx) = (by(Register::RCX), by(Register::RDX));
    let newer = Versioned { version: 1, ..rax };
    let reference = rri(rax, rcx, 0);
    assert_eq!(distance(reference, rri(rax, rcx, 15)), Some(0));
    assert_eq!(distance(reference, rri(rax, rcx, -16)), Some(5));
    assert_eq!(distance(reference, rri(rax, rdx, 0)), Some(1));
    assert_eq!(distance(reference, rri(rax, None, 4096)), Some(1));
    let wide = rcx.map(|index| Index { scale: 8, ..index });
    assert_eq!(distance(reference, rri(rax, wide, 0)), Some(1));
    assert_eq!(distance(reference, rri(rbx, rcx, 4096)), Some(3));
    assert_eq!(distance(reference, rri(newer, rcx, 0)), Some(3));
    assert_eq!(distance(reference, rri(rbx, rdx, 0)), Some(4));
    let segment = Some(register(Register::FS));
    assert_eq!(distance(reference, Expression { segment, ..reference }), Some(3));
    assert_eq!(distance(rri(rax, None, i64::MIN), rri(rax, None, i64::MAX)), Some(0));
    assert_eq!(distance(rri(rax, None, i64::MIN), rri(rax, None, 0)), Some(5));
}

#[test]
fn distances_from_an_immediate_follow_the_second_tree() {
    let (rax, rbx) = (Some(register(Register::RAX)), Some(register(Register::RBX)));
    let (rcx, rdx) = (by(Register::RCX), by(Register::RDX));
    let reference = irr(0x5000, rcx, rax);
    assert_eq!(distance(reference, irr(0x500f, rcx, rax)), Some(0));
    assert_eq!(distance(reference, irr(0x5010, rcx, rax)), Some(5));
    assert_eq!(distance(reference, irr(0x5010, rdx, rbx)), Some(5));
    assert_eq!(distance(reference, irr(0x4ff1, rcx, rbx)), Some(1));
    assert_eq!(distance(reference, irr(0x5000, rdx, rax)), Some(3));
    assert_eq!(distance(reference, irr(0x5000, None, None)), Some(4));
    let segment = Some(register(Register::FS));
    assert_eq!(distance(reference, Expression { segment, ..reference }), Some(5));
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
    let average = |distances: &[Distance]| Average::of(distances.iter().copied());
    assert_eq!(average(&[]), average(&[5, 5]));
    assert!(average(&[1, 3, 3]) > average(&[3, 1]));
    assert_eq!(average(&[3, 1]), average(&[1, 3, 1, 3]));
    assert!((average(&[5, 4]).value() - 4.5).abs() < 1e-12);
}
