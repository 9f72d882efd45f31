//! Connects the units of the block writer to each other and to its ports, and chooses the unit that
//! syncs state.

use rust_hdl::prelude::*;

use super::{BlockWriter, State};
use crate::block::Part;
use crate::fifo::ports::FifoWriter;

/// See the module's description.
pub(super) struct Ports;

impl<const N: usize> Part<Ports> for BlockWriter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            kind,
            repeated,
            aged,
            open,
            full,
            writes_direct,
            writes_word,
            ticks,
            report_due,
            index,
            space_wait,
            sync_clock,
            unit,
            no_number
        );
        clock!(self, clock, intake, accounts, port);
        self.intake.record.next = self.record.val();
        self.intake.offered.next = self.offered.val();
        self.advance.next = self.intake.advance.val();
        self.free.next = self.intake.free.val();
        self.idle.next = self.intake.free.val() & (self.state.q.val() == State::AwaitRecord);
        self.lossy.next = self.accounts.lossy.val();

        self.unit.d.next = self.no_unit.val();
        self.no_number.d.next = true;
        if self.settings.val().mode == self.page_mode.val() {
            self.unit.d.next = self.page_unit.val();
            self.no_number.d.next = false;
        } else if self.settings.val().mode == self.line_mode.val() {
            self.no_number.d.next = false;
            self.unit.d.next = self.line_unit.val();
            if self.settings.val().burst {
                self.unit.d.next = self.burst_unit.val();
            }
        }

        self.port.threshold.next = self.settings.val().threshold;
        self.port.record.next = self.intake.held_before.val();
        self.port.other_high.next = self.words.high.val();
        self.port.other_low.next = self.words.low.val();
        self.port.heading.next.kind = self.kind.q.val();
        self.port.heading.next.unit = self.unit.q.val();
        self.port.heading.next.segment = self.intake.segment.val();
        self.port.heading.next.clock_low = self.sync_clock.q.val().low;
        self.port.heading.next.clock_high = self.sync_clock.q.val().high;
        self.port.heading.next.lost = self.accounts.lost.val();
        self.port.heading.next.accesses_low = self.accounts.accesses_low.val();
        self.port.heading.next.accesses_high = self.accounts.accesses_high.val();
        FifoWriter::<N>::link(&mut self.write, &mut self.port.write);
        self.words.kind.next = self.intake.held.val().kind;
        self.words.index.next = self.index.q.val();
    }
}
