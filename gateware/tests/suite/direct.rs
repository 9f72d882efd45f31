//! Simulates a single block directly, and generates seeded values as its inputs.

use fastrand::Rng;
use gateware::reset::Domain;
use rust_hdl::prelude::*;

/// Maximum number of passes, larger than the number of blocks on the longest combinational path.
const SETTLE_PASSES: usize = 100;

/// Connects a block and settles it, so that its first edge samples only computed values.
pub fn settled<B: Block>(mut block: B) -> B {
    block.connect_all();
    check_all(&block).expect("the wiring is complete");
    settle(&mut block);
    block
}

/// Lets inputs travel to outputs.
pub fn settle<B: Block>(block: &mut B) {
    assert!(simulate(block, SETTLE_PASSES), "the block settles");
}

/// An input that a clock drives.
pub trait ClockInput {
    /// Sets the clock's level.
    fn drive(&mut self, clk: bool);

    /// Sets the reset, if there is one.
    fn reset(&mut self, on: bool);
}

impl ClockInput for Signal<In, Clock> {
    fn drive(&mut self, clk: bool) {
        self.next = Clock { clk };
    }

    fn reset(&mut self, _: bool) {}
}

impl ClockInput for Signal<In, Domain> {
    fn drive(&mut self, clk: bool) {
        self.next.clk = Clock { clk };
    }

    fn reset(&mut self, on: bool) {
        (self.next.reset, self.next.clear) = (on, on);
    }
}

/// Settles what was set and gives one clock, rising edge first.
pub fn pulse<B: Block, C: ClockInput>(block: &mut B, clock: fn(&mut B) -> &mut C) {
    settle(block);
    for clk in [true, false] {
        clock(block).drive(clk);
        settle(block);
    }
}

/// Returns a value of `width` bits: often zero, all ones, one bit, a run of ones or a small number,
/// since errors are likely there.
pub fn spread(rng: &mut Rng, width: u32) -> u64 {
    let value = match rng.u8(0..8) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << rng.u32(0..width),
        3 => (1 << rng.u32(0..width)) - 1,
        4 | 5 => rng.u64(0..4),
        _ => rng.u64(..),
    };
    value & u64::MAX >> (64 - width)
}

/// Returns true with a probability of `percent`.
pub fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

/// Prints the seed of a failing test.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// Runs a test body with several seeds, and prints the seed that fails.
pub fn with_seeds(seeds: std::ops::Range<u64>, body: impl Fn(&mut Rng)) {
    for seed in seeds {
        let _named = Seed(seed);
        body(&mut Rng::with_seed(seed));
    }
}
