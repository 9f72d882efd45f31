//! Keeps the burst length in force, and computes the column at which a burst begins.
//!
//! MODE REGISTER SET names the length in A2..A0 (JESD79: 1, 2, 3 for 2, 4, 8; JESD79-2: 2, 3) or in
//! A1..A0 (JESD79-3 and -4: 0 for 8, 1 for on the fly, 2 for 4). On the fly, A12 of each READ and
//! WRITE is low for 4 (burst chop).

use rust_hdl::prelude::*;

use super::StateMachine;
use crate::block::Part;
use crate::ddr::bank_table::Window;

/// See the module's description.
pub(super) struct Burst;

impl Part<Burst> for StateMachine {
    #[hdl_gen]
    fn update(&mut self) {
        // The burst length in force, and the start of a burst with that length.
        self.new_length.next = self.on_the_fly.val();
        self.sets_length.next = false;
        if self.has_chop.val() {
            if !self.a.val().get_bit(self.a1.val().index()) {
                self.sets_length.next = true;
                if !self.a.val().get_bit(self.a0.val().index()) {
                    self.new_length.next = self.burst_of_eight.val();
                }
            } else if !self.a.val().get_bit(self.a0.val().index()) {
                self.sets_length.next = true;
                self.new_length.next = self.burst_of_four.val();
            }
        } else if !self.a.val().get_bit(self.a2.val().index()) {
            if self.a.val().get_bit(self.a1.val().index()) {
                self.sets_length.next = true;
                self.new_length.next = self.burst_of_four.val();
                if self.a.val().get_bit(self.a0.val().index()) {
                    self.new_length.next = self.burst_of_eight.val();
                }
            } else if self.is_ddr1.val() & self.a.val().get_bit(self.a0.val().index()) {
                self.sets_length.next = true;
                self.new_length.next = self.burst_of_two.val();
            }
        }
        self.in_force.next = self.initial_length.val();
        if self.uses_mode_register.val() & self.length.q.val().seen {
            self.in_force.next = self.length.q.val().log2;
        }
        if (self.found_op.val().mode_register_set & self.sets_length.val())
            & ((self.register.val() == self.mr0.val())
                & (!self.bank_table.found.val().any_open
                    & (self.bank_table.found.val().window == Window::Elapsed)))
        {
            self.length.d.next.log2 = self.new_length.val();
            self.length.d.next.seen = true;
        }
        self.chops.next = (self.in_force.val() == self.on_the_fly.val())
            & !self.a.val().get_bit(self.a12.val().index());
        self.start.next = self.a.val();
        if self.uses_mode_register.val() & self.column.val() {
            self.start.next = self.a.val() & self.from_eight.val();
            if (self.in_force.val() == self.burst_of_four.val()) | self.chops.val() {
                self.start.next = self.a.val() & self.from_four.val();
            }
            if self.in_force.val() == self.burst_of_two.val() {
                self.start.next = self.a.val() & self.from_pair.val();
            }
        }
        self.judged.d.next.a = self.start.val();
        self.burst.next = self.in_force.val();
    }
}
