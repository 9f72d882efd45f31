//! Hashes small numbers quickly: each call takes one lookup.
//!
//! A number is multiplied by a factor that is random and odd, and differs in each map.
//! Multiplication by such a factor is 2-universal (Dietzfelbinger et al., 1997), so the author of a
//! log cannot choose numbers that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

pub type FastMap<K, V> = HashMap<K, V, RandomMultiply>;

/// 2^64 divided by the golden ratio, rounded to an odd number (Knuth, TAOCP 3, 6.4).
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash builder of a map; holds the map's factor.
#[derive(Clone, Copy, Debug)]
pub struct RandomMultiply {
    factor: u64,
}

impl Default for RandomMultiply {
    fn default() -> Self {
        RandomMultiply { factor: RandomState::new().hash_one(FACTOR) | 1 }
    }
}

impl BuildHasher for RandomMultiply {
    type Hasher = Multiply;

    #[inline]
    fn build_hasher(&self) -> Multiply {
        Multiply { hash: 0, factor: self.factor }
    }
}

/// Hasher of one number.
#[derive(Clone, Copy, Debug)]
pub struct Multiply {
    hash: u64,
    factor: u64,
}

impl Hasher for Multiply {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The low bits choose the bucket, so the high bits, which depend on all bits of the number,
        // are moved there.
        self.hash = (self.hash ^ number).wrapping_mul(self.factor).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that a given factor puts into one of 2^20 buckets.
    fn colliding(factor: u64) -> impl Iterator<Item = u64> {
        let inverse = (0..6).fold(factor, |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)))
        });
        (0..1u64 << 12).map(move |low| low.wrapping_mul(inverse))
    }

    fn fullest_bucket(state: &RandomMultiply, numbers: impl Iterator<Item = u64>) -> usize {
        let mut buckets = vec![0_usize; 1 << 12];
        numbers.for_each(|number| buckets[state.hash_one(number) as usize & 0xfff] += 1);
        buckets.into_iter().max().unwrap_or_default()
    }

    #[test]
    fn numbers_that_collide_under_one_factor_do_not_under_the_random_one() {
        let known = RandomMultiply { factor: FACTOR };
        assert_eq!(fullest_bucket(&known, colliding(FACTOR)), 1 << 12);
        let maps: Vec<_> = (0..16).map(|_| RandomMultiply::default()).collect();
        let spread = maps.iter().filter(|map| fullest_bucket(map, colliding(FACTOR)) < 256);
        assert!(spread.count() > 8);
    }
}
