//! Compares selections with a second implementation, which follows the description of the method
//! step by step.

use iced_x86::Register;

use hmtt_files::access_trace::Accuracy;

use super::super::{Coverage, Index, Template, Versioned};
use super::{Access, Expression, Random, access, selector};

/// A class: an expression and its number of accesses.
type Class = (Expression, usize);

/// The distance of two expressions; `None` between templates.
fn distance(expression: &Expression, other: &Expression, chunk: u64) -> Option<u32> {
    let apart = |address: i128, other: i128| {
        let round = (address - other).rem_euclid(1 << 64);
        round.min((1 << 64) - round) >= i128::from(chunk)
    };
    match (expression.template, other.template) {
        (
            Template::Rri { base: b1, index: i1, displacement: d1 },
            Template::Rri { base: b2, index: i2, displacement: d2 },
        ) => Some(match ((expression.segment, b1) == (other.segment, b2), i1 == i2) {
            (true, true) if apart(d1.into(), d2.into()) => 5,
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 3,
            (false, false) => 4,
        }),
        (
            Template::Irr { base: b1, index: i1, displacement: d1 },
            Template::Irr { base: b2, index: i2, displacement: d2 },
        ) => Some(match (i1 == i2, d1 == d2) {
            _ if expression.segment != other.segment || apart(b1.into(), b2.into()) => 5,
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 3,
            (false, false) => 4,
        }),
        _ => None,
    }
}

/// The classes of accesses, in the order of their first accesses.
fn classes(accesses: &[Access]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for expression in accesses.iter().filter_map(|access| access.address.expression()) {
        match classes.iter_mut().find(|(one, _)| one == expression) {
            Some((_, count)) => *count += 1,
            None => classes.push((*expression, 1)),
        }
    }
    classes
}

/// The average distance in units of 1/2520, so that averages over up to 10 others are whole
/// numbers.
fn average(classes: &[Class], number: usize, chunk: u64) -> u32 {
    let mut distances = Vec::new();
    for (other, (expression, _)) in classes.iter().enumerate() {
        if other != number {
            distances.extend(distance(&classes[number].0, expression, chunk));
        }
    }
    if distances.is_empty() {
        return 5 * 2520;
    }
    assert!(distances.len() <= 10);
    distances.iter().sum::<u32>() * 2520 / distances.len() as u32
}

/// The classes that are chosen, in order.
fn choice(classes: &[Class], percent: usize, chunk: u64) -> Vec<usize> {
    let (mut chosen, mut frozen) = (Vec::new(), Vec::new());
    while chosen.len() < percent * classes.len() / 100 {
        let mut best: Option<usize> = None;
        for number in 0..classes.len() {
            if chosen.contains(&number) || frozen.contains(&number) {
                continue;
            }
            let score = |number: usize| (classes[number].1, average(classes, number, chunk));
            if best.is_none_or(|best| score(number) > score(best)) {
                best = Some(number);
            }
        }
        let Some(best) = best else {
            frozen.clear();
            continue;
        };
        chosen.push(best);
        for (other, (expression, _)) in classes.iter().enumerate() {
            if other != best && distance(&classes[best].0, expression, chunk) == Some(0) {
                frozen.push(other);
            }
        }
    }
    chosen
}

/// Returns one of a few expressions at random, so that many results are equal or near each other.
fn expression(random: &mut Random) -> Expression {
    let register = |random: &mut Random| Versioned {
        register: random.one_of(&[Register::RAX, Register::RBP]),
        version: random.below(2) as u32,
    };
    let index = (random.below(4) == 0)
        .then(|| Index { register: register(random), scale: random.one_of(&[4, 8]) });
    let near = random.one_of(&[0, 4, 8, 16, 0x40, 0x1000, u64::MAX, 1 << 63]);
    let template = if random.below(3) == 0 {
        let displacement = (random.below(4) == 0).then(|| register(random));
        Template::Irr { base: near, index, displacement }
    } else {
        Template::Rri { base: register(random), index, displacement: near as i64 }
    };
    let fs = Versioned { register: Register::FS, version: 0 };
    Expression { segment: (random.below(8) == 0).then_some(fs), template }
}

#[test]
fn selections_are_those_of_the_naive_method() {
    for seed in 0..3000 {
        let mut random = Random(seed);
        let mut different: Vec<Expression> = Vec::new();
        for _ in 0..1 + random.below(11) {
            different.push(expression(&mut random));
        }
        let length = random.below(24);
        let accesses: Vec<Access> =
            (0..length).map(|_| access(random.one_of(&different))).collect();
        let percent = 1 + random.below(100) as u32;
        let chunk = random.one_of(&[1, 5, 16, 64, 4096]);
        let selection = selector(percent, chunk).select(&accesses);
        let classes = classes(&accesses);
        let expected = choice(&classes, percent as usize, chunk);
        assert_eq!(selection.order, expected, "seed {seed}");
        check_accuracy(&accesses, &classes, &expected, chunk, &selection.accuracy(), seed);
        let traced = selection.representatives.iter().enumerate();
        let traced =
            traced.filter(|(_, representative)| representative.coverage == Coverage::Traced);
        let mut sorted = expected.clone();
        sorted.sort_unstable();
        assert_eq!(traced.map(|(number, _)| number).collect::<Vec<_>>(), sorted, "seed {seed}");
    }
}

/// Compares an accuracy with the one that is counted access by access.
fn check_accuracy(
    accesses: &[Access],
    classes: &[Class],
    chosen: &[usize],
    chunk: u64,
    accuracy: &Accuracy,
    seed: u64,
) {
    let (mut equal, mut near) = (0, 0);
    for expression in accesses.iter().filter_map(|access| access.address.expression()) {
        let chosen = || chosen.iter().map(|number| &classes[*number].0);
        if chosen().any(|one| one == expression) {
            equal += 1;
        } else if chosen().any(|one| distance(one, expression, chunk) == Some(0)) {
            near += 1;
        }
    }
    let (total, traced) = (accesses.len() as u128, chosen.len() as u128);
    let expected = Accuracy { accesses: total, traced, equal, near };
    assert_eq!(*accuracy, expected, "seed {seed}");
}
