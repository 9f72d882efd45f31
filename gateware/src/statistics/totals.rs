//! Counts the totals that reports carry. Items come from the traces.

use rust_hdl::prelude::*;

use super::{Observed, Totals};
use crate::reset::{Domain, Register};

/// See the module's description.
#[derive(LogicBlock)]
pub struct TotalsCounter {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// The item that passes.
    pub observed: Signal<In, Observed>,
    /// Number of faults that the state machine could not report.
    pub unreported: Signal<In, Bits<8>>,
    /// Burst length in force in the state machine.
    pub burst: Signal<In, Bits<2>>,
    /// Totals, two clocks late. The values from the state machine are not late.
    pub totals: Signal<Out, Totals>,
    counted: Register<Totals>,
    reads_wrap: Register<Bit>,
    writes_wrap: Register<Bit>,
    ones: Constant<Bits<32>>,
}

impl Default for TotalsCounter {
    fn default() -> Self {
        block! {
            Self {
                ones: Constant::new(0xffff_ffff_u64.into()),
            }
            default: clock, observed, unreported, burst, totals, counted, reads_wrap, writes_wrap
        }
    }
}

impl Logic for TotalsCounter {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, counted, reads_wrap, writes_wrap);
        self.totals.next = self.counted.q.val();
        self.totals.next.unreported = self.unreported.val();
        self.totals.next.burst = self.burst.val();
        self.reads_wrap.d.next = false;
        self.writes_wrap.d.next = false;
        if self.observed.val().access {
            if self.observed.val().write {
                self.counted.d.next.writes = self.counted.q.val().writes + 1;
                self.writes_wrap.d.next = self.counted.q.val().writes == self.ones.val();
            } else {
                self.counted.d.next.reads = self.counted.q.val().reads + 1;
                self.reads_wrap.d.next = self.counted.q.val().reads == self.ones.val();
            }
        }
        if self.reads_wrap.q.val() {
            self.counted.d.next.reads_high = self.counted.q.val().reads_high + 1;
        }
        if self.writes_wrap.q.val() {
            self.counted.d.next.writes_high = self.counted.q.val().writes_high + 1;
        }
        if self.observed.val().fault {
            self.counted.d.next.faults = self.counted.q.val().faults + 1;
        }
        if self.observed.val().tag | self.observed.val().mark {
            self.counted.d.next.tags = self.counted.q.val().tags + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the totals after some clocks with the same item in each.
    fn counted(from: Totals, observed: Observed, clocks: u32) -> Totals {
        let mut counter = TotalsCounter::default();
        counter.connect_all();
        counter.counted.q.next = from;
        counter.observed.next = observed;
        assert!(simulate(&mut counter, 10));
        for clock in 0..clocks + 2 {
            if clock == clocks {
                counter.observed.next = Observed::default();
            }
            for clk in [true, false] {
                counter.clock.next = Domain::clocked(clk);
                assert!(simulate(&mut counter, 10));
            }
        }
        counter.totals.val()
    }

    #[test]
    fn accesses_carry_into_the_high_half() {
        let from = Totals {
            reads: 0xffff_fffe_u64.into(),
            reads_high: 6u64.into(),
            writes: 0xffff_ffff_u64.into(),
            writes_high: 0xffff_ffff_u64.into(),
            ..Default::default()
        };
        for write in [false, true] {
            let totals = counted(from, Observed { access: true, write, ..Default::default() }, 3);
            let [reads, writes] =
                [(totals.reads_high, totals.reads), (totals.writes_high, totals.writes)]
                    .map(|(high, low)| high.to_u64() << 32 | low.to_u64());
            let expected =
                if write { (0x6_ffff_fffe, 2) } else { (0x7_0000_0001, 0xffff_ffff_ffff_ffff) };
            assert_eq!((reads, writes), expected);
        }
    }

    #[test]
    fn faults_tags_and_marks_are_counted() {
        let seen = Observed { fault: true, tag: true, ..Default::default() };
        let totals = counted(Totals::default(), seen, 5);
        assert_eq!((totals.faults.to_u64(), totals.tags.to_u64()), (5, 5));
        let seen = Observed { mark: true, ..Default::default() };
        let totals = counted(totals, seen, 2);
        assert_eq!((totals.faults.to_u64(), totals.tags.to_u64()), (5, 7));
        assert_eq!((totals.reads.to_u64(), totals.writes.to_u64()), (0, 0));
    }
}
