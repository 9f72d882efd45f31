//! The DDR clock, as seen from the transmit domain: running or lost.
//!
//! A flip-flop of the DDR domain changes every [`TOGGLE_CLOCKS`], slowly enough to be sampled by the
//! transmit clock at any DDR speed. While it changes the clock runs; without a change for
//! [`LOST_AFTER`] transmit clocks it is lost, from the next change on it is found again.
//!
//! ```text
//! ddr_clock  -> divider -> toggle --2 FF--> changed -> [silent for 1024] -> lost
//! ```

use rust_hdl::prelude::*;

use crate::reset::{ClearedRegister, Domain, Register};

/// DDR clocks between changes: 10 ns at 1.6 GHz, longer than a transmit clock.
pub const TOGGLE_CLOCKS: usize = 16;
/// Transmit clocks without a change after which the clock counts as lost: 8.2 us.
pub const LOST_AFTER: usize = 1024;

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct ClockWatch {
    /// The watched clock. What it drives here is never reset: it works from any state.
    pub ddr_clock: Signal<In, Clock>,
    /// Transmit clock.
    pub tx_clock: Signal<In, Domain>,
    /// The DDR clock stands still.
    pub lost: Signal<Out, Bit>,
    /// The flip-flop was seen to change.
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
}

impl Logic for ClockWatch {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, ddr_clock, divider, divider_full, toggle);
        dff_setup!(self, tx_clock, sampled, stable, seen, change, silent, silent_full, is_lost);
        self.divider.d.next = self.divider.q.val() + 1;
        self.divider_full.d.next = self.divider.q.val() == 0xf;
        if self.divider_full.q.val() {
            self.toggle.d.next = !self.toggle.q.val();
        }
        self.sampled.d.next = self.toggle.q.val();
        self.stable.d.next = self.sampled.q.val();
        self.seen.d.next = self.stable.q.val();
        self.change.d.next = self.stable.q.val() ^ self.seen.q.val();
        self.silent.d.next = self.silent.q.val() + 1;
        self.silent_full.d.next = self.silent.q.val() == 0x3ff;
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
