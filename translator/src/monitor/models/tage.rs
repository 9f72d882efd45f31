//! Models a predictor similar to TAGE (Seznec and Michaud, 2006). It has tables of tagged counters.
//! The address and the last outcomes select an entry of each table; each table uses more outcomes
//! than the previous one. The prediction comes from the table with the longest history whose entry
//! has the right tag. If there is none, it comes from a table of two-bit counters.
//!
//! | table | entries | history | entry |
//! |---|---|---|---|
//! | base | 8,192 | none | counter of 2 bits |
//! | 1 to 4 | 1,024 each | 5, 15, 44, 128 outcomes | counter of 3 bits, tag of 9 bits, usefulness of 2 bits |
//!
//! It is simpler than published predictors: new entries are not corrected, there is no loop
//! predictor, and the history contains only outcomes of conditional jumps. After a misprediction,
//! an entry with a longer history is replaced if it is not useful. If all such entries are useful,
//! each of them becomes less useful.

/// Number of outcomes that each tagged table uses.
const LENGTHS: [usize; 4] = [5, 15, 44, 128];
const INDEX_BITS: usize = 10;
const TAG_BITS: usize = 9;
const BASE: usize = 1 << 13;
/// Size of all tables in bytes, with 2 bits for each base counter and 14 bits for each entry.
pub const SIZE_BYTES: u64 = (BASE * 2 + LENGTHS.len() * (14 << INDEX_BITS)) as u64 / 8;

/// An entry of a tagged table.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Counter from -4 to 3. A counter of at least 0 predicts a taken jump.
    counter: i8,
    tag: u16,
    useful: u8,
}

/// The last `length` outcomes, folded to `bits` bits by exclusive or.
#[derive(Clone, Copy, Debug)]
struct Folded {
    value: u32,
    length: usize,
    bits: usize,
}

impl Folded {
    /// Adds the newest outcome. `oldest`: the outcome that leaves the history.
    fn push(&mut self, newest: u32, oldest: u32) {
        let shifted = self.value << 1 ^ newest ^ oldest << (self.length % self.bits);
        self.value = (shifted ^ shifted >> self.bits) & ((1 << self.bits) - 1);
    }
}

/// A predictor similar to TAGE.
#[derive(Clone, Debug)]
pub struct Tage {
    base: Vec<u8>,
    tables: [Vec<Entry>; LENGTHS.len()],
    /// The last 128 outcomes, the newest in bit 0.
    history: u128,
    /// For each table: history folded for the index, and twice for the tag, with different numbers
    /// of bits.
    folded: [[Folded; 3]; LENGTHS.len()],
}

impl Default for Tage {
    /// A predictor that weakly predicts that no jump is taken.
    fn default() -> Self {
        let folded = |length: usize| {
            [INDEX_BITS, TAG_BITS, TAG_BITS - 1].map(|bits| Folded { value: 0, length, bits })
        };
        Tage {
            base: vec![1; BASE],
            tables: [const { Vec::new() }; LENGTHS.len()]
                .map(|_: Vec<Entry>| vec![Entry::default(); 1 << INDEX_BITS]),
            history: 0,
            folded: LENGTHS.map(folded),
        }
    }
}

impl Tage {
    /// Predicts a jump, and learns whether it is taken. Returns the prediction.
    pub fn predict(&mut self, address: u64, is_taken: bool) -> bool {
        let places: [(usize, u16); LENGTHS.len()] =
            std::array::from_fn(|table| place(address, &self.folded[table].map(|one| one.value)));
        let has_tag = |table: &usize| {
            let (index, tag) = places[*table];
            self.tables[*table][index].tag == tag
        };
        let provider = (0..LENGTHS.len()).rev().find(has_tag);
        let other = (0..provider.unwrap_or(0)).rev().find(has_tag);
        let base = address as usize & (BASE - 1);
        let by = |table: Option<usize>| match table {
            Some(table) => self.tables[table][places[table].0].counter >= 0,
            None => self.base[base] >= 2,
        };
        let (predicted, alternative) = (by(provider), by(other));
        match provider {
            Some(table) => {
                let entry = &mut self.tables[table][places[table].0];
                let step = if is_taken { 1 } else { -1 };
                entry.counter = (entry.counter + step).clamp(-4, 3);
                if predicted != alternative {
                    let useful = entry.useful;
                    let is_right = predicted == is_taken;
                    entry.useful =
                        if is_right { (useful + 1).min(3) } else { useful.saturating_sub(1) };
                }
            }
            None => {
                let counter = &mut self.base[base];
                *counter = if is_taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
            }
        }
        if predicted != is_taken {
            self.allocate(provider.map_or(0, |table| table + 1), &places, is_taken);
        }
        self.push(is_taken);
        predicted
    }

