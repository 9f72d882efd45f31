//! Accesses to page runs: one record for each run of consecutive accesses to one page.
//!
//! A run ends with an access to another page, with any other record (tag, mark, fault), when one of
//! its counts is full, or when it has lasted the longest time a record can hold.

use hmtt_format::record::{RUN_COUNT_LIMIT, RUN_DURATION_LIMIT};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Run {
    valid: Bit,
    segment: Bits<12>,
    number: Bits<26>,
    reads: Bits<20>,
    writes: Bits<20>,
    duration: Bits<24>,
    clock: Bits<32>,
    clock_high: Bits<16>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct PageTrace {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Take the access on the ports below.
    pub offer: Signal<In, Bit>,
    /// Forget the run; it was recorded.
    pub flush: Signal<In, Bit>,
    /// It is a WRITE.
    pub write: Signal<In, Bit>,
    /// High bits of its page number.
    pub segment: Signal<In, Bits<12>>,
    /// Low bits of its page number.
    pub number: Signal<In, Bits<26>>,
    /// When.
    pub at: Signal<In, Bits<32>>,
    /// When, high bits.
    pub at_high: Signal<In, Bits<16>>,
    /// There is a run.
    pub waiting: Signal<Out, Bit>,
    /// The access on the ports does not belong to the run.
    pub replaces: Signal<Out, Bit>,
    /// The run can take no more at `at`.
    pub stale: Signal<Out, Bit>,
    /// Run: high bits of the page number.
    pub out_segment: Signal<Out, Bits<12>>,
    /// Run: low bits of the page number.
    pub out_number: Signal<Out, Bits<26>>,
    /// Run: READs.
    pub out_reads: Signal<Out, Bits<32>>,
    /// Run: WRITEs.
    pub out_writes: Signal<Out, Bits<32>>,
    /// Run: clocks from first to last access.
    pub out_duration: Signal<Out, Bits<32>>,
    /// Run: clock of its first access.
    pub out_clock: Signal<Out, Bits<32>>,
    /// Run: clock, high bits.
    pub out_clock_high: Signal<Out, Bits<16>>,
    run: DFF<Run>,
    age: Signal<Local, Bits<32>>,
    same: Signal<Local, Bit>,
    overdue: Signal<Local, Bit>,
    count_limit: Constant<Bits<20>>,
    duration_limit: Constant<Bits<32>>,
}

impl Default for PageTrace {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            offer: Default::default(),
            flush: Default::default(),
            write: Default::default(),
            segment: Default::default(),
            number: Default::default(),
            at: Default::default(),
            at_high: Default::default(),
            waiting: Default::default(),
            replaces: Default::default(),
            stale: Default::default(),
            out_segment: Default::default(),
            out_number: Default::default(),
            out_reads: Default::default(),
            out_writes: Default::default(),
            out_duration: Default::default(),
            out_clock: Default::default(),
            out_clock_high: Default::default(),
            run: Default::default(),
            age: Default::default(),
            same: Default::default(),
            overdue: Default::default(),
            count_limit: Constant::new(u64::from(RUN_COUNT_LIMIT).into()),
            duration_limit: Constant::new(u64::from(RUN_DURATION_LIMIT).into()),
        }
    }
}

impl Logic for PageTrace {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, run);
        self.age.next = self.at.val() - self.run.q.val().clock;
        self.overdue.next = self.age.val() >= self.duration_limit.val();
        self.stale.next = self.run.q.val().valid & self.overdue.val();
        self.same.next = (self.segment.val() == self.run.q.val().segment)
            & (self.number.val() == self.run.q.val().number)
            & (self.run.q.val().reads != self.count_limit.val())
            & (self.run.q.val().writes != self.count_limit.val())
            & !self.overdue.val();
        self.waiting.next = self.run.q.val().valid;
        self.replaces.next = self.run.q.val().valid & !self.same.val();
        self.out_segment.next = self.run.q.val().segment;
        self.out_number.next = self.run.q.val().number;
        self.out_reads.next = bit_cast::<32, 20>(self.run.q.val().reads);
        self.out_writes.next = bit_cast::<32, 20>(self.run.q.val().writes);
        self.out_duration.next = bit_cast::<32, 24>(self.run.q.val().duration);
        self.out_clock.next = self.run.q.val().clock;
        self.out_clock_high.next = self.run.q.val().clock_high;
        if self.offer.val() {
            if self.run.q.val().valid & self.same.val() {
                self.run.d.next.duration = self.age.val().get_bits::<24>(0);
                if self.write.val() {
                    self.run.d.next.writes = self.run.q.val().writes + 1;
                } else {
                    self.run.d.next.reads = self.run.q.val().reads + 1;
                }
            } else {
                self.run.d.next.valid = true;
                self.run.d.next.segment = self.segment.val();
                self.run.d.next.number = self.number.val();
                self.run.d.next.duration = bits::<24>(0);
                self.run.d.next.clock = self.at.val();
                self.run.d.next.clock_high = self.at_high.val();
                self.run.d.next.reads = bits::<20>(1);
                self.run.d.next.writes = bits::<20>(0);
                if self.write.val() {
                    self.run.d.next.reads = bits::<20>(0);
                    self.run.d.next.writes = bits::<20>(1);
                }
            }
        } else if self.flush.val() {
            self.run.d.next.valid = false;
        }
    }
}
