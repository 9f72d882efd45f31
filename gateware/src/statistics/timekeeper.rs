//! Sums the gaps between items to the clock of the slot.
//!
//! `gap` is added on each clock with `passes`. The sum is computed in two halves, so `now` is valid
//! two clocks after the last item.

use rust_hdl::prelude::*;

use super::SlotClock;
use crate::reset::{Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct Timekeeper {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Add `gap` clocks.
    pub passes: Signal<In, Bit>,
    /// Clocks to add.
    pub gap: Signal<In, Bits<32>>,
    /// Set the time to `set_to` instead.
    pub set: Signal<In, Bit>,
    /// The time to set.
    pub set_to: Signal<In, SlotClock>,
    /// The time.
    pub now: Signal<Out, SlotClock>,
    low: Register<Bits<24>>,
    high: Register<Bits<24>>,
    more: Register<Bits<2>>,
    sum: Signal<Local, Bits<27>>,
    low_bits: Constant<Bits<5>>,
}

impl Default for Timekeeper {
    fn default() -> Self {
        block! {
            Self {
                low_bits: Constant::new(u64::from(SlotClock::LOW_BITS).into()),
            }
            default: clock, passes, gap, set, set_to, now, low, high, more, sum
        }
    }
}

impl Logic for Timekeeper {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, low, high, more);
        self.sum.next = bit_cast::<27, 24>(self.low.q.val()) + bit_cast::<27, 32>(self.gap.val());
        self.more.d.next = bits::<2>(0);
        self.high.d.next = self.high.q.val() + bit_cast::<24, 2>(self.more.q.val());
        if self.passes.val() {
            self.low.d.next = self.sum.val().get_bits::<24>(0);
            self.more.d.next = self.sum.val().get_bits::<2>(self.low_bits.val().index());
        }
        if self.set.val() {
            self.low.d.next = self.set_to.val().low;
            self.high.d.next = self.set_to.val().high;
            self.more.d.next = bits::<2>(0);
        }
        self.now.next.low = self.low.q.val();
        self.now.next.high = self.high.q.val();
    }
}
