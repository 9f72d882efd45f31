//! DDR state machine unit (DSMU): commands to verdicts, by the JEDEC subset a snooper needs.
//!
//! Which banks are open is a bit each; which row, a table written by ACTIVATE and read by every
//! command on the same clock edge. A READ or WRITE becomes an access only when its bank is open, so
//! nothing is ever located by a row that is not known; what JEDEC forbids gets a fault code instead.
//! After a fault that leaves a bank in doubt the bank counts as closed.
//!
//! ```text
//! clock     _/0\_/1\_/2\_
//! command       <A ><B >
//! verdict, row      <A ><B >
//! ```

use hmtt_format::{FaultKind, MemoryDescription};
use rust_hdl::prelude::*;

use super::{CommandCode, SlotCommand, Verdict};
use crate::fifo::block_ram::BlockRam;

/// See the module's description.
#[derive(LogicBlock)]
pub struct StateMachine {
    /// DDR clock.
    pub clock: Signal<In, Clock>,
    /// Command of this clock.
    pub command: Signal<In, SlotCommand>,
    /// Verdict on the command of the clock before.
    pub verdict: Signal<Out, Verdict>,
    /// Row of the verdict's bank.
    pub row: Signal<Out, Bits<18>>,
    open: DFF<Bits<16>>,
    refresh_left: DFF<Bits<12>>,
    judged: DFF<Verdict>,
    rows: BlockRam<Bits<18>, 4>,
    bank: Signal<Local, Bits<16>>,
    a: Signal<Local, Bits<18>>,
    is_open: Signal<Local, Bit>,
    any_open: Signal<Local, Bit>,
    refreshing: Signal<Local, Bit>,
    refresh_clocks: Constant<Bits<12>>,
    read_idle: Constant<Bits<6>>,
    write_idle: Constant<Bits<6>>,
    activate_open: Constant<Bits<6>>,
    refresh_open: Constant<Bits<6>>,
    command_in_rfc: Constant<Bits<6>>,
    mode_register_open: Constant<Bits<6>>,
    reserved: Constant<Bits<6>>,
}

impl StateMachine {
    /// A state machine with the timing of one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let code = |kind: FaultKind| Constant::new(u64::from(kind.code()).into());
        Self {
            clock: Default::default(),
            command: Default::default(),
            verdict: Default::default(),
            row: Default::default(),
            open: Default::default(),
            refresh_left: Default::default(),
            judged: Default::default(),
            rows: Default::default(),
            bank: Default::default(),
            a: Default::default(),
            is_open: Default::default(),
            any_open: Default::default(),
            refreshing: Default::default(),
            refresh_clocks: Constant::new(u64::from(memory.trfc_clocks - 1).into()),
            read_idle: code(FaultKind::ReadIdle),
            write_idle: code(FaultKind::WriteIdle),
            activate_open: code(FaultKind::ActivateOpen),
            refresh_open: code(FaultKind::RefreshOpen),
            command_in_rfc: code(FaultKind::CommandInRfc),
            mode_register_open: code(FaultKind::ModeRegisterOpen),
            reserved: code(FaultKind::Reserved),
        }
    }
}

impl Logic for StateMachine {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, open, refresh_left, judged);
        self.rows.read_clock.next = self.clock.val();
        self.rows.write_clock.next = self.clock.val();
        self.rows.read_address.next = self.command.val().ba;
        self.rows.write_address.next = self.command.val().ba;
        self.rows.write_data.next = self.command.val().a;
        self.rows.write_enable.next = false;

        self.a.next = self.command.val().a;
        // A shift is slow to simulate, and idle clocks are many.
        self.bank.next = bits::<16>(0);
        if self.command.val().code != CommandCode::Quiet {
            self.bank.next = bits::<16>(1) << self.command.val().ba;
        }
        self.is_open.next = (self.open.q.val() & self.bank.val()) != 0;
        self.any_open.next = self.open.q.val() != 0;
        self.refreshing.next = self.refresh_left.q.val() != 0;
        if self.refreshing.val() {
            self.refresh_left.d.next = self.refresh_left.q.val() - 1;
        }

        self.judged.d.next.access = false;
        self.judged.d.next.write = false;
        self.judged.d.next.fault = bits::<6>(0);
        self.judged.d.next.ba = self.command.val().ba;
        self.judged.d.next.a = self.command.val().a;
        match self.command.val().code {
            CommandCode::Activate => {
                if self.is_open.val() {
                    self.judged.d.next.fault = self.activate_open.val();
                    self.open.d.next = self.open.q.val() ^ self.bank.val();
                } else if !self.refreshing.val() {
                    self.open.d.next = self.open.q.val() | self.bank.val();
                    self.rows.write_enable.next = true;
                }
            }
            CommandCode::Read => {
                if self.is_open.val() {
                    self.judged.d.next.access = true;
                    if self.a.val().get_bit(10) {
                        self.open.d.next = self.open.q.val() ^ self.bank.val();
                    }
                } else {
                    self.judged.d.next.fault = self.read_idle.val();
                }
            }
            CommandCode::Write => {
                if self.is_open.val() {
                    self.judged.d.next.access = true;
                    self.judged.d.next.write = true;
                    if self.a.val().get_bit(10) {
                        self.open.d.next = self.open.q.val() ^ self.bank.val();
                    }
                } else {
                    self.judged.d.next.fault = self.write_idle.val();
                }
            }
            CommandCode::Precharge => {
                if self.is_open.val() {
                    self.open.d.next = self.open.q.val() ^ self.bank.val();
                }
            }
            CommandCode::PrechargeAll => {
                self.open.d.next = bits::<16>(0);
            }
            CommandCode::Refresh => {
                self.open.d.next = bits::<16>(0);
                if self.any_open.val() {
                    self.judged.d.next.fault = self.refresh_open.val();
                } else {
                    self.refresh_left.d.next = self.refresh_clocks.val();
                }
            }
            CommandCode::SelfRefreshEntry => {
                self.open.d.next = bits::<16>(0);
                if self.any_open.val() {
                    self.judged.d.next.fault = self.refresh_open.val();
                }
            }
            CommandCode::ModeRegisterSet => {
                if self.any_open.val() {
                    self.judged.d.next.fault = self.mode_register_open.val();
                }
            }
            CommandCode::Reserved => {
                self.judged.d.next.fault = self.reserved.val();
            }
            _ => {}
        }
        if self.refreshing.val() {
            match self.command.val().code {
                CommandCode::Quiet => {}
                _ => {
                    self.judged.d.next.fault = self.command_in_rfc.val();
                }
            }
        }
        self.verdict.next = self.judged.q.val();
        self.row.next = self.rows.read_data.val();
    }
}
