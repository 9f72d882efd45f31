//! Passes each command to the bank table, as one line for each kind, and delays its address.

use rust_hdl::prelude::*;

use super::StateMachine;
use crate::block::Part;
use crate::ddr::CommandCode;

/// See the module's description.
pub(super) struct Command;

impl Part<Command> for StateMachine {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            judged,
            activated,
            settled,
            out,
            out_row,
            valids,
            a_spread,
            a_found,
            length,
            deferred,
            has_deferred,
            any_overdue,
            overdue,
            lost
        );
        self.bank_table.clock.next = self.clock.val();
        self.rows.read_clock.next = self.clock.val();
        self.rows.write_clock.next = self.clock.val();
        self.valids.d.next = self.valids.q.val() << 1;
        if self.valid.val() {
            self.valids.d.next = (self.valids.q.val() << 1) | 1;
        }
        self.verdict_valid.next = self.valids.q.val().get_bit(self.last_valid.val().index());

        // The bank table takes two clocks, so the address is delayed by two clocks.
        self.op.next = self.no_command.val();
        match self.command.val().code {
            CommandCode::Activate => {
                self.op.next.activate = true;
            }
            CommandCode::Read => {
                self.op.next.read = true;
            }
            CommandCode::Write => {
                self.op.next.write = true;
            }
            CommandCode::Precharge => {
                self.op.next.precharge = true;
            }
            CommandCode::PrechargeAll => {
                self.op.next.precharge_all = true;
            }
            CommandCode::Refresh => {
                self.op.next.refresh = true;
            }
            CommandCode::ModeRegisterSet => {
                self.op.next.mode_register_set = true;
            }
            CommandCode::ZqCalibration => {
                self.op.next.zq_calibration = true;
            }
            CommandCode::Reserved => {
                self.op.next.reserved = true;
            }
            CommandCode::BurstTerminate => {
                self.op.next.burst_terminate = true;
            }
            _ => {}
        }
        self.command_a.next = self.command.val().a;
        self.bank_table.op.next = self.op.val();
        self.bank_table.a10.next = self.command_a.val().get_bit(self.a10.val().index());
        self.bank_table.ranks.next = self.command.val().ranks;
        self.bank_table.cke_falls.next = self.command.val().cke_falls;
        self.bank_table.cke_rises.next = self.command.val().cke_rises;
        self.bank_table.ba.next = self.command.val().ba;
        self.a_spread.d.next = self.command_a.val();
        self.a_found.d.next = self.a_spread.q.val();
        self.a.next = self.a_found.q.val();
    }
}
