//! Counts the accesses of each time slice.
//!
//! Accesses come from the traces, one on each clock with `offer`. The block writer reads the counts
//! when the slice has ended. The configuration unit then begins the next slice with `restart`, on a
//! clock without an access.

use rust_hdl::prelude::*;

use super::{SliceCounts, SlotClock};
use crate::reset::{ClearedRegister, Domain, Register};

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Frequency {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Count an access.
    pub offer: Signal<In, Bit>,
    /// The access is a WRITE.
    pub write: Signal<In, Bit>,
    /// `gap` clocks pass.
    pub passes: Signal<In, Bit>,
    /// Clocks that pass.
    pub gap: Signal<In, Bits<16>>,
    /// Begin a new slice at `now`.
    pub restart: Signal<In, Bit>,
    /// Clock of the slot.
    pub now: Signal<In, SlotClock>,
    /// Clocks of a whole slice, less one.
    pub slice_last: Signal<In, Bits<32>>,
    /// The slice has an access.
    pub counted: Signal<Out, Bit>,
    /// READs and WRITEs of the slice.
    pub accesses: Signal<Out, Bits<32>>,
    /// Counts for the slice's record.
    pub counts: Signal<Out, SliceCounts>,
    count_reads: ClearedRegister<Bits<32>>,
    count_writes: ClearedRegister<Bits<32>>,
    count_all: ClearedRegister<Bits<32>>,
    clocks: ClearedRegister<Bits<32>>,
    first_clock: Register<SlotClock>,
    has_access: Register<Bit>,
    full_length: Register<Bits<32>>,
    is_partial: Register<Bit>,
}

impl Logic for Frequency {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            count_reads,
            count_writes,
            count_all,
            clocks,
            first_clock,
            has_access,
            full_length,
            is_partial
        );
        self.counted.next = self.has_access.q.val();
        self.counts.next.reads = self.count_reads.q.val();
        self.counts.next.writes = self.count_writes.q.val();
        self.accesses.next = self.count_all.q.val();
        self.counts.next.first = self.first_clock.q.val();
        self.counts.next.length = self.clocks.q.val();
        self.full_length.d.next = self.slice_last.val() + 1;
        self.is_partial.d.next = self.clocks.q.val() != self.full_length.q.val();
        self.counts.next.partial = self.is_partial.q.val();
        if self.passes.val() {
            self.clocks.d.next = self.clocks.q.val() + bit_cast::<32, 16>(self.gap.val());
        }
        if self.offer.val() {
            self.has_access.d.next = true;
            self.count_all.d.next = self.count_all.q.val() + 1;
            if self.write.val() {
                self.count_writes.d.next = self.count_writes.q.val() + 1;
            } else {
                self.count_reads.d.next = self.count_reads.q.val() + 1;
            }
        }
        if self.restart.val() {
            self.has_access.d.next = false;
            self.count_reads.d.next = bits::<32>(0);
            self.count_writes.d.next = bits::<32>(0);
            self.count_all.d.next = bits::<32>(0);
            self.clocks.d.next = bits::<32>(0);
            self.first_clock.d.next = self.now.val();
        }
    }
}