    /// Replaces the entry in the first table, from `from` on, in which the selected entry is not
    /// useful. If there is none, all these entries become less useful.
    fn allocate(&mut self, from: usize, places: &[(usize, u16); LENGTHS.len()], is_taken: bool) {
        let rest = || (from..LENGTHS.len()).map(|table| (table, places[table]));
        let free = rest().find(|(table, (index, _))| self.tables[*table][*index].useful == 0);
        match free {
            Some((table, (index, tag))) => {
                let counter = if is_taken { 0 } else { -1 };
                self.tables[table][index] = Entry { counter, tag, useful: 0 };
            }
            None => rest().for_each(|(table, (index, _))| self.tables[table][index].useful -= 1),
        }
    }

    fn push(&mut self, is_taken: bool) {
        let newest = u32::from(is_taken);
        for (folded, length) in self.folded.iter_mut().zip(LENGTHS) {
            let oldest = (self.history >> (length - 1)) as u32 & 1;
            folded.iter_mut().for_each(|one| one.push(newest, oldest));
        }
        self.history = self.history << 1 | u128::from(is_taken);
    }
}

/// Index and tag for an address and folded histories. The tag is never 0, because unused entries
/// have the tag 0.
fn place(address: u64, folded: &[u32; 3]) -> (usize, u16) {
    let index = (address ^ address >> INDEX_BITS) as u32 ^ folded[0];
    let tag = (address ^ address >> 7) as u32 ^ folded[1] ^ folded[2] << 1;
    let tag = tag as u16 & ((1 << TAG_BITS) - 1);
    (index as usize & ((1 << INDEX_BITS) - 1), tag.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exclusive or of pieces of the last outcomes.
    fn fold(outcomes: &[bool], length: usize, bits: usize) -> u32 {
        let newest_first = outcomes.iter().rev().take(length).enumerate();
        newest_first.fold(0, |folded, (at, taken)| folded ^ u32::from(*taken) << (at % bits))
    }

    fn mispredictions(outcome: impl Fn(u64) -> bool) -> u64 {
        let mut predictor = Tage::default();
        (0..10_000).filter(|n| predictor.predict(0x40_1000, outcome(*n)) != outcome(*n)).count()
            as u64
    }

    #[test]
    fn histories_are_folded_as_a_whole() {
        let mut predictor = Tage::default();
        let mut outcomes = Vec::new();
        let mut seed = 7u64;
        for _ in 0..3_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            let is_taken = seed >> 40 & 1 != 0;
            predictor.predict(seed >> 50, is_taken);
            outcomes.push(is_taken);
            for (table, length) in LENGTHS.iter().enumerate() {
                let expected = [10, 9, 8].map(|bits| fold(&outcomes, *length, bits));
                assert_eq!(predictor.folded[table].map(|one| one.value), expected);
            }
        }
        assert_eq!(SIZE_BYTES, 2048 + 4 * 1792);
    }

    #[test]
    fn patterns_within_the_history_are_learned() {
        assert!(mispredictions(|_| true) < 10);
        assert!(mispredictions(|n| n % 2 == 0) < 60);
        assert!(mispredictions(|n| n % 11 == 3) < 200);
        // A random sequence is not.
        let random = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0;
        let hash = |n: u64| random(n ^ n.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 31);
        assert!(mispredictions(hash) > 1_000);
    }
}
