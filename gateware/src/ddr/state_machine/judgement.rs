//! Judges the state that a command finds in the bank table: the command is an access, a fault, or
//! neither.
//!
//! A later assignment of the fault overrides an earlier one: tRFC, tXS and tMRD take precedence
//! over the state of the bank.

use rust_hdl::prelude::*;

use super::StateMachine;
use crate::block::Part;
use crate::ddr::bank_table::Window;

/// See the module's description.
pub(super) struct Judgement;

impl Part<Judgement> for StateMachine {
    #[hdl_gen]
    fn update(&mut self) {
        // Lines and state of the command.
        self.found_op.next = self.bank_table.found.val().op;
        self.register.next = self.bank_table.found.val().ba;
        self.column.next = self.found_op.val().read | self.found_op.val().write;
        self.needs_closed.next = self.found_op.val().refresh
            | self.found_op.val().mode_register_set
            | self.found_op.val().zq_calibration;
        self.kind.next = self.no_fault.val();
        if self.found_op.val().reserved {
            self.kind.next = self.reserved.val();
        }
        if self.found_op.val().activate {
            if self.bank_table.found.val().open {
                self.kind.next = self.activate_open.val();
            } else if self.bank_table.found.val().bank_busy {
                self.kind.next = self.command_in_rp.val();
            }
        }
        if self.column.val() {
            if !self.bank_table.found.val().open {
                self.kind.next = self.read_idle.val();
                if self.found_op.val().write {
                    self.kind.next = self.write_idle.val();
                }
            } else if self.bank_table.found.val().bank_busy {
                self.kind.next = self.column_in_rcd.val();
            }
        }
        if self.needs_closed.val() {
            if self.bank_table.found.val().any_open {
                self.kind.next = self.refresh_open.val();
                if self.found_op.val().mode_register_set {
                    self.kind.next = self.mode_register_open.val();
                }
                if self.found_op.val().zq_calibration {
                    self.kind.next = self.zq_open.val();
                }
            } else if self.bank_table.found.val().any_in_rp {
                self.kind.next = self.command_in_rp.val();
            }
        }
        self.judged.d.next.fault = self.kind.val();
        if self.bank_table.found.val().several & (self.column.val() | self.found_op.val().activate)
        {
            self.judged.d.next.fault = self.multi_rank.val();
        }
        if self.bank_table.found.val().window == Window::Rfc {
            self.judged.d.next.fault = self.command_in_rfc.val();
        }
        if self.bank_table.found.val().window == Window::Xs {
            self.judged.d.next.fault = self.command_in_xs.val();
        }
        if self.bank_table.found.val().window == Window::Mrd {
            self.judged.d.next.fault = self.command_in_mrd.val();
        }
        self.judged.d.next.access = (self.column.val() & self.bank_table.found.val().open)
            & !self.bank_table.found.val().several;
        self.judged.d.next.write = self.found_op.val().write;
        self.judged.d.next.rank = self.bank_table.found.val().rank;
        self.judged.d.next.ba = self.bank_table.found.val().ba;
        self.judged.d.next.row_state = self.row_hit.val();
        if self.bank_table.found.val().fresh {
            self.judged.d.next.row_state = self.row_miss.val();
            if self.bank_table.found.val().conflict {
                self.judged.d.next.row_state = self.row_conflict.val();
            }
        }
        self.activated.d.next = self.found_op.val().activate;
    }
}
