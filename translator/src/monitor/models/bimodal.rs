//! Models the bimodal predictor: a table of two-bit counters, in which the address of the jump
//! selects a counter.

/// Number of counters, a power of two.
const COUNTERS: usize = 1 << 14;
/// Size of the table in bytes, with two bits for each counter.
pub const SIZE_BYTES: u64 = COUNTERS as u64 / 4;
/// Smallest value of a counter that predicts a taken jump.
const TAKEN: u8 = 2;
const MOST: u8 = 3;

/// A bimodal predictor.
#[derive(Clone, Debug)]
pub struct Bimodal(Vec<u8>);

impl Default for Bimodal {
    /// A predictor whose counters weakly predict that no jump is taken.
    fn default() -> Self {
        Bimodal(vec![TAKEN - 1; COUNTERS])
    }
}

impl Bimodal {
    /// Predicts a jump, and learns whether it is taken. Returns the prediction.
    pub fn predict(&mut self, address: u64, is_taken: bool) -> bool {
        let counter = &mut self.0[place(address)];
        let predicted = *counter >= TAKEN;
        *counter = if is_taken { (*counter + 1).min(MOST) } else { counter.saturating_sub(1) };
        predicted
    }
}

fn place(address: u64) -> usize {
    (address ^ address >> 14) as usize & (COUNTERS - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The state of a counter after a sequence of outcomes, computed from all outcomes.
    fn state(outcomes: &[bool]) -> i32 {
        outcomes.iter().fold(1, |state, taken| (state + if *taken { 1 } else { -1 }).clamp(0, 3))
    }

    #[test]
    fn predictions_are_those_of_all_outcomes_at_the_same_place() {
        let mut predictor = Bimodal::default();
        let mut outcomes: HashMap<u64, Vec<bool>> = HashMap::new();
        let mut seed = 5u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            let address = 0x5555_0000_0000 + (seed >> 40) % 64 * 0x1001;
            let is_taken = seed >> 33 & 3 != address & 3;
            let before = outcomes.entry((address ^ address / 16384) % 16384).or_default();
            assert_eq!(predictor.predict(address, is_taken), state(before) >= 2);
            before.push(is_taken);
        }
        assert_eq!(SIZE_BYTES, 4096);
    }
}
