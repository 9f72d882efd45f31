//! Queues events while the configuration unit processes an earlier one.
//!
//! The event source stores at most one event in each clock, and the configuration unit takes one in each clock unless
//! it is a control event. So the queue is nearly empty most of the time. Each event leaves it with the number of
//! clocks since the event before, so no later stage needs a clock counter.
//!
//! When the queue fills:
//!
//! - Accesses and faults are counted instead of stored. The last [`RESERVED`] entries are reserved for control events
//!   (ticks, ends of slices, the run switch) and for completed commands.
//! - The count follows in order as an `overrun`: in the next control event, or in an event of its own
//!   once there is space. So it is recorded before the run switch ends the capture.
//! - When only [`RESERVED_FOR_TICKS`] entries are left, the end of a slice is not stored: the slice continues, and its
//!   record states its length. A completed command is lost then, and the next overrun says so.
//! - A command may be stored without the access that completes it. No overrun counts that access. It belongs between
//!   the control event of its clock and its command, so the configuration unit counts it.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! write         <A >
//! read.valid                <A .... until popped
//! ```

use rust_hdl::prelude::*;

use super::SlotEvent;
use super::event_ports::{EventRead, EventWrite};
use crate::fifo::block_ram::BlockRam;
use crate::reset::{Domain, Register};

/// log2 of the number of events that fit.
pub const DEPTH_LOG2: usize = 8;
/// Entries reserved for control events and for commands.
pub const RESERVED: u64 = 32;
/// Reserved entries that only ticks and changes of the run switch get.
pub const RESERVED_FOR_TICKS: u64 = 12;
/// Most faults that one overrun can count.
pub const MAX_MISSED_FAULTS: u64 = 63;
/// Place of the bit of an overrun's `high` that says that a command was lost.
pub const COMMAND_LOST_AT: u64 = 7;
/// Bit of an overrun's `high`: a command was lost.
pub const COMMAND_LOST: u64 = 1 << COMMAND_LOST_AT;
/// Place of `row_state` in the register of a command that is kept without its access; `bank` has the bits below.
pub const COMMAND_ROW_STATE_AT: u64 = 6;
/// Place of `write` in that register.
pub const COMMAND_WRITE_AT: u64 = 8;

/// See the module's description.
#[derive(LogicBlock)]
pub struct EventQueue {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Write port.
    pub write: EventWrite,
    /// Read port.
    pub read: EventRead,
    events: BlockRam<SlotEvent, DEPTH_LOG2>,
    entry: Register<SlotEvent>,
    writes_entry: Register<Bit>,
    write_at: Register<Bits<8>>,
    read_at: Register<Bits<8>>,
    read_after: Signal<Local, Bits<8>>,
    read_next: Signal<Local, Bits<8>>,
    used: Signal<Local, Bits<8>>,
    any: Signal<Local, Bit>,
    another: Signal<Local, Bit>,
    overflows: Register<Bit>,
    nearly_full: Register<Bit>,
    valid: Register<Bit>,
    /// An event was removed in the clock before.
    popped: Register<Bit>,
    /// More than 0, 1 and 2 events are stored, if none was removed in the clock before.
    holds_one: Register<Bit>,
    holds_two: Register<Bit>,
    holds_three: Register<Bit>,
    write_next: Signal<Local, Bits<8>>,
    read_beyond: Signal<Local, Bits<8>>,
    /// Clocks since the last stored event; the first one counts from clock 0.
    since: Register<Bits<16>>,
    missed: Register<Bits<32>>,
    missed_faults: Register<Bits<8>>,
    has_missed: Register<Bit>,
    missed_command: Register<Bit>,
    counts_missed: Signal<Local, Bit>,
    is_control: Signal<Local, Bit>,
    store: Signal<Local, Bit>,
    stores_overrun: Signal<Local, Bit>,
    overrun_fits: Signal<Local, Bit>,
    missed_access: Signal<Local, Bit>,
    missed_fault: Signal<Local, Bit>,
    keeps_command: Signal<Local, Bit>,
    loses_command: Signal<Local, Bit>,
    register_low: Signal<Local, Bits<9>>,
    command_lost: Constant<Bits<8>>,
    overflow_from: Constant<Bits<8>>,
    overflow_to: Constant<Bits<8>>,
    nearly_full_from: Constant<Bits<8>>,
    most_faults: Constant<Bits<8>>,
    row_state_place: Constant<Bits<4>>,
    write_place: Constant<Bits<4>>,
}

