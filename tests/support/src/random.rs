//! Generates random numbers that are the same in each run.

/// Marsaglia's xorshift64.
#[derive(Clone, Debug)]
pub struct Xorshift {
    state: u64,
}

impl Xorshift {
    /// Starts the sequence of a seed, which is not 0.
    pub fn new(seed: u64) -> Self {
        Xorshift { state: seed }
    }

    /// Returns the next number. It is never 0.
    pub fn number(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.number() >> 8) % limit.max(1) as u64) as usize
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        (self.number() >> 32) as u8
    }
}
