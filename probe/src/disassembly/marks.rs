//! A set of addresses of instructions: one bit for each byte of the executable segments.

use crate::elf::{Image, Text};

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

#[derive(Clone, Debug)]
pub(super) struct Marks {
    segments: Vec<(u64, Vec<u64>)>,
}

impl Marks {
    /// None yet.
    pub fn new(image: &Image) -> Marks {
        let bits = |text: &Text| (text.start, vec![0; text.bytes.len().div_ceil(WORD)]);
        Marks { segments: image.text.iter().map(bits).collect() }
    }

    fn place(&self, address: u64) -> Option<(usize, usize, u64)> {
        let after = self.segments.partition_point(|(start, _)| *start <= address);
        let segment = after.checked_sub(1)?;
        let (start, words) = &self.segments[segment];
        let bit = usize::try_from(address - start).ok()?;
        (bit / WORD < words.len()).then(|| (segment, bit / WORD, 1 << (bit % WORD)))
    }

    /// Marks an address; ignored outside the segments.
    pub fn set(&mut self, address: u64) {
        if let Some((segment, word, bit)) = self.place(address) {
            self.segments[segment].1[word] |= bit;
        }
    }

    /// Marks what another set of the same file has marked.
    pub fn add(&mut self, other: &Marks) {
        for ((_, words), (_, more)) in self.segments.iter_mut().zip(&other.segments) {
            words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
        }
    }

    /// Whether an address is marked; those outside the segments are.
    pub fn has(&self, address: u64) -> bool {
        self.place(address)
            .is_none_or(|(segment, word, bit)| self.segments[segment].1[word] & bit != 0)
    }
}
