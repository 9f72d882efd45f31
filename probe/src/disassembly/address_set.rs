//! Holds a set of instruction addresses: one bit for each byte of the executable segments.

use crate::elf::{Image, Text};

/// Bits of a word of the set.
const WORD: usize = u64::BITS as usize;

/// A set of addresses within the executable segments of one image.
#[derive(Clone, Debug)]
pub(super) struct AddressSet {
    /// Start address and bits of each segment, in address order.
    segments: Vec<(u64, Vec<u64>)>,
}

impl AddressSet {
    /// Makes an empty set for an image.
    pub fn new(image: &Image) -> AddressSet {
        let bits = |text: &Text| (text.start, vec![0; text.bytes.len().div_ceil(WORD)]);
        AddressSet { segments: image.text.iter().map(bits).collect() }
    }

    fn place(&self, address: u64) -> Option<(usize, usize, u64)> {
        let after = self.segments.partition_point(|(start, _)| *start <= address);
        let segment = after.checked_sub(1)?;
        let (start, words) = &self.segments[segment];
        let bit = usize::try_from(address - start).ok()?;
        (bit / WORD < words.len()).then(|| (segment, bit / WORD, 1 << (bit % WORD)))
    }

    /// Adds an address; addresses outside the segments are ignored.
    pub fn insert(&mut self, address: u64) {
        if let Some((segment, word, bit)) = self.place(address) {
            self.segments[segment].1[word] |= bit;
        }
    }

    /// Adds all addresses of another set of the same image.
    pub fn extend(&mut self, other: &AddressSet) {
        for ((_, words), (_, more)) in self.segments.iter_mut().zip(&other.segments) {
            words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
        }
    }

    /// Whether an address is in the set; addresses outside the segments always are.
    pub fn contains(&self, address: u64) -> bool {
        self.place(address)
            .is_none_or(|(segment, word, bit)| self.segments[segment].1[word] & bit != 0)
    }
}
