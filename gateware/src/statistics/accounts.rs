//! What the block writer did to what a sync states of it: clock of the last record, accesses, lost
//! records.
//!
//! Sums are made in halves, so they stand three clocks after the last strobe.

use rust_hdl::prelude::*;

use super::SlotClock;
use super::timekeeper::Timekeeper;

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Accounts {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// `clocks` have been told.
    pub pass: Signal<In, Bit>,
    /// How many.
    pub clocks: Signal<In, Bits<25>>,
    /// Time is told from `now` on.
    pub set_clock: Signal<In, Bit>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// `accesses` more have been recorded.
    pub account: Signal<In, Bit>,
    /// How many.
    pub accesses: Signal<In, Bits<32>>,
    /// `records` more have been lost.
    pub lose: Signal<In, Bit>,
    /// How many.
    pub records: Signal<In, Bits<24>>,
    /// Clock of the last record.
    pub base: Signal<Out, SlotClock>,
    /// Accesses, bits 19..0.
    pub accesses_low: Signal<Out, Bits<20>>,
    /// Accesses, bits 39..20.
    pub accesses_high: Signal<Out, Bits<20>>,
    /// Lost records.
    pub lost: Signal<Out, Bits<24>>,
    /// A record was lost, ever.
    pub lossy: Signal<Out, Bit>,
    base_clock: Timekeeper,
    passing: DFF<Bits<25>>,
    passes: DFF<Bit>,
    amount: DFF<Bits<32>>,
    low: DFF<Bits<20>>,
    high: DFF<Bits<20>>,
    above: DFF<Bits<13>>,
    sum: Signal<Local, Bits<33>>,
    losing: DFF<Bits<24>>,
    gone: DFF<Bits<24>>,
    ever: DFF<Bit>,
}

impl Logic for Accounts {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, passing, passes, amount, low, high, above, losing, gone, ever);
        clock!(self, clock, base_clock);
        self.passes.d.next = self.pass.val();
        self.passing.d.next = self.clocks.val();
        self.base_clock.passes.next = self.passes.q.val();
        self.base_clock.gap.next = bit_cast::<32, 25>(self.passing.q.val());
        self.base_clock.set.next = self.set_clock.val();
        self.base_clock.set_to.next = self.now.val();
        self.base.next = self.base_clock.now.val();

        self.amount.d.next = bits::<32>(0);
        if self.account.val() {
            self.amount.d.next = self.accesses.val();
        }
        self.sum.next =
            bit_cast::<33, 20>(self.low.q.val()) + bit_cast::<33, 32>(self.amount.q.val());
        self.low.d.next = self.sum.val().get_bits::<20>(0);
        self.above.d.next = self.sum.val().get_bits::<13>(20);
        self.high.d.next = self.high.q.val() + bit_cast::<20, 13>(self.above.q.val());
        self.accesses_low.next = self.low.q.val();
        self.accesses_high.next = self.high.q.val();

        self.losing.d.next = bits::<24>(0);
        if self.lose.val() {
            self.losing.d.next = self.records.val();
            self.ever.d.next = true;
        }
        self.gone.d.next = self.gone.q.val() + self.losing.q.val();
        self.lost.next = self.gone.q.val();
        self.lossy.next = self.ever.q.val();
    }
}
