//! Detects in the transmit domain whether the DDR clock runs.
//!
//! A flip-flop of the DDR domain toggles every [`TOGGLE_CLOCKS`] clocks, slowly enough for the
//! transmit clock to sample it at any DDR speed. Without a change for [`LOST_AFTER`] transmit
//! clocks the DDR clock is lost; at the next change it is found again.
//!
//! ```text
//! ddr_clock  -> divider -> toggle --2 FF--> changed -> [silent for 1024] -> lost
//! ```

use rust_hdl::prelude::*;

use crate::reset::{ClearedRegister, Domain, Register};

/// DDR clocks between two changes: 10 ns at 1.6 GHz, longer than a transmit clock.
pub const TOGGLE_CLOCKS: usize = 16;
/// Transmit clocks without a change after which the clock counts as lost: 8.2 us.
pub const LOST_AFTER: usize = 1024;

/// Returns whether the transmit clock can detect the DDR clock, for clocks of these periods in
/// picoseconds.
///
/// The flip-flop has a period of `2 * TOGGLE_CLOCKS` DDR clocks. If the transmit period is a
/// multiple of that, samples never differ; if it is near a multiple, they differ too rarely.
pub fn sees(tck_ps: u32, tx_period_ps: u32) -> bool {
    let period = 2 * TOGGLE_CLOCKS as u64 * u64::from(tck_ps);
    let past = u64::from(tx_period_ps) % period;
    // The phase by which a sample differs from the one before. A sample changes when these phases
    // add up to half a period.
    let drift = past.min(period - past);
    // So the samples change at least twice in `LOST_AFTER` clocks, where once suffices.
    drift * LOST_AFTER as u64 > period
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct ClockWatch {
    /// The watched clock. The registers that it drives here have no reset: they work from any
    /// state.
    pub ddr_clock: Signal<In, Clock>,
    /// Transmit clock.
    pub tx_clock: Signal<In, Domain>,
    /// The DDR clock is stopped.
    pub lost: Signal<Out, Bit>,
    /// The sampled flip-flop has changed.
    pub changed: Signal<Out, Bit>,
    divider: DFF<Bits<4>>,
    divider_full: DFF<Bit>,
    toggle: DFF<Bit>,
    sampled: Register<Bit>,
    stable: Register<Bit>,
    seen: Register<Bit>,
    change: Register<Bit>,
    silent: ClearedRegister<Bits<10>>,
    silent_full: Register<Bit>,
    is_lost: Register<Bit>,
    toggle_last: Constant<Bits<4>>,
    silence_last: Constant<Bits<10>>,
}

impl Default for ClockWatch {
    fn default() -> Self {
        block! {
            Self {
                toggle_last: Constant::new((TOGGLE_CLOCKS as u64 - 1).into()),
                silence_last: Constant::new((LOST_AFTER as u64 - 1).into()),
            }
            default: ddr_clock, tx_clock, lost, changed, divider, divider_full, toggle, sampled,
                stable, seen, change, silent, silent_full, is_lost
        }
    }
}

impl Logic for ClockWatch {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, ddr_clock, divider, divider_full, toggle);
        dff_setup!(self, tx_clock, sampled, stable, seen, change, silent, silent_full, is_lost);
        self.divider.d.next = self.divider.q.val() + 1;
        self.divider_full.d.next = self.divider.q.val() == self.toggle_last.val();
        if self.divider_full.q.val() {
            self.toggle.d.next = !self.toggle.q.val();
        }
        self.sampled.d.next = self.toggle.q.val();
        self.stable.d.next = self.sampled.q.val();
        self.seen.d.next = self.stable.q.val();
        self.change.d.next = self.stable.q.val() ^ self.seen.q.val();
        self.silent.d.next = self.silent.q.val() + 1;
        self.silent_full.d.next = self.silent.q.val() == self.silence_last.val();
        if self.silent_full.q.val() {
            self.is_lost.d.next = true;
        }
        if self.change.q.val() {
            self.silent.d.next = bits::<10>(0);
            self.silent_full.d.next = false;
            self.is_lost.d.next = false;
        }
        self.lost.next = self.is_lost.q.val();
        self.changed.next = self.change.q.val();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transmit_period_of_32_ddr_clocks_hides_the_ddr_clock() {
        for (tck_ps, tx_period_ps) in [(10_000, 320_000), (10_000, 1_600_000), (2_500, 80_000)] {
            assert!(!sees(tck_ps, tx_period_ps), "{tck_ps} {tx_period_ps}");
            // A 1024th of a period away the samples change every 512 clocks, which `sees` does not
            // accept.
            let least = 32 * tck_ps / 1024;
            assert!(!sees(tck_ps, tx_period_ps + least) && !sees(tck_ps, tx_period_ps - least));
            assert!(
                sees(tck_ps, tx_period_ps + least + 1) && sees(tck_ps, tx_period_ps - least - 1)
            );
        }
        for tck_ps in [625, 1_250, 2_500, 5_000, 10_000] {
            assert!(sees(tck_ps, 8_000), "{tck_ps}");
        }
        assert!(sees(10_000, 26_666) && sees(10_000, 80_000) && sees(10_000, 400_000));
    }
}
