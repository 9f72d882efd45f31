//! Resets a PHY: low for a while after the transmit clock is steady, then high.
//!
//! The KSZ9031 needs 10 ms of reset after its supplies are stable; 2^21 clocks of 125 MHz are 16.8
//! ms. It samples its straps when the reset ends.

use rust_hdl::prelude::*;

use crate::reset::{Domain, Register};

/// 16.8 ms of 125 MHz.
const CLOCKS: u64 = 1 << 21;

/// See the module's description.
#[derive(LogicBlock)]
pub struct PhyReset {
    /// 125 MHz.
    pub clock: Signal<In, Domain>,
    /// Low while the PHY must stay in reset.
    pub reset_n: Signal<Out, Bit>,
    count: Register<Bits<22>>,
    passed: Register<Bit>,
    last: Constant<Bits<22>>,
}

impl PhyReset {
    /// Builds a reset of `clocks` clocks, 1 to 2^22.
    fn of(clocks: u64) -> Self {
        block! {
            Self {
                last: Constant::new((clocks - 1).into()),
            }
            default: clock, reset_n, count, passed
        }
    }
}

impl Default for PhyReset {
    fn default() -> Self {
        Self::of(CLOCKS)
    }
}

impl Logic for PhyReset {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, count, passed);
        self.count.d.next = self.count.q.val() + 1;
        if self.count.q.val() == self.last.val() {
            self.passed.d.next = true;
        }
        self.reset_n.next = self.passed.q.val();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reset_ends_once_after_its_clocks_and_stays_ended() {
        let mut block = PhyReset::of(16);
        block.connect_all();
        check_all(&block).expect("a sound block");
        assert!(simulate(&mut block, 100));
        // The level at each clock edge.
        let mut levels = Vec::new();
        for _ in 0..100 {
            levels.push(block.reset_n.val());
            for clk in [true, false] {
                block.clock.next = Domain::clocked(clk);
                assert!(simulate(&mut block, 100));
            }
        }
        let low = levels.iter().take_while(|&&level| !level).count();
        assert_eq!(low, 16);
        assert!(levels[low..].iter().all(|&level| level));
    }
}
