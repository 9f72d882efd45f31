//! Accesses to counts per time slice.

use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Slice {
    reads: Bits<32>,
    writes: Bits<32>,
    clock: Bits<32>,
    clock_high: Bits<16>,
}

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Frequency {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Count an access.
    pub offer: Signal<In, Bit>,
    /// It is a WRITE.
    pub write: Signal<In, Bit>,
    /// Begin a new slice at `at`.
    pub restart: Signal<In, Bit>,
    /// When.
    pub at: Signal<In, Bits<32>>,
    /// When, high bits.
    pub at_high: Signal<In, Bits<16>>,
    /// The slice holds an access.
    pub counted: Signal<Out, Bit>,
    /// READs so far.
    pub reads: Signal<Out, Bits<32>>,
    /// WRITEs so far.
    pub writes: Signal<Out, Bits<32>>,
    /// First clock of the slice.
    pub first: Signal<Out, Bits<32>>,
    /// First clock, high bits.
    pub first_high: Signal<Out, Bits<16>>,
    /// Clocks from the first to `at`.
    pub length: Signal<Out, Bits<32>>,
    slice: DFF<Slice>,
}

impl Logic for Frequency {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, slice);
        self.counted.next = (self.slice.q.val().reads != 0) | (self.slice.q.val().writes != 0);
        self.reads.next = self.slice.q.val().reads;
        self.writes.next = self.slice.q.val().writes;
        self.first.next = self.slice.q.val().clock;
        self.first_high.next = self.slice.q.val().clock_high;
        self.length.next = self.at.val() - self.slice.q.val().clock;
        if self.restart.val() {
            self.slice.d.next.reads = bits::<32>(0);
            self.slice.d.next.writes = bits::<32>(0);
            self.slice.d.next.clock = self.at.val();
            self.slice.d.next.clock_high = self.at_high.val();
        } else if self.offer.val() {
            if self.write.val() {
                self.slice.d.next.writes = self.slice.q.val().writes + 1;
            } else {
                self.slice.d.next.reads = self.slice.q.val().reads + 1;
            }
        }
    }
}
