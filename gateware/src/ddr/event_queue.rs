//! Events wait here while the statistics unit is busy with another one.
//!
//! The card makes at most one event a clock and needs more than one clock for few of them, so the
//! queue stays nearly empty. Should it fill, accesses and faults are counted instead of stored, and
//! the count follows in order as an `overrun` event; the last places are kept for events that steer
//! the card (ticks, slices, the run switch).
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_
//! push, event   <A >
//! head_valid            <A .... until popped
//! ```

use rust_hdl::prelude::*;

use super::SlotEvent;
use crate::fifo::block_ram::BlockRam;

/// log2 of the number of events that fit.
pub const DEPTH_LOG2: usize = 8;

/// See the module's description.
#[derive(LogicBlock)]
pub struct EventQueue {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Event to store.
    pub slot_event: Signal<In, SlotEvent>,
    /// Store it.
    pub push: Signal<In, Bit>,
    /// Oldest event.
    pub head: Signal<Out, SlotEvent>,
    /// There is one.
    pub head_valid: Signal<Out, Bit>,
    /// Drop it.
    pub pop: Signal<In, Bit>,
    events: BlockRam<SlotEvent, DEPTH_LOG2>,
    write_at: DFF<Bits<8>>,
    read_at: DFF<Bits<8>>,
    next_read: Signal<Local, Bits<8>>,
    used: Signal<Local, Bits<8>>,
    crowded: DFF<Bit>,
    valid: DFF<Bit>,
    missed: DFF<Bits<32>>,
    missed_faults: DFF<Bits<8>>,
    steers: Signal<Local, Bit>,
    store: Signal<Local, Bit>,
    crowded_from: Constant<Bits<8>>,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            slot_event: Default::default(),
            push: Default::default(),
            head: Default::default(),
            head_valid: Default::default(),
            pop: Default::default(),
            events: Default::default(),
            write_at: Default::default(),
            read_at: Default::default(),
            next_read: Default::default(),
            used: Default::default(),
            crowded: Default::default(),
            valid: Default::default(),
            missed: Default::default(),
            missed_faults: Default::default(),
            steers: Default::default(),
            store: Default::default(),
            crowded_from: Constant::new(((1 << DEPTH_LOG2) - 32).into()),
        }
    }
}

impl Logic for EventQueue {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, write_at, read_at, crowded, valid, missed, missed_faults);
        self.events.read_clock.next = self.clock.val();
        self.events.write_clock.next = self.clock.val();
        self.next_read.next = self.read_at.q.val();
        if self.pop.val() {
            self.next_read.next = self.read_at.q.val() + 1;
        }
        self.read_at.d.next = self.next_read.val();
        self.events.read_address.next = self.next_read.val();
        self.valid.d.next = self.next_read.val() != self.write_at.q.val();
        self.used.next = self.write_at.q.val() - self.read_at.q.val();
        self.crowded.d.next = self.used.val() >= self.crowded_from.val();

        self.steers.next = self.slot_event.val().run_change
            | self.slot_event.val().slice
            | self.slot_event.val().tick;
        self.events.write_address.next = self.write_at.q.val();
        self.events.write_data.next = self.slot_event.val();
        self.store.next = false;
        if self.crowded.q.val() {
            if self.push.val() {
                self.events.write_data.next.access = false;
                self.events.write_data.next.fault = false;
                self.store.next = self.steers.val();
                if self.slot_event.val().access {
                    self.missed.d.next = self.missed.q.val() + 1;
                }
                if self.slot_event.val().fault & (self.missed_faults.q.val() != 255) {
                    self.missed_faults.d.next = self.missed_faults.q.val() + 1;
                }
            }
        } else if self.push.val() {
            self.store.next = true;
        } else if (self.missed.q.val() != 0) | (self.missed_faults.q.val() != 0) {
            self.store.next = true;
            self.events.write_data.next.access = false;
            self.events.write_data.next.fault = false;
            self.events.write_data.next.run_change = false;
            self.events.write_data.next.slice = false;
            self.events.write_data.next.tick = false;
            self.events.write_data.next.overrun = true;
            self.events.write_data.next.low = self.missed.q.val();
            self.events.write_data.next.high = self.missed_faults.q.val();
            self.missed.d.next = bits::<32>(0);
            self.missed_faults.d.next = bits::<8>(0);
        }
        self.events.write_enable.next = self.store.val();
        if self.store.val() {
            self.write_at.d.next = self.write_at.q.val() + 1;
        }
        self.head.next = self.events.read_data.val();
        self.head_valid.next = self.valid.q.val();
    }
}
