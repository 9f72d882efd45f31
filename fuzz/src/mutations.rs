//! Changes inputs at random, in the same way in each run.
//!
//! libFuzzer finds more, because it keeps inputs that execute new code. But its results differ from
//! run to run, because hash maps have a new seed in each run. A test must depend on the code alone.

use hmtt_test_support::random::Xorshift;

/// Maximum length of an input to which bytes are added.
const MAX_BYTES: usize = 4096;
/// Number of changed inputs that are kept for further changes.
const LIVE: usize = 64;
/// Maximum number of bytes that one change adds, removes or moves.
const RANGE: usize = 64;
/// Numbers at which code decides: ends of ranges, and their neighbours.
const BORDERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 47,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// An endless sequence of inputs, which is the same for the same seeds.
pub struct Mutations {
    seeds: Vec<Vec<u8>>,
    /// Changed inputs, which are changed again. So inputs are reached that take many changes.
    live: Vec<Vec<u8>>,
    random: Xorshift,
}

impl Mutations {
    /// Starts from these inputs, and from an empty one.
    #[must_use]
    pub fn new(mut seeds: Vec<Vec<u8>>) -> Self {
        seeds.push(Vec::new());
        Mutations { seeds, live: Vec::new(), random: Xorshift::new(0x9e37_79b9_7f4a_7c15) }
    }

    /// Returns the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.known().to_vec();
        for _ in 0..=self.random.below(6) {
            self.change(&mut input);
        }
        if self.random.below(8) == 0 {
            if self.live.len() == LIVE {
                let at = self.random.below(LIVE);
                self.live.swap_remove(at);
            }
            self.live.push(input.clone());
        }
        input
    }

    /// Returns a seed or a changed input.
    fn known(&mut self) -> &[u8] {
        if self.live.is_empty() || self.random.below(2) == 0 {
            let at = self.random.below(self.seeds.len());
            &self.seeds[at]
        } else {
            let at = self.random.below(self.live.len());
            &self.live[at]
        }
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.below(length + 1);
        start..length.min(start + 1 + self.random.below(RANGE))
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..=self.random.below(RANGE)).map(|_| self.random.byte()).collect()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let length = input.len();
        let at = self.random.below(length);
        match self.random.below(9) {
            0 if length > 0 => input[at] ^= 1 << self.random.below(8),
            1 if length > 0 => input[at] = self.random.byte(),
            2 | 3 if length > 0 => self.number(&mut input[at..]),
            4 if length > 0 => drop(input.drain(self.range(length))),
            5 => {
                let moved = input[self.range(length)].to_vec();
                self.insert(input, &moved);
            }
            6 => {
                let other = self.known().to_vec();
                let range = self.range(other.len());
                self.insert(input, &other[range]);
            }
            7 if length > 0 && self.random.below(4) == 0 => input.truncate(at),
            _ => {
                let bytes = self.bytes();
                self.insert(input, &bytes);
            }
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>, bytes: &[u8]) {
        let at = self.random.below(input.len() + 1);
        if input.len() + bytes.len() <= MAX_BYTES {
            input.splice(at..at, bytes.iter().copied());
        } else {
            // Overwrites bytes. The copied bytes of a seed may be longer than the rest of the
            // input.
            input.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
        }
    }

    /// Writes a number at the start of `place`, in any width and byte order.
    fn number(&mut self, place: &mut [u8]) {
        let number = match self.random.below(3) {
            0 => self.random.number() >> 32 & 0xff,
            _ => BORDERS[self.random.below(BORDERS.len())],
        };
        let width = 1 << self.random.below(4);
        let mut bytes = number.to_le_bytes();
        if self.random.below(2) == 0 {
            bytes[..width].reverse();
        }
        place.iter_mut().zip(&bytes[..width]).for_each(|(old, new)| *old = *new);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn inputs_are_the_same_every_time_and_differ_from_each_other() {
        let inputs = || {
            let mut mutations = Mutations::new(vec![b"a seed".to_vec(), vec![7; MAX_BYTES + 9]]);
            (0..20_000).map(|_| mutations.next_input()).collect::<Vec<_>>()
        };
        let first = inputs();
        assert_eq!(inputs(), first);
        assert!(first.iter().all(|input| input.len() <= MAX_BYTES + 9));
        let lengths: HashSet<usize> = first.iter().map(Vec::len).collect();
        let different: HashSet<Vec<u8>> = first.into_iter().collect();
        assert!(different.len() > 18_000, "{}", different.len());
        assert!(lengths.len() > 200, "{}", lengths.len());
    }
}
