//! Chooses which accesses of a block, or of blocks one after the other, are traced.
//!
//! Equal accesses form a class, which its first access represents. The classes with the best scores
//! are chosen, as many as the setting allows: a knapsack problem whose items all have the same
//! weight.

use std::cmp::Reverse;
use std::collections::HashMap;

use hmtt_files::access_trace::Accuracy;

use super::accesses::Access;
use super::distance::Average;
use super::expression::Expression;
use crate::extent::{Chunk, Omega, Selector};

/// The rank of a class. Classes are compared by their number of accesses, then by their average
/// distance to the others of the same template, then by program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// Number of accesses of the class.
    pub count: usize,
    /// Average distance to the other representatives of the same template.
    pub average: Average,
}

/// What the traced accesses say about a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Its representative is traced: the addresses of its accesses are known.
    Traced,
    /// It is at distance zero from a traced representative, so its chunk is probably known. The
    /// index is that of the first such representative.
    Near(usize),
    /// No traced access says anything about it.
    Missed,
}

/// A class of equal accesses, and its first access, which represents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representative {
    /// Index of the access among the accesses of the block.
    pub access: usize,
    /// The expression that all accesses of the class have.
    pub expression: Expression,
    /// The rank of the class.
    pub score: Score,
    /// What the traced accesses say about the class.
    pub coverage: Coverage,
}

/// The accesses of a block that are traced, and what they say about the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Indexes of the accesses that are traced, in program order.
    pub chosen: Vec<usize>,
    /// All representatives, in program order. Empty if every access is traced.
    pub representatives: Vec<Representative>,
    /// Indexes of the traced representatives in [`representatives`](Self::representatives), in the
    /// order in which they were chosen.
    pub order: Vec<usize>,
    /// For each access, the index of its representative. `None`: the access is traced in any case.
    pub represented_by: Vec<Option<usize>>,
}

impl Selection {
    /// How many accesses the traced ones account for in one execution of the block.
    pub fn accuracy(&self) -> Accuracy {
        let mut accuracy = Accuracy {
            accesses: self.represented_by.len() as u128,
            traced: self.chosen.len() as u128,
            ..Accuracy::default()
        };
        let for_themselves = self.represented_by.iter().filter(|class| class.is_none());
        accuracy.equal = for_themselves.count() as u128;
        for representative in &self.representatives {
            let count = representative.score.count as u128;
            match representative.coverage {
                Coverage::Traced => accuracy.equal += count,
                Coverage::Near(_) => accuracy.near += count,
                Coverage::Missed => {}
            }
        }
        accuracy
    }
}

impl Selector {
    /// Chooses among the accesses of a block.
    pub fn select(&self, accesses: &[Access]) -> Selection {
        match *self {
            Selector::Every => Selection {
                chosen: (0..accesses.len()).collect(),
                representatives: Vec::new(),
                order: Vec::new(),
                represented_by: vec![None; accesses.len()],
            },
            Selector::Representatives { omega, chunk } => representatives(accesses, omega, chunk),
        }
    }
}

/// Chooses the share `omega` of the representatives.
fn representatives(accesses: &[Access], omega: Omega, chunk: Chunk) -> Selection {
    let (classes, represented_by) = classes(accesses);
    let near = neighbours(&classes, chunk);
    let mut representatives = scored(&classes, chunk);
    let order = order(&representatives, &near, omega.capacity(classes.len()));
    let mut first_to_last = order.clone();
    first_to_last.sort_unstable();
    for &number in &first_to_last {
        for &other in &near[number] {
            if representatives[other].coverage == Coverage::Missed {
                representatives[other].coverage = Coverage::Near(number);
            }
        }
    }
    for &number in &order {
        representatives[number].coverage = Coverage::Traced;
    }
    let is_chosen = |access: &usize| match represented_by[*access] {
        Some(class) => {
            let Representative { access: first, coverage, .. } = representatives[class];
            first == *access && coverage == Coverage::Traced
        }
        None => true,
    };
    let chosen = (0..accesses.len()).filter(is_chosen).collect();
    Selection { chosen, representatives, order, represented_by }
}

/// A class of equal accesses.
struct Class {
    /// Index of its first access.
    access: usize,
    expression: Expression,
    /// Number of its accesses.
    count: usize,
}

/// Returns the classes in the order of their first accesses, and the class of each access.
fn classes(accesses: &[Access]) -> (Vec<Class>, Vec<Option<usize>>) {
    let mut classes: Vec<Class> = Vec::new();
    let mut numbers = HashMap::new();
    let mut class_of = |(access, expression): (usize, &Expression)| {
        let number = *numbers.entry(*expression).or_insert(classes.len());
        match classes.get_mut(number) {
            Some(class) => class.count += 1,
            None => classes.push(Class { access, expression: *expression, count: 1 }),
        }
        number
    };
    let of_each = |(number, access): (usize, &Access)| {
        access.address.expression().map(|expression| class_of((number, expression)))
    };
    let represented_by = accesses.iter().enumerate().map(of_each).collect();
    (classes, represented_by)
}

/// Returns for each class the other classes at distance zero.
fn neighbours(classes: &[Class], chunk: Chunk) -> Vec<Vec<usize>> {
    let near = |number: usize| {
        let is_near = |other: &usize| {
            let distance = classes[number].expression.distance(&classes[*other].expression, chunk);
            *other != number && distance == Some(0)
        };
        (0..classes.len()).filter(is_near).collect()
    };
    (0..classes.len()).map(near).collect()
}

/// Returns the representatives with their scores. No coverage is known yet.
fn scored(classes: &[Class], chunk: Chunk) -> Vec<Representative> {
    let score = |(number, class): (usize, &Class)| {
        let others = classes.iter().enumerate().filter(|(other, _)| *other != number);
        let distances =
            others.filter_map(|(_, other)| class.expression.distance(&other.expression, chunk));
        let score = Score { count: class.count, average: Average::of(distances) };
        Representative {
            access: class.access,
            expression: class.expression,
            score,
            coverage: Coverage::Missed,
        }
    };
    classes.iter().enumerate().map(score).collect()
}

/// Chooses as many representatives as the capacity allows, the best ones first. Representatives at
/// distance zero from a chosen one are frozen: they are passed over as long as there are others.
///
/// With four representatives in the order a, b, c, d of their scores, where a and b are near each
/// other, and a capacity of 3, a, c and d are chosen.
fn order(representatives: &[Representative], near: &[Vec<usize>], capacity: usize) -> Vec<usize> {
    let mut waiting: Vec<usize> = (0..representatives.len()).collect();
    waiting.sort_by_key(|one| Reverse(representatives[*one].score));
    let mut chosen = Vec::with_capacity(capacity);
    while chosen.len() < capacity {
        // No representative is frozen at the start of a round, so each round chooses at least the
        // first one that waits.
        let mut frozen = vec![false; representatives.len()];
        waiting.retain(|&number| {
            let is_chosen = chosen.len() < capacity && !frozen[number];
            if is_chosen {
                chosen.push(number);
                near[number].iter().for_each(|other| frozen[*other] = true);
            }
            !is_chosen
        });
    }
    chosen
}
