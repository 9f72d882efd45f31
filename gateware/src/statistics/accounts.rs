//! Keeps the values that a sync states: the clock of the last record, the number of accesses, the
//! number of lost records.
//!
//! The block writer strobes each count (`pass`, `account`, `lose`), each with its amount on the
//! same clock; the values go to the word port. Sums are computed in parts, so they are valid four
//! clocks after the last strobe.

use rust_hdl::prelude::*;

use super::SlotClock;
use super::timekeeper::Timekeeper;
use crate::reset::{ClearedRegister, Domain, Register};

/// Bits of `accesses_low`.
const LOW_BITS: u64 = 20;

/// See the module's description.
#[derive(LogicBlock)]
pub struct Accounts {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// `clocks` have been recorded.
    pub pass: Signal<In, Bit>,
    /// Clocks that have been recorded.
    pub clocks: Signal<In, Bits<25>>,
    /// Set the clock to `now` of the next clock.
    pub set_clock: Signal<In, Bit>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// `accesses` more have been recorded.
    pub account: Signal<In, Bit>,
    /// Accesses that have been recorded.
    pub accesses: Signal<In, Bits<32>>,
    /// `records` more have been lost.
    pub lose: Signal<In, Bit>,
    /// Records that have been lost.
    pub records: Signal<In, Bits<24>>,
    /// Clock of the last record.
    pub base: Signal<Out, SlotClock>,
    /// Accesses, bits 19..0.
    pub accesses_low: Signal<Out, Bits<20>>,
    /// Accesses, bits 39..20.
    pub accesses_high: Signal<Out, Bits<20>>,
    /// Lost records.
    pub lost: Signal<Out, Bits<24>>,
    /// A record has been lost since the reset.
    pub lossy: Signal<Out, Bit>,
    base_clock: Timekeeper,
    sets: Register<Bit>,
    passing: Register<Bits<25>>,
    passes: Register<Bit>,
    amount: ClearedRegister<Bits<32>>,
    accounting: Register<Bit>,
    loses: Register<Bit>,
    low: Register<Bits<20>>,
    high: Register<Bits<20>>,
    above: Register<Bits<13>>,
    carry: Register<Bits<1>>,
    beyond: ClearedRegister<Bits<12>>,
    amount_now: Signal<Local, Bits<32>>,
    sum: Signal<Local, Bits<21>>,
    losing: ClearedRegister<Bits<24>>,
    lost_records: Register<Bits<24>>,
    any_lost: Register<Bit>,
    low_bits: Constant<Bits<5>>,
}

impl Default for Accounts {
    fn default() -> Self {
        block! {
            Self {
                low_bits: Constant::new(LOW_BITS.into()),
            }
            default: clock, pass, clocks, set_clock, now, account, accesses, lose, records, base,
                accesses_low, accesses_high, lost, lossy, base_clock, sets,
                passing, passes, amount, accounting, loses, low, high,
                above, carry, beyond, amount_now, sum, losing, lost_records, any_lost
        }
    }
}

impl Logic for Accounts {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            sets,
            passing,
            passes,
            amount,
            accounting,
            loses,
            low,
            high,
            carry,
            beyond,
            above,
            losing,
            lost_records,
            any_lost
        );
        clock!(self, clock, base_clock);
        self.passes.d.next = self.pass.val();
        self.passing.d.next = self.clocks.val();
        self.base_clock.passes.next = self.passes.q.val();
        self.base_clock.gap.next = bit_cast::<32, 25>(self.passing.q.val());
        self.sets.d.next = self.set_clock.val();
        self.base_clock.set.next = self.sets.q.val();
        self.base_clock.set_to.next = self.now.val();
        self.base.next = self.base_clock.now.val();

        self.amount.d.next = self.accesses.val();
        self.accounting.d.next = self.account.val();
        self.carry.d.next = bits::<1>(0);
        self.beyond.d.next = bits::<12>(0);
        self.amount_now.next = self.amount.q.val();
        self.sum.next = bit_cast::<21, 20>(self.low.q.val())
            + bit_cast::<21, 20>(self.amount_now.val().get_bits::<20>(0));
        if self.accounting.q.val() {
            self.low.d.next = self.sum.val().get_bits::<20>(0);
            self.carry.d.next = self.sum.val().get_bits::<1>(self.low_bits.val().index());
            self.beyond.d.next = self.amount_now.val().get_bits::<12>(self.low_bits.val().index());
        }
        self.above.d.next =
            bit_cast::<13, 12>(self.beyond.q.val()) + bit_cast::<13, 1>(self.carry.q.val());
        self.high.d.next = self.high.q.val() + bit_cast::<20, 13>(self.above.q.val());
        self.accesses_low.next = self.low.q.val();
        self.accesses_high.next = self.high.q.val();

        self.losing.d.next = self.records.val();
        self.loses.d.next = self.lose.val();
        if self.loses.q.val() {
            self.lost_records.d.next = self.lost_records.q.val() + self.losing.q.val();
            self.any_lost.d.next = true;
        }
        self.lost.next = self.lost_records.q.val();
        self.lossy.next = self.any_lost.q.val();
    }
}
