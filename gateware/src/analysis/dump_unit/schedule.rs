//! When a dump is due, and what the other units have to do while one is sent.

use rust_hdl::prelude::*;

use super::{DumpUnit, State};
use crate::block::Part;

/// See the module's description.
pub(super) struct Schedule;

impl Part<Schedule> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, what, at, whole, number, records, part, turned, ticks, is_due,
            all_due, untold, waited, asks_entry, asks_tally, first_high, first_low
        );
        self.busy.next = self.state.q.val() != State::AwaitDump;
        self.all_under_way.next = self.busy.val() & self.whole.q.val();
        self.is_due.d.next = self.ticks.q.val() >= self.due_ticks.val();
        self.due.next = self.is_due.q.val() & !self.busy.val() & !self.all_due.q.val();
        if self.tick.val() & !self.is_due.q.val() {
            self.ticks.d.next = self.ticks.q.val() + 1;
        }
        if self.dump.val() {
            self.ticks.d.next = bits::<16>(0);
            self.is_due.d.next = false;
        }
        self.dumped.next = !self.busy.val() & !self.all_due.q.val() & !self.dump.val();
        self.index.next = self.at.q.val();
        self.next_part.next = self.part.q.val();
        self.turn.next = self.turned.q.val();
        self.frozen.next = self.all_due.q.val() | self.all_under_way.val();
        self.blocks.next = self.busy.val() & !self.whole.q.val();
        self.drain.next = (self.state.q.val() == State::AwaitSettled) & self.whole.q.val();
    }
}
