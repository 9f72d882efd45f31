//! Items to the totals that reports carry.

use rust_hdl::prelude::*;

use crate::config::{Item, ItemKind};

/// Totals since power-on of what was seen while capturing.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Totals {
    /// READs, low 32 bits.
    pub reads: Bits<32>,
    /// READs, high 32 bits.
    pub reads_high: Bits<32>,
    /// WRITEs, low 32 bits.
    pub writes: Bits<32>,
    /// WRITEs, high 32 bits.
    pub writes_high: Bits<32>,
    /// Faults.
    pub faults: Bits<32>,
    /// Tags and marks.
    pub tags: Bits<32>,
}

/// See the module's description.
#[derive(LogicBlock, Default)]
pub struct Counters {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// The item being taken.
    pub item: Signal<In, Item>,
    /// It is being taken.
    pub taken: Signal<In, Bit>,
    /// Totals of all items taken before.
    pub totals: Signal<Out, Totals>,
    counted: DFF<Totals>,
    is_access: Signal<Local, Bit>,
    reads: Signal<Local, Bits<32>>,
    writes: Signal<Local, Bits<32>>,
}

impl Logic for Counters {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, counted);
        self.totals.next = self.counted.q.val();
        self.is_access.next = (self.item.val().kind == ItemKind::Access)
            | (self.item.val().kind == ItemKind::WindowTag);
        self.reads.next = self.counted.q.val().reads + 1;
        self.writes.next = self.counted.q.val().writes + 1;
        if self.taken.val() {
            if self.is_access.val() {
                if self.item.val().write {
                    self.counted.d.next.writes = self.writes.val();
                    if self.writes.val() == 0 {
                        self.counted.d.next.writes_high = self.counted.q.val().writes_high + 1;
                    }
                } else {
                    self.counted.d.next.reads = self.reads.val();
                    if self.reads.val() == 0 {
                        self.counted.d.next.reads_high = self.counted.q.val().reads_high + 1;
                    }
                }
            }
            if self.item.val().kind == ItemKind::Fault {
                self.counted.d.next.faults = self.counted.q.val().faults + 1;
            }
            if (self.item.val().kind == ItemKind::WindowTag)
                | (self.item.val().kind == ItemKind::Mark)
            {
                self.counted.d.next.tags = self.counted.q.val().tags + 1;
            }
        }
    }
}
