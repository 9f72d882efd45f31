//! Bursts to line accesses: merges the bursts of one line into one record.
//!
//! A burst joins the pending access when it has the same direction and line, is a burst of the line
//! not seen yet, and comes within the merge window of the first one. Anything else makes the pending
//! access `ready` and takes its place. At burst granularity every burst is a unit of its own, so
//! nothing ever joins.

use hmtt_format::MemoryDescription;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Pending {
    valid: Bit,
    write: Bit,
    segment: Bits<12>,
    number: Bits<26>,
    parts: Bits<8>,
    clock: Bits<32>,
    clock_high: Bits<16>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct LineTrace {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Take the access on the ports below.
    pub offer: Signal<In, Bit>,
    /// Forget the pending access; it was recorded.
    pub flush: Signal<In, Bit>,
    /// It is a WRITE.
    pub write: Signal<In, Bit>,
    /// High bits of its unit number.
    pub segment: Signal<In, Bits<12>>,
    /// Low bits of its unit number.
    pub number: Signal<In, Bits<26>>,
    /// Which burst of the unit, one bit set.
    pub part: Signal<In, Bits<8>>,
    /// When.
    pub at: Signal<In, Bits<32>>,
    /// When, high bits.
    pub at_high: Signal<In, Bits<16>>,
    /// There is a pending access.
    pub waiting: Signal<Out, Bit>,
    /// The access on the ports does not join the pending one.
    pub replaces: Signal<Out, Bit>,
    /// The merge window of the pending access is over at `at`.
    pub stale: Signal<Out, Bit>,
    /// Pending access: it is a WRITE.
    pub out_write: Signal<Out, Bit>,
    /// Pending access: high bits of the unit number.
    pub out_segment: Signal<Out, Bits<12>>,
    /// Pending access: low bits of the unit number.
    pub out_number: Signal<Out, Bits<26>>,
    /// Pending access: clock of its first burst.
    pub out_clock: Signal<Out, Bits<32>>,
    /// Pending access: clock, high bits.
    pub out_clock_high: Signal<Out, Bits<16>>,
    pending: DFF<Pending>,
    age: Signal<Local, Bits<32>>,
    same: Signal<Local, Bit>,
    window: Constant<Bits<32>>,
}

impl LineTrace {
    /// A trace with the merge window of one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        Self {
            clock: Default::default(),
            offer: Default::default(),
            flush: Default::default(),
            write: Default::default(),
            segment: Default::default(),
            number: Default::default(),
            part: Default::default(),
            at: Default::default(),
            at_high: Default::default(),
            waiting: Default::default(),
            replaces: Default::default(),
            stale: Default::default(),
            out_write: Default::default(),
            out_segment: Default::default(),
            out_number: Default::default(),
            out_clock: Default::default(),
            out_clock_high: Default::default(),
            pending: Default::default(),
            age: Default::default(),
            same: Default::default(),
            window: Constant::new(u64::from(memory.merge_window).into()),
        }
    }
}

impl Logic for LineTrace {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, pending);
        self.age.next = self.at.val() - self.pending.q.val().clock;
        self.stale.next = self.pending.q.val().valid & (self.age.val() > self.window.val());
        self.same.next = (self.write.val() == self.pending.q.val().write)
            & (self.segment.val() == self.pending.q.val().segment)
            & (self.number.val() == self.pending.q.val().number)
            & ((self.part.val() & self.pending.q.val().parts) == 0)
            & (self.age.val() <= self.window.val());
        self.waiting.next = self.pending.q.val().valid;
        self.replaces.next = self.pending.q.val().valid & !self.same.val();
        self.out_write.next = self.pending.q.val().write;
        self.out_segment.next = self.pending.q.val().segment;
        self.out_number.next = self.pending.q.val().number;
        self.out_clock.next = self.pending.q.val().clock;
        self.out_clock_high.next = self.pending.q.val().clock_high;
        if self.offer.val() {
            if self.pending.q.val().valid & self.same.val() {
                self.pending.d.next.parts = self.pending.q.val().parts | self.part.val();
            } else {
                self.pending.d.next.valid = true;
                self.pending.d.next.write = self.write.val();
                self.pending.d.next.segment = self.segment.val();
                self.pending.d.next.number = self.number.val();
                self.pending.d.next.parts = self.part.val();
                self.pending.d.next.clock = self.at.val();
                self.pending.d.next.clock_high = self.at_high.val();
            }
        } else if self.flush.val() {
            self.pending.d.next.valid = false;
        }
    }
}
