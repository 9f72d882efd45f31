//! Decides when a dump is due, and what the other units do while a dump is sent.

use rust_hdl::prelude::*;

use super::{DumpUnit, State};
use crate::block::Part;

/// See the module's description.
pub(super) struct Schedule;

impl Part<Schedule> for DumpUnit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            content,
            table_index,
            all_tables,
            number,
            records,
            part,
            selected_spread,
            ticks,
            is_due,
            all_due,
            access_during_dump,
            waited,
            requests_entry,
            requests_tally,
            first_high,
            first_low
        );
        self.busy.next = self.state.q.val() != State::AwaitDump;
        self.all_under_way.next = self.busy.val() & self.all_tables.q.val();
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
        self.index.next = self.table_index.q.val();
        self.next_part.next = self.part.q.val();
        self.spread_select.next = self.selected_spread.q.val();
        self.frozen.next = self.all_due.q.val() | self.all_under_way.val();
        self.part_frozen.next = self.busy.val() & !self.all_tables.q.val();
        self.drain.next = (self.state.q.val() == State::AwaitSettled) & self.all_tables.q.val();
    }
}
