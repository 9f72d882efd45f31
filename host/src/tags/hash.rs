//! Small numbers to buckets, fast: one lookup a call.
//!
//! Numbers of a log that somebody made up can collide at will; that costs time, as a longer log would.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// 2^64 divided by the golden ratio, odd (Knuth, TAOCP 3, 6.4).
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
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
        // The low bits choose the bucket: the high ones, which depend on all, go there.
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR).rotate_left(26);
    }
}
