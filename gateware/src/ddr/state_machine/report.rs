//! Chooses one verdict for each clock: an access, the fault of its command, or a fault that had to
//! wait.
//!
//! Keeps the row of each bank: ACTIVATE writes it, the access reads it.

use rust_hdl::prelude::*;

use super::StateMachine;
use crate::block::Part;

/// See the module's description.
pub(super) struct Report;

impl Part<Report> for StateMachine {
    #[hdl_gen]
    fn update(&mut self) {
        // A fault that has no free clock waits in `deferred`, or is counted in `lost`.
        self.settled.d.next = self.judged.q.val();
        self.overdue_now.next = self.overdue.q.val() | self.bank_table.found.val().overdue;
        self.reported.next = bits::<4>(0);
        if self.judged.q.val().access {
            self.settled.d.next.fault = self.no_fault.val();
            if self.judged.q.val().fault != self.no_fault.val() {
                if !self.has_deferred.q.val() {
                    self.has_deferred.d.next = true;
                    self.deferred.d.next.fault = self.judged.q.val().fault;
                    self.deferred.d.next.rank = self.judged.q.val().rank;
                    self.deferred.d.next.ba = self.judged.q.val().ba;
                } else if self.lost.q.val() != self.most_lost.val() {
                    self.lost.d.next = self.lost.q.val() + 1;
                }
            }
        } else if self.judged.q.val().fault == self.no_fault.val() {
            if self.has_deferred.q.val() {
                self.has_deferred.d.next = false;
                self.settled.d.next.fault = self.deferred.q.val().fault;
                self.settled.d.next.rank = self.deferred.q.val().rank;
                self.settled.d.next.ba = self.deferred.q.val().ba;
            } else if self.any_overdue.q.val() {
                self.settled.d.next.fault = self.refresh_overdue.val();
                self.settled.d.next.ba = bits::<4>(0);
                if self.overdue.q.val().get_bit(self.rank_0.val().index()) {
                    self.settled.d.next.rank = self.rank_0.val();
                    self.reported.next = self.only_rank_0.val();
                } else if self.overdue.q.val().get_bit(self.rank_1.val().index()) {
                    self.settled.d.next.rank = self.rank_1.val();
                    self.reported.next = self.only_rank_1.val();
                } else if self.overdue.q.val().get_bit(self.rank_2.val().index()) {
                    self.settled.d.next.rank = self.rank_2.val();
                    self.reported.next = self.only_rank_2.val();
                } else {
                    self.settled.d.next.rank = self.rank_3.val();
                    self.reported.next = self.only_rank_3.val();
                }
            }
        }
        self.still_overdue.next = self.overdue_now.val() ^ self.reported.val();
        self.overdue.d.next = self.still_overdue.val();
        self.any_overdue.d.next = self.still_overdue.val() != 0;
        self.unreported.next = self.lost.q.val();

        // ACTIVATE writes the row; each later command reads it at the same stage.
        self.row_at.next = (bit_cast::<6, 2>(self.judged.q.val().rank) << self.bank_bits.val())
            | bit_cast::<6, 4>(self.judged.q.val().ba);
        self.rows.read_address.next = self.row_at.val();
        self.rows.write_address.next = self.row_at.val();
        self.rows.write_data.next = self.judged.q.val().a;
        self.rows.write_enable.next = self.activated.q.val();
        self.out.d.next = self.settled.q.val();
        self.out_row.d.next = self.rows.read_data.val();
        self.verdict.next = self.out.q.val();
        self.row.next = self.out_row.q.val();
    }
}
