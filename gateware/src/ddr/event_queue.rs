//! Queues events while the configuration unit processes an earlier one.
//!
//! The event source stores at most one event in each clock, and the configuration unit takes one in
//! each clock unless it is a control event. So the queue is nearly empty most of the time. Each
//! event leaves it with the number of clocks since the event before, so no later stage needs a
//! clock counter.
//!
//! When the queue fills:
//!
//! - Accesses and faults are counted instead of stored, unless the run switch is off. The last
//!   [`RESERVED`] entries are reserved for control events (ticks, ends of slices, the run switch)
//!   and for completed commands.
//! - The count follows in order as an `overrun`: in the next control event, or in an event of its
//!   own once there is space. So it is recorded before the run switch ends the capture.
//! - When only [`RESERVED_FOR_SWITCH`] entries are left, only changes of the run switch are stored.
//!   The slice continues, and its record states its length. A tick is left out. A completed command
//!   is lost, and the next overrun says so.
//! - When only [`NEVER_USED`] entries are left, nothing is stored. The queue knows the level of the
//!   switch that it stored last, and stores a change as soon as there is space. Accesses that wait
//!   for a start are counted after it. A stop and the start after it that both found no space are
//!   left out: one capture continues, and the overrun counts one more missed fault, so that the
//!   receiver sees a loss. A start and the stop after it are stored late, with such a loss.
//! - A command may be stored without the access that completes it. The configuration unit counts
//!   this access as missed, and no overrun counts it. The place of the access is after the control
//!   event of its clock and before its command.
//!
//! Without ticks, more clocks can pass than a gap holds. The queue counts each [`LAP_CLOCKS`]
//! clocks without an event as a lap. Once it has space, it stores a tick with that gap for each
//! lap, before any other event. After 2^[`LAPS_LOG2`] laps the clock of the next event is not known
//! any more. Then the queue stores nothing until the card restarts: it sends no event rather than
//! one with a wrong clock.
//!
//! Invariants, which are proved: the queue holds fewer than 256 events, and the gaps of all stored
//! events, the laps and the clocks of the present lap add up to the number of the present clock.
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
/// Reserved entries that are only for changes of the run switch.
pub const RESERVED_FOR_SWITCH: u64 = 12;
/// Entries that stay free. Two more events may be stored before the queue sees that only these are
/// left.
pub const NEVER_USED: u64 = 4;
/// Clocks of a lap: the most clocks between two ticks.
pub const LAP_CLOCKS: u64 = 1 << 15;
/// log2 of the number of laps after which the queue stores nothing: 21 s at 100 MHz.
pub const LAPS_LOG2: usize = 16;
/// Maximum number of faults that one overrun can count.
pub const MAX_MISSED_FAULTS: u64 = 63;
/// Place of the bit of an overrun's `high` that says that a command was lost.
pub const COMMAND_LOST_AT: u64 = 7;
/// Bit of an overrun's `high`: a command was lost.
pub const COMMAND_LOST: u64 = 1 << COMMAND_LOST_AT;
/// Position of `row_state` in the register of a command that is kept without its access. `bank`
/// holds the bits below this position.
pub const COMMAND_ROW_STATE_AT: u64 = 6;
/// Position of `write` in this register.
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
    full: Register<Bit>,
    valid: Register<Bit>,
    /// An event was removed in the clock before.
    popped: Register<Bit>,
    /// More than 0, more than 1 and more than 2 events are stored, if none was removed in the clock
    /// before.
    holds_one: Register<Bit>,
    holds_two: Register<Bit>,
    holds_three: Register<Bit>,
    write_next: Signal<Local, Bits<8>>,
    read_beyond: Signal<Local, Bits<8>>,
    /// Clocks since the last stored event or the last whole lap. The first count begins at clock 0.
    since: Register<Bits<16>>,
    /// Whole laps since the last stored event.
    laps: Register<Bits<17>>,
    /// `laps` is not 0.
    has_laps: Register<Bit>,
    /// A lap has ended in the clock before.
    lap_ended: Register<Bit>,
    /// Level of the run switch in the last stored change.
    run_stored: Register<Bit>,
    /// A change of the run switch waits for space.
    change_waits: Register<Bit>,
    /// A stop and a start that both found no space are not counted yet.
    passed_due: Register<Bit>,
    missed: Register<Bits<32>>,
    missed_faults: Register<Bits<8>>,
    has_missed: Register<Bit>,
    missed_command: Register<Bit>,
    since_now: Signal<Local, Bits<16>>,
    laps_now: Signal<Local, Bits<17>>,
    run: Signal<Local, Bit>,
    late_start: Signal<Local, Bit>,
    starts: Signal<Local, Bit>,
    stops: Signal<Local, Bit>,
    behind: Signal<Local, Bit>,
    changes: Signal<Local, Bit>,
    change_passes: Signal<Local, Bit>,
    pending: Signal<Local, Bit>,
    counts_missed: Signal<Local, Bit>,
    is_control: Signal<Local, Bit>,
    space: Signal<Local, Bit>,
    has_reserved: Signal<Local, Bit>,
    carries: Signal<Local, Bit>,
    stores_event: Signal<Local, Bit>,
    stores_lap: Signal<Local, Bit>,
    lap_passes: Signal<Local, Bit>,
    missed_access: Signal<Local, Bit>,
    missed_fault: Signal<Local, Bit>,
    counts_fault: Signal<Local, Bit>,
    keeps_command: Signal<Local, Bit>,
    loses_command: Signal<Local, Bit>,
    register_low: Signal<Local, Bits<9>>,
    command_lost: Constant<Bits<8>>,
    overflow_from: Constant<Bits<8>>,
    overflow_to: Constant<Bits<8>>,
    nearly_full_from: Constant<Bits<8>>,
    full_from: Constant<Bits<8>>,
    lap_clocks: Constant<Bits<16>>,
    lap_at: Constant<Bits<4>>,
    laps_end_at: Constant<Bits<5>>,
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
                nearly_full_from: Constant::new(((1 << DEPTH_LOG2) - RESERVED_FOR_SWITCH).into()),
                full_from: Constant::new(((1 << DEPTH_LOG2) - NEVER_USED).into()),
                lap_clocks: Constant::new(LAP_CLOCKS.into()),
                lap_at: Constant::new(u64::from(LAP_CLOCKS.trailing_zeros()).into()),
                laps_end_at: Constant::new((LAPS_LOG2 as u64).into()),
                most_faults: Constant::new(MAX_MISSED_FAULTS.into()),
                row_state_place: Constant::new(COMMAND_ROW_STATE_AT.into()),
                write_place: Constant::new(COMMAND_WRITE_AT.into()),
            }
            default: clock, write, read, events, entry, writes_entry, write_at, read_at, read_after,
                read_next, used, any, another, overflows, nearly_full, full, valid, popped,
                holds_one, holds_two, holds_three, write_next, read_beyond, since, laps, has_laps,
                lap_ended, run_stored, change_waits, passed_due, missed, missed_faults, has_missed,
                missed_command, since_now, laps_now, run, late_start, starts, stops, behind,
                changes, change_passes, pending, counts_missed, is_control, space, has_reserved,
                carries, stores_event, stores_lap, lap_passes, missed_access, missed_fault,
                counts_fault, keeps_command, loses_command, register_low
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
            full,
            valid,
            popped,
            holds_one,
            holds_two,
            holds_three,
            since,
            laps,
            has_laps,
            lap_ended,
            run_stored,
            change_waits,
            passed_due,
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
        // `pop` arrives late, so the addresses are compared a clock earlier, for both values of
        // `pop`.
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
        self.full.d.next = self.used.val() >= self.full_from.val();

        // Events are counted while the switch is on, so a start comes before their count.
        self.run.next = self.write.slot_event.val().run;
        self.late_start.next = !self.run_stored.q.val() & self.has_missed.q.val();
        self.starts.next = !self.run_stored.q.val() & (self.run.val() | self.has_missed.q.val());
        self.stops.next = self.run_stored.q.val() & !self.run.val();
        self.changes.next = self.starts.val() | self.stops.val();
        self.change_passes.next =
            self.change_waits.q.val() & self.write.clocked.val() & !self.changes.val();

        // These terms are short. They select what is stored and counted, and some of them depend on
        // inputs that arrive late.
        self.behind.next = self.has_laps.q.val() | self.lap_ended.q.val();
        self.pending.next = self.has_missed.q.val() | self.missed_command.q.val();
        self.counts_missed.next = self.overflows.q.val() | self.pending.val() | self.behind.val();
        self.space.next = self.write.clocked.val()
            & !self.behind.val()
            & !self.full.q.val()
            & !self.passed_due.q.val();
        self.is_control.next = self.write.push.val()
            & self.write.slot_event.val().is_control
            & !self.nearly_full.q.val();
        self.has_reserved.next = self.write.push.val()
            & (self.write.slot_event.val().is_control | self.write.slot_event.val().command)
            & !self.nearly_full.q.val();
        self.keeps_command.next = self.has_reserved.val()
            & self.write.slot_event.val().command
            & self.space.val()
            & !self.late_start.val();
        self.loses_command.next =
            self.write.push.val() & self.write.slot_event.val().command & !self.keeps_command.val();
        self.carries.next = self.space.val()
            & self.pending.val()
            & !self.starts.val()
            & (self.stops.val()
                | self.has_reserved.val()
                | (!self.overflows.q.val() & !self.write.push.val()));
        self.stores_event.next = self.space.val()
            & (self.changes.val()
                | self.has_reserved.val()
                | (!self.overflows.q.val() & (self.write.push.val() ^ self.pending.val())));
        self.laps_now.next = self.laps.q.val();
        self.stores_lap.next = self.write.clocked.val()
            & self.has_laps.q.val()
            & !self.overflows.q.val()
            & !self.laps_now.val().get_bit(self.laps_end_at.val().index());

        self.events.write_address.next = self.write_at.q.val();
        self.events.write_data.next = self.entry.q.val();
        self.events.write_enable.next = self.writes_entry.q.val();
        self.entry.d.next = self.write.slot_event.val();
        self.entry.d.next.gap = self.since.q.val();
        self.entry.d.next.is_control = self.changes.val() | self.is_control.val();
        self.entry.d.next.run_change = self.changes.val();
        self.entry.d.next.run = self.starts.val() | self.run.val();
        self.entry.d.next.command = self.keeps_command.val();
        self.register_low.next = self.write.register.val();
        if self.counts_missed.val() {
            // The overrun comes first, then the access of the command.
            self.entry.d.next.is_control =
                self.changes.val() | self.is_control.val() | self.keeps_command.val();
            self.entry.d.next.access = false;
            self.entry.d.next.fault = false;
            self.entry.d.next.write =
                self.register_low.val().get_bit(self.write_place.val().index());
            self.entry.d.next.row_state =
                self.register_low.val().get_bits::<2>(self.row_state_place.val().index());
            self.entry.d.next.bank = self.register_low.val().get_bits::<6>(0);
        }
        if self.nearly_full.q.val() | !self.write.push.val() {
            self.entry.d.next.slice = false;
            self.entry.d.next.tick = false;
        }
        // The next event that is stored carries the count of all events that were not stored before
        // it.
        if self.pending.val() {
            self.entry.d.next.overrun = !self.starts.val();
            self.entry.d.next.low = self.missed.q.val();
            self.entry.d.next.high = self.missed_faults.q.val();
            if self.missed_command.q.val() {
                self.entry.d.next.high = self.missed_faults.q.val() | self.command_lost.val();
            }
        }
        if self.behind.val() {
            self.entry.d.next.overrun = false;
            self.entry.d.next.gap = self.lap_clocks.val();
            self.entry.d.next.tick = true;
            self.entry.d.next.slice = false;
            self.entry.d.next.is_control = true;
            self.entry.d.next.run_change = false;
        }
        self.missed_access.next = self.counts_missed.val()
            & self.write.push.val()
            & self.write.slot_event.val().access
            & self.run.val()
            & !self.keeps_command.val();
        self.missed_fault.next = self.counts_missed.val()
            & self.write.push.val()
            & self.write.slot_event.val().fault
            & self.run.val();
        // A stop and a start without space are counted as one fault, in a clock in which no fault
        // is counted. Until then nothing is stored.
        self.counts_fault.next = self.missed_fault.val() | self.passed_due.q.val();
        self.passed_due.d.next =
            self.change_passes.val() | (self.passed_due.q.val() & self.missed_fault.val());
        if self.missed_access.val() {
            self.missed.d.next = self.missed.q.val() + 1;
        }
        if self.counts_fault.val() & (self.missed_faults.q.val() != self.most_faults.val()) {
            self.missed_faults.d.next = self.missed_faults.q.val() + 1;
        }
        // An access or a fault in the same clock as a control event comes after that event, so it
        // begins the next count. The access of a stored command is not counted here.
        if self.carries.val() {
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
        if self.missed_access.val() | self.missed_fault.val() | self.change_passes.val() {
            self.has_missed.d.next = true;
        }
        if self.loses_command.val() {
            self.missed_command.d.next = true;
        }
        if self.write.clocked.val() {
            self.change_waits.d.next = self.changes.val() & !self.stores_event.val();
        }
        if self.stores_event.val() & self.changes.val() {
            self.run_stored.d.next = self.starts.val();
        }

        self.writes_entry.d.next = self.stores_event.val() | self.stores_lap.val();
        self.since_now.next = self.since.q.val();
        self.lap_passes.next =
            self.write.clocked.val() & self.since_now.val().get_bit(self.lap_at.val().index());
        self.lap_ended.d.next = self.lap_passes.val() & !self.stores_event.val();
        if self.stores_event.val() | self.lap_passes.val() {
            self.since.d.next = bits::<16>(1);
        } else if self.write.clocked.val() {
            self.since.d.next = self.since.q.val() + 1;
        }
        // A lap is counted a clock after its end.
        if self.stores_lap.val() & !self.lap_ended.q.val() {
            self.laps.d.next = self.laps.q.val() - 1;
            self.has_laps.d.next = self.laps.q.val() != 1;
        } else if self.lap_ended.q.val()
            & !self.stores_lap.val()
            & !self.laps_now.val().get_bit(self.laps_end_at.val().index())
        {
            self.laps.d.next = self.laps.q.val() + 1;
            self.has_laps.d.next = true;
        }
        self.read.head.next = self.events.read_data.val();
        self.read.valid.next = self.valid.q.val();
    }
}
