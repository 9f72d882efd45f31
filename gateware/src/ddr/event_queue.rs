//! Events wait here while what follows is busy with another one.
//!
//! The card makes at most one event a clock and takes one a clock, except where an event steers it, so
//! the queue stays nearly empty. Should it fill, accesses and faults are counted instead of stored; the
//! last places are kept for events that steer the card (ticks, slices, the run switch). The count
//! follows in order as an `overrun`: in the next event that steers, or in an event of its own once there
//! is room. So it is told before the run switch goes off. Should slices take all but the last of those
//! places too, they end no more: the slice goes on, and its record states its length. Completed commands
//! are kept like slices, with or without the access that completes them; one that finds no place is lost,
//! and the next count says so. The access of a command that is kept without it is in no count: it comes
//! between what steers on its clock and its command, so whoever takes the command counts it. An event leaves with the number of clocks since the one before it, so that
//! nobody behind needs a clock of its own.
//!
//! ```text
//! clock      _/0\_/1\_/2\_/3\_/4\_
//! push, event   <A >
//! head_valid                <A .... until popped
//! ```

use rust_hdl::prelude::*;

use super::SlotEvent;
use crate::fifo::block_ram::BlockRam;
use crate::reset::{Domain, Register};

/// log2 of the number of events that fit.
pub const DEPTH_LOG2: usize = 8;
/// Places kept for events that steer the card.
pub const KEPT: u64 = 32;
/// Of them, places not for slices and commands.
pub const KEPT_FROM_SLICES: u64 = 12;
/// Most faults one overrun can count.
pub const MAX_MISSED_FAULTS: u64 = 63;
/// Bit of an overrun's `high`: a command was lost.
pub const COMMAND_LOST: u64 = 1 << 7;

/// See the module's description.
#[derive(LogicBlock)]
pub struct EventQueue {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Event to store; its `gap` is filled in here.
    pub slot_event: Signal<In, SlotEvent>,
    /// Register of the command that it completes.
    pub register: Signal<In, Bits<9>>,
    /// Store it.
    pub push: Signal<In, Bit>,
    /// A clock of the slot has passed.
    pub clocked: Signal<In, Bit>,
    /// Oldest event.
    pub head: Signal<Out, SlotEvent>,
    /// There is one.
    pub head_valid: Signal<Out, Bit>,
    /// Drop it.
    pub pop: Signal<In, Bit>,
    events: BlockRam<SlotEvent, DEPTH_LOG2>,
    entry: Register<SlotEvent>,
    entering: Register<Bit>,
    write_at: Register<Bits<8>>,
    read_at: Register<Bits<8>>,
    read_after: Signal<Local, Bits<8>>,
    read_next: Signal<Local, Bits<8>>,
    used: Signal<Local, Bits<8>>,
    any: Signal<Local, Bit>,
    another: Signal<Local, Bit>,
    crowded: Register<Bit>,
    nearly_full: Register<Bit>,
    valid: Register<Bit>,
    /// The head was dropped on the clock before.
    popped: Register<Bit>,
    /// More than 0, 1 and 2 events were stored, had none been dropped on the clock before.
    holds_one: Register<Bit>,
    holds_two: Register<Bit>,
    holds_three: Register<Bit>,
    write_next: Signal<Local, Bits<8>>,
    read_beyond: Signal<Local, Bits<8>>,
    /// Clocks since the last stored event; the first one counts from clock 0.
    since: Register<Bits<16>>,
    missed: Register<Bits<32>>,
    missed_faults: Register<Bits<8>>,
    misses: Register<Bit>,
    missed_command: Register<Bit>,
    counts: Signal<Local, Bit>,
    steers: Signal<Local, Bit>,
    store: Signal<Local, Bit>,
    tell: Signal<Local, Bit>,
    tells: Signal<Local, Bit>,
    missed_access: Signal<Local, Bit>,
    missed_fault: Signal<Local, Bit>,
    keeps_command: Signal<Local, Bit>,
    loses_command: Signal<Local, Bit>,
    register_low: Signal<Local, Bits<9>>,
    command_lost: Constant<Bits<8>>,
    crowded_from: Constant<Bits<8>>,
    crowded_to: Constant<Bits<8>>,
    nearly_full_from: Constant<Bits<8>>,
    most_faults: Constant<Bits<8>>,
}