impl Default for EventQueue {
    fn default() -> Self {
        block! {
            Self {
                command_lost: Constant::new(COMMAND_LOST.into()),
                overflow_from: Constant::new(((1 << DEPTH_LOG2) - RESERVED).into()),
                overflow_to: Constant::new((1 << (DEPTH_LOG2 - 1)).into()),
                nearly_full_from: Constant::new(((1 << DEPTH_LOG2) - RESERVED_FOR_TICKS).into()),
                most_faults: Constant::new(MAX_MISSED_FAULTS.into()),
                row_state_place: Constant::new(COMMAND_ROW_STATE_AT.into()),
                write_place: Constant::new(COMMAND_WRITE_AT.into()),
            }
            default: clock, write, read, events, entry, writes_entry, write_at, read_at, read_after,
                read_next, used, any, another, overflows, nearly_full, valid, popped, holds_one,
                holds_two, holds_three, write_next, read_beyond, since, missed, missed_faults,
                has_missed, missed_command, counts_missed, is_control, store, stores_overrun,
                overrun_fits, missed_access, missed_fault, keeps_command, loses_command,
                register_low
        }
    }
}

impl Logic for EventQueue {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            entry,
            writes_entry,
            write_at,
            read_at,
            overflows,
            nearly_full,
            valid,
            popped,
            holds_one,
            holds_two,
            holds_three,
            since,
            missed,
            missed_faults,
            has_missed,
            missed_command
        );
        self.events.read_clock.next = self.clock.val();
        self.events.write_clock.next = self.clock.val();

        // Both possible addresses are known, so `pop` only selects one.
        self.read_after.next = self.read_at.q.val() + 1;
        self.read_next.next = self.read_at.q.val();
        if self.read.pop.val() {
            self.read_next.next = self.read_after.val();
        }
        // `pop` arrives late, so the addresses are compared a clock earlier, for both values of `pop`.
        self.popped.d.next = self.read.pop.val();
        self.write_next.next = self.write_at.q.val();
        if self.writes_entry.q.val() {
            self.write_next.next = self.write_at.q.val() + 1;
        }
        self.write_at.d.next = self.write_next.val();
        self.read_beyond.next = self.read_at.q.val() + 2;
        self.holds_one.d.next = self.read_at.q.val() != self.write_next.val();
        self.holds_two.d.next = self.read_after.val() != self.write_next.val();
        self.holds_three.d.next = self.read_beyond.val() != self.write_next.val();
        self.any.next = self.holds_one.q.val();
        self.another.next = self.holds_two.q.val();
        if self.popped.q.val() {
            self.any.next = self.holds_two.q.val();
            self.another.next = self.holds_three.q.val();
        }
        self.valid.d.next = self.any.val();
        if self.read.pop.val() {
            self.valid.d.next = self.another.val();
        }
        self.read_at.d.next = self.read_next.val();
        self.events.read_address.next = self.read_next.val();
        self.used.next = self.write_at.q.val() - self.read_at.q.val();
        // After overflow the queue drains to one half: one long gap instead of many short ones.
        self.overflows.d.next = (self.used.val() >= self.overflow_from.val())
            | (self.overflows.q.val() & (self.used.val() >= self.overflow_to.val()));
        self.nearly_full.d.next = self.used.val() >= self.nearly_full_from.val();
        self.is_control.next = self.write.slot_event.val().is_control;
        if self.nearly_full.q.val() {
            self.is_control.next =
                self.write.slot_event.val().tick | self.write.slot_event.val().run_change;
        }

        self.events.write_address.next = self.write_at.q.val();
        self.events.write_data.next = self.entry.q.val();
        self.events.write_enable.next = self.writes_entry.q.val();
        self.entry.d.next = self.write.slot_event.val();
        self.entry.d.next.gap = self.since.q.val();
        self.counts_missed.next = self.overflows.q.val() | self.has_missed.q.val();
        self.stores_overrun.next =
            self.has_missed.q.val() & !self.overflows.q.val() & !self.write.push.val();
        self.keeps_command.next = self.write.slot_event.val().command & !self.nearly_full.q.val();
        self.loses_command.next =
            self.write.push.val() & self.write.slot_event.val().command & self.nearly_full.q.val();
        self.store.next = self.stores_overrun.val()
            | (self.write.push.val()
                & (self.is_control.val() | self.keeps_command.val() | !self.counts_missed.val()));
        self.entry.d.next.command = self.keeps_command.val();
        self.register_low.next = self.write.register.val();
        if self.counts_missed.val() {
            // The overrun comes first, then the access of the command.
            self.entry.d.next.is_control =
                self.write.slot_event.val().is_control | self.keeps_command.val();
            self.entry.d.next.access = false;
            self.entry.d.next.fault = false;
            self.entry.d.next.write =
                self.register_low.val().get_bit(self.write_place.val().index());
            self.entry.d.next.row_state =
                self.register_low.val().get_bits::<2>(self.row_state_place.val().index());
            self.entry.d.next.bank = self.register_low.val().get_bits::<6>(0);
        }
        if self.nearly_full.q.val() {
            self.entry.d.next.slice = false;
        }
        if self.stores_overrun.val() {
            self.entry.d.next.run_change = false;
            self.entry.d.next.slice = false;
            self.entry.d.next.tick = false;
            self.entry.d.next.is_control = false;
            self.entry.d.next.command = false;
        }
        // The next event that is stored carries the count of all events that were not stored before it.
        if self.has_missed.q.val() {
            self.entry.d.next.overrun = true;
            self.entry.d.next.low = self.missed.q.val();
            self.entry.d.next.high = self.missed_faults.q.val();
            if self.missed_command.q.val() {
                self.entry.d.next.high = self.missed_faults.q.val() | self.command_lost.val();
            }
        }
        self.missed_access.next = self.counts_missed.val()
            & self.write.push.val()
            & self.write.slot_event.val().access
            & !self.keeps_command.val();
        self.missed_fault.next =
            self.counts_missed.val() & self.write.push.val() & self.write.slot_event.val().fault;
        if self.missed_access.val() {
            self.missed.d.next = self.missed.q.val() + 1;
        }
        if self.missed_fault.val() & (self.missed_faults.q.val() != self.most_faults.val()) {
            self.missed_faults.d.next = self.missed_faults.q.val() + 1;
        }
        // While events are counted, `store` implies this. An access or a fault in the same clock as a
        // control event comes after that event, so it begins the next count. The access of a stored command is not
        // counted.
        self.overrun_fits.next = !self.overflows.q.val();
        if self.write.push.val() {
            self.overrun_fits.next = self.is_control.val() | self.keeps_command.val();
        }
        if self.has_missed.q.val() & self.overrun_fits.val() {
            self.missed.d.next = bits::<32>(0);
            self.missed_faults.d.next = bits::<8>(0);
            self.has_missed.d.next = false;
            self.missed_command.d.next = false;
            if self.missed_access.val() {
                self.missed.d.next = bits::<32>(1);
            }
            if self.missed_fault.val() {
                self.missed_faults.d.next = bits::<8>(1);
            }
        }
        if self.missed_access.val() | self.missed_fault.val() {
            self.has_missed.d.next = true;
        }
        if self.loses_command.val() {
            self.missed_command.d.next = true;
        }
        self.writes_entry.d.next = self.store.val();
        if self.store.val() {
            self.since.d.next = bits::<16>(1);
        } else if self.write.clocked.val() {
            self.since.d.next = self.since.q.val() + 1;
        }
        self.read.head.next = self.events.read_data.val();
        self.read.valid.next = self.valid.q.val();
    }
}
