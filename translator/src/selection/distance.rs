//! Computes distances between expressions: how likely two accesses are in different chunks of
//! memory.
//!
//! The values and the decision trees, one for each template, are taken from the paper (see
//! [`selection`](super)).

use std::cmp::Ordering;

use super::expression::{Expression, Template};
use crate::extent::Chunk;

/// A distance: 0, 1, 3, 4 or 5. With 0, the two accesses are probably in the same chunk.
pub type Distance = u32;

/// The distance of expressions that are certainly in different chunks. Also the average distance of
/// an expression that has no other one to be compared with.
const FAR: Distance = 5;

impl Expression {
    /// Returns the distance to another expression of the same template; `None` if the templates
    /// differ.
    ///
    /// With chunks of 16 bytes, the distance of `<rax.0, rcx.0*4, 0x0>` to another expression is
    /// - 0 to `<rax.0, rcx.0*4, 0xf>`,
    /// - 1 to `<rax.0, rdx.0*4, 0x0>`, with another index,
    /// - 3 to `<rbx.0, rcx.0*4, 0x0>`, with another base,
    /// - 5 to `<rax.0, rcx.0*4, -0x10>`, which is certainly in another chunk.
    pub fn distance(&self, other: &Expression, chunk: Chunk) -> Option<Distance> {
        let same_segment = self.segment == other.segment;
        let penalty = |differs: bool, points: Distance| if differs { points } else { 0 };
        match (self.template, other.template) {
            (
                Template::Rri { base, index, displacement },
                Template::Rri { base: other_base, index: other_index, displacement: other },
            ) => {
                let other_base = base != other_base || !same_segment;
                let apart = penalty(other_base, 3) + penalty(index != other_index, 1);
                let far = apart == 0 && gap(displacement, other) >= chunk.get();
                Some(apart + penalty(far, FAR))
            }
            (
                Template::Irr { base, index, displacement },
                Template::Irr { base: other, index: other_index, displacement: other_register },
            ) => {
                if !same_segment || gap(base as i64, other as i64) >= chunk.get() {
                    return Some(FAR);
                }
                let apart = penalty(index != other_index, 3);
                Some(apart + penalty(displacement != other_register, 1))
            }
            _ => None,
        }
    }
}

/// Number of bytes between two addresses, computed modulo 2^64.
fn gap(address: i64, other: i64) -> u64 {
    address.wrapping_sub(other).unsigned_abs()
}

/// The average distance of an expression to others, as an exact ratio: averages are compared
/// without rounding.
#[derive(Clone, Copy, Debug)]
pub struct Average {
    sum: u64,
    count: u64,
}

impl Average {
    /// Returns the average of distances. It is 5 if there are none, because nothing else represents
    /// the expression.
    pub fn of(distances: impl Iterator<Item = Distance>) -> Self {
        let add = |(sum, count), distance| (sum + u64::from(distance), count + 1);
        match distances.fold((0, 0), add) {
            (_, 0) => Average { sum: u64::from(FAR), count: 1 },
            (sum, count) => Average { sum, count },
        }
    }

    /// The average as a floating-point number, between 0 and 5.
    pub fn value(self) -> f64 {
        self.sum as f64 / self.count as f64
    }
}

impl Ord for Average {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.sum * other.count).cmp(&(other.sum * self.count))
    }
}

impl PartialOrd for Average {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Average {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Average {}