impl Default for EventQueue {
    fn default() -> Self {
        block! {
            Self {
                command_lost: Constant::new(COMMAND_LOST.into()),
                crowded_from: Constant::new(((1 << DEPTH_LOG2) - KEPT).into()),
                crowded_to: Constant::new((1 << (DEPTH_LOG2 - 1)).into()),
                nearly_full_from: Constant::new(((1 << DEPTH_LOG2) - KEPT_FROM_SLICES).into()),
                most_faults: Constant::new(MAX_MISSED_FAULTS.into()),
            }
            default: clock, slot_event, register, push, clocked, head, head_valid, pop, events,
                entry, entering, write_at, read_at, read_after, read_next, used, any, another,
                crowded, nearly_full, valid, popped, holds_one, holds_two, holds_three, write_next,
                read_beyond, since, missed, missed_faults, misses, missed_command, counts, steers,
                store, tell, tells, missed_access, missed_fault, keeps_command, loses_command,
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
            entering,
            write_at,
            read_at,
            crowded,
            nearly_full,
            valid,
            popped,
            holds_one,
            holds_two,
            holds_three,
            since,
            missed,
            missed_faults,
            misses,
            missed_command
        );
        self.events.read_clock.next = self.clock.val();
        self.events.write_clock.next = self.clock.val();

        // The address after next is at hand, so a pop only chooses.
        self.read_after.next = self.read_at.q.val() + 1;
        self.read_next.next = self.read_at.q.val();
        if self.pop.val() {
            self.read_next.next = self.read_after.val();
        }
        // `pop` is known late, so the places are compared a clock before, for whatever `pop` is until then.
        self.popped.d.next = self.pop.val();
        self.write_next.next = self.write_at.q.val();
        if self.entering.q.val() {
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
        if self.pop.val() {
            self.valid.d.next = self.another.val();
        }
        self.read_at.d.next = self.read_next.val();
        self.events.read_address.next = self.read_next.val();
        self.used.next = self.write_at.q.val() - self.read_at.q.val();
        // Once crowded it drains for a while: one long gap rather than many short ones.
        self.crowded.d.next = (self.used.val() >= self.crowded_from.val())
            | (self.crowded.q.val() & (self.used.val() >= self.crowded_to.val()));
        self.nearly_full.d.next = self.used.val() >= self.nearly_full_from.val();
        self.steers.next = self.slot_event.val().steers;
        if self.nearly_full.q.val() {
            self.steers.next = self.slot_event.val().tick | self.slot_event.val().run_change;
        }

        self.events.write_address.next = self.write_at.q.val();
        self.events.write_data.next = self.entry.q.val();
        self.events.write_enable.next = self.entering.q.val();
        self.entry.d.next = self.slot_event.val();
        self.entry.d.next.gap = self.since.q.val();
        self.counts.next = self.crowded.q.val() | self.misses.q.val();
        self.tell.next = self.misses.q.val() & !self.crowded.q.val() & !self.push.val();
        self.keeps_command.next = self.slot_event.val().command & !self.nearly_full.q.val();
        self.loses_command.next =
            self.push.val() & self.slot_event.val().command & self.nearly_full.q.val();
        self.store.next = self.tell.val()
            | (self.push.val()
                & (self.steers.val() | self.keeps_command.val() | !self.counts.val()));
        self.entry.d.next.command = self.keeps_command.val();
        self.register_low.next = self.register.val();
        if self.counts.val() {
            // The count before it passes first, then its own access.
            self.entry.d.next.steers = self.slot_event.val().steers | self.keeps_command.val();
            self.entry.d.next.access = false;
            self.entry.d.next.fault = false;
            self.entry.d.next.write = self.register_low.val().get_bit(8);
            self.entry.d.next.row_state = self.register_low.val().get_bits::<2>(6);
            self.entry.d.next.bank = self.register_low.val().get_bits::<6>(0);
        }
        if self.nearly_full.q.val() {
            self.entry.d.next.slice = false;
        }
        if self.tell.val() {
            self.entry.d.next.run_change = false;
            self.entry.d.next.slice = false;
            self.entry.d.next.tick = false;
            self.entry.d.next.steers = false;
            self.entry.d.next.command = false;
        }
        // Nothing overtakes the count of what was missed before it: what is stored next carries it.
        if self.misses.q.val() {
            self.entry.d.next.overrun = true;
            self.entry.d.next.low = self.missed.q.val();
            self.entry.d.next.high = self.missed_faults.q.val();
            if self.missed_command.q.val() {
                self.entry.d.next.high = self.missed_faults.q.val() | self.command_lost.val();
            }
        }
        self.missed_access.next = self.counts.val()
            & self.push.val()
            & self.slot_event.val().access
            & !self.keeps_command.val();
        self.missed_fault.next = self.counts.val() & self.push.val() & self.slot_event.val().fault;
        if self.missed_access.val() {
            self.missed.d.next = self.missed.q.val() + 1;
        }
        if self.missed_fault.val() & (self.missed_faults.q.val() != self.most_faults.val()) {
            self.missed_faults.d.next = self.missed_faults.q.val() + 1;
        }
        // While something was missed, `store` is no more than this. An access or a fault beside an event that steers
        // comes after it; the access of a command that is kept is not among them.
        self.tells.next = !self.crowded.q.val();
        if self.push.val() {
            self.tells.next = self.steers.val() | self.keeps_command.val();
        }
        if self.misses.q.val() & self.tells.val() {
            self.missed.d.next = bits::<32>(0);
            self.missed_faults.d.next = bits::<8>(0);
            self.misses.d.next = false;
            self.missed_command.d.next = false;
            if self.missed_access.val() {
                self.missed.d.next = bits::<32>(1);
            }
            if self.missed_fault.val() {
                self.missed_faults.d.next = bits::<8>(1);
            }
        }
        if self.missed_access.val() | self.missed_fault.val() {
            self.misses.d.next = true;
        }
        if self.loses_command.val() {
            self.missed_command.d.next = true;
        }
        self.entering.d.next = self.store.val();
        if self.store.val() {
            self.since.d.next = bits::<16>(1);
        } else if self.clocked.val() {
            self.since.d.next = self.since.q.val() + 1;
        }
        self.head.next = self.events.read_data.val();
        self.head_valid.next = self.valid.q.val();
    }
}
