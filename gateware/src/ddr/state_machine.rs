//! DDR state machine unit (DSMU): commands to verdicts, by the JEDEC subset a snooper needs.
//!
//! The bank table says what each command finds; here that is judged. A READ or WRITE becomes an access
//! only when its bank is open, so nothing is ever located by a row that is not known; what JEDEC forbids
//! gets a fault code. After a fault that leaves a bank in doubt the bank counts as closed.
//!
//! ```text
//! clock     _/0\_/1\_/2\_/3\_/4\_/5\_
//! command       <A ><B >
//! found                 .   <A ><B >
//! judged                        <A ><B >
//! verdict, row                      .   <A ><B >
//! ```
//!
//! A clock has one verdict, an access or a fault. A fault beside an access (tRCD), and an overdue
//! REFRESH, which has no command, are put off to the next clock that has neither. One that finds the
//! place of the first kind taken is counted in `unreported`.

use hmtt_format::{FaultKind, Generation, MemoryDescription};
use rust_hdl::prelude::*;

use super::bank_table::BankTable;
use super::{CommandCode, SlotCommand, Verdict};
use crate::fifo::block_ram::BlockRam;
use crate::reset::{Domain, Register};

/// A fault that waits for a free clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Parked {
    /// Its code, 0 for none.
    fault: Bits<6>,
    rank: Bits<2>,
    ba: Bits<4>,
}

/// The burst length the mode register was seen to get.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Length {
    seen: Bit,
    log2: Bits<2>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct StateMachine {
    /// DDR clock.
    pub clock: Signal<In, Domain>,
    /// Command of this clock.
    pub command: Signal<In, SlotCommand>,
    /// It follows from a sample of the pins.
    pub valid: Signal<In, Bit>,
    /// Verdict on the command of five clocks before.
    pub verdict: Signal<Out, Verdict>,
    /// Row of the verdict's bank.
    pub row: Signal<Out, Bits<18>>,
    /// `verdict` follows from a sample of the pins.
    pub verdict_valid: Signal<Out, Bit>,
    /// log2 of the burst length in force; 0: on the fly, each READ and WRITE says 4 or 8.
    pub burst: Signal<Out, Bits<2>>,
    /// Faults that could not be reported; stays at 255.
    pub unreported: Signal<Out, Bits<8>>,
    bank_table: BankTable,
    rows: BlockRam<Bits<18>, 6>,
    judged: Register<Verdict>,
    activated: Register<Bit>,
    settled: Register<Verdict>,
    out: Register<Verdict>,
    out_row: Register<Bits<18>>,
    valids: Register<Bits<5>>,
    a_spread: Register<Bits<18>>,
    a_found: Register<Bits<18>>,
    length: Register<Length>,
    parked: Register<Parked>,
    any_parked: Register<Bit>,
    any_overdue: Register<Bit>,
    overdue: Register<Bits<4>>,
    lost: Register<Bits<8>>,
    op: Signal<Local, Bits<10>>,
    command_a: Signal<Local, Bits<18>>,
    a: Signal<Local, Bits<18>>,
    found_op: Signal<Local, Bits<10>>,
    row_at: Signal<Local, Bits<6>>,
    register: Signal<Local, Bits<4>>,
    kind: Signal<Local, Bits<6>>,
    column: Signal<Local, Bit>,
    needs_closed: Signal<Local, Bit>,
    in_force: Signal<Local, Bits<2>>,
    chops: Signal<Local, Bit>,
    named: Signal<Local, Bits<2>>,
    names: Signal<Local, Bit>,
    start: Signal<Local, Bits<18>>,
    overdue_now: Signal<Local, Bits<4>>,
    still_overdue: Signal<Local, Bits<4>>,
    reported: Signal<Local, Bits<4>>,
    follows: Constant<Bit>,
    initial_length: Constant<Bits<2>>,
    is_ddr1: Constant<Bit>,
    has_chop: Constant<Bit>,
    from_pair: Constant<Bits<18>>,
    from_four: Constant<Bits<18>>,
    from_eight: Constant<Bits<18>>,
    read_idle: Constant<Bits<6>>,
    write_idle: Constant<Bits<6>>,
    activate_open: Constant<Bits<6>>,
    refresh_open: Constant<Bits<6>>,
    command_in_rfc: Constant<Bits<6>>,
    mode_register_open: Constant<Bits<6>>,
    reserved: Constant<Bits<6>>,
    zq_open: Constant<Bits<6>>,
    command_in_xs: Constant<Bits<6>>,
    command_in_mrd: Constant<Bits<6>>,
    command_in_rp: Constant<Bits<6>>,
    column_in_rcd: Constant<Bits<6>>,
    refresh_overdue: Constant<Bits<6>>,
    multi_rank: Constant<Bits<6>>,
}

impl StateMachine {
    /// A state machine for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let code = |kind: FaultKind| Constant::new(u64::from(kind.code()).into());
        let initial = u64::from(memory.burst_length.trailing_zeros());
        block! {
            Self {
                bank_table: BankTable::new(memory),
                follows: Constant::new(memory.burst_from_mode_register),
                initial_length: Constant::new(initial.into()),
                is_ddr1: Constant::new(memory.generation == Generation::Ddr1),
                has_chop: Constant::new(memory.generation >= Generation::Ddr3),
                from_pair: Constant::new(0x3_fffe.into()),
                from_four: Constant::new(0x3_fffc.into()),
                from_eight: Constant::new(0x3_fff8.into()),
                read_idle: code(FaultKind::ReadIdle),
                write_idle: code(FaultKind::WriteIdle),
                activate_open: code(FaultKind::ActivateOpen),
                refresh_open: code(FaultKind::RefreshOpen),
                command_in_rfc: code(FaultKind::CommandInRfc),
                mode_register_open: code(FaultKind::ModeRegisterOpen),
                reserved: code(FaultKind::Reserved),
                zq_open: code(FaultKind::ZqOpen),
                command_in_xs: code(FaultKind::CommandInXs),
                command_in_mrd: code(FaultKind::CommandInMrd),
                command_in_rp: code(FaultKind::CommandInRp),
                column_in_rcd: code(FaultKind::ColumnInRcd),
                refresh_overdue: code(FaultKind::RefreshOverdue),
                multi_rank: code(FaultKind::MultiRank),
            }
            default: clock, command, valid, verdict, row, verdict_valid, burst, unreported, rows,
                judged, activated, settled, out, out_row, valids, a_spread, a_found, length, parked,
                any_parked, any_overdue, overdue, lost, op, command_a, a, found_op, row_at,
                register, kind, column, needs_closed, in_force, chops, named, names, start,
                overdue_now, still_overdue, reported
        }
    }
}

impl Logic for StateMachine {
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
            parked,
            any_parked,
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
        self.verdict_valid.next = self.valids.q.val().get_bit(4);

        // The command to the table; its address follows beside it.
        self.op.next = bits::<10>(0);
        match self.command.val().code {
            CommandCode::Activate => {
                self.op.next = bits::<10>(1);
            }
            CommandCode::Read => {
                self.op.next = bits::<10>(2);
            }
            CommandCode::Write => {
                self.op.next = bits::<10>(4);
            }
            CommandCode::Precharge => {
                self.op.next = bits::<10>(8);
            }
            CommandCode::PrechargeAll => {
                self.op.next = bits::<10>(16);
            }
            CommandCode::Refresh => {
                self.op.next = bits::<10>(32);
            }
            CommandCode::ModeRegisterSet => {
                self.op.next = bits::<10>(64);
            }
            CommandCode::ZqCalibration => {
                self.op.next = bits::<10>(128);
            }
            CommandCode::Reserved => {
                self.op.next = bits::<10>(256);
            }
            CommandCode::BurstTerminate => {
                self.op.next = bits::<10>(512);
            }
            _ => {}
        }
        self.command_a.next = self.command.val().a;
        self.bank_table.op.next = self.op.val();
        self.bank_table.a10.next = self.command_a.val().get_bit(10);
        self.bank_table.ranks.next = self.command.val().ranks;
        self.bank_table.asleep.next = self.command.val().asleep;
        self.bank_table.woken.next = self.command.val().woken;
        self.bank_table.ba.next = self.command.val().ba;
        self.a_spread.d.next = self.command_a.val();
        self.a_found.d.next = self.a_spread.q.val();
        self.a.next = self.a_found.q.val();

        // What it finds, judged.
        self.found_op.next = self.bank_table.found.val().op;
        self.register.next = self.bank_table.found.val().ba;
        self.column.next = self.found_op.val().get_bit(1) | self.found_op.val().get_bit(2);
        self.needs_closed.next = self.found_op.val().get_bit(5)
            | self.found_op.val().get_bit(6)
            | self.found_op.val().get_bit(7);
        self.kind.next = bits::<6>(0);
        if self.found_op.val().get_bit(8) {
            self.kind.next = self.reserved.val();
        }
        if self.found_op.val().get_bit(0) {
            if self.bank_table.found.val().open {
                self.kind.next = self.activate_open.val();
            } else if self.bank_table.found.val().bank_busy {
                self.kind.next = self.command_in_rp.val();
            }
        }
        if self.column.val() {
            if !self.bank_table.found.val().open {
                self.kind.next = self.read_idle.val();
                if self.found_op.val().get_bit(2) {
                    self.kind.next = self.write_idle.val();
                }
            } else if self.bank_table.found.val().bank_busy {
                self.kind.next = self.column_in_rcd.val();
            }
        }
        if self.needs_closed.val() {
            if self.bank_table.found.val().any_open {
                self.kind.next = self.refresh_open.val();
                if self.found_op.val().get_bit(6) {
                    self.kind.next = self.mode_register_open.val();
                }
                if self.found_op.val().get_bit(7) {
                    self.kind.next = self.zq_open.val();
                }
            } else if self.bank_table.found.val().any_in_rp {
                self.kind.next = self.command_in_rp.val();
            }
        }
        self.judged.d.next.fault = self.kind.val();
        if self.bank_table.found.val().several
            & (self.column.val() | self.found_op.val().get_bit(0))
        {
            self.judged.d.next.fault = self.multi_rank.val();
        }
        if self.bank_table.found.val().window == 1 {
            self.judged.d.next.fault = self.command_in_rfc.val();
        }
        if self.bank_table.found.val().window == 2 {
            self.judged.d.next.fault = self.command_in_xs.val();
        }
        if self.bank_table.found.val().window == 3 {
            self.judged.d.next.fault = self.command_in_mrd.val();
        }
        self.judged.d.next.access = (self.column.val() & self.bank_table.found.val().open)
            & !self.bank_table.found.val().several;
        self.judged.d.next.write = self.found_op.val().get_bit(2);
        self.judged.d.next.rank = self.bank_table.found.val().rank;
        self.judged.d.next.ba = self.bank_table.found.val().ba;
        self.judged.d.next.row_state = bits::<2>(0);
        if self.bank_table.found.val().fresh {
            self.judged.d.next.row_state = bits::<2>(1);
            if self.bank_table.found.val().conflict {
                self.judged.d.next.row_state = bits::<2>(2);
            }
        }
        self.activated.d.next = self.found_op.val().get_bit(0);

        // The burst length in force, and the start of a burst of that length.
        self.named.next = bits::<2>(0);
        self.names.next = false;
        if self.has_chop.val() {
            if !self.a.val().get_bit(1) {
                self.names.next = true;
                if !self.a.val().get_bit(0) {
                    self.named.next = bits::<2>(3);
                }
            } else if !self.a.val().get_bit(0) {
                self.names.next = true;
                self.named.next = bits::<2>(2);
            }
        } else if !self.a.val().get_bit(2) {
            if self.a.val().get_bit(1) {
                self.names.next = true;
                self.named.next = bits::<2>(2);
                if self.a.val().get_bit(0) {
                    self.named.next = bits::<2>(3);
                }
            } else if self.is_ddr1.val() & self.a.val().get_bit(0) {
                self.names.next = true;
                self.named.next = bits::<2>(1);
            }
        }
        self.in_force.next = self.initial_length.val();
        if self.follows.val() & self.length.q.val().seen {
            self.in_force.next = self.length.q.val().log2;
        }
        if (self.found_op.val().get_bit(6) & self.names.val())
            & ((self.register.val() == 0)
                & (!self.bank_table.found.val().any_open
                    & (self.bank_table.found.val().window == 0)))
        {
            self.length.d.next.log2 = self.named.val();
            self.length.d.next.seen = true;
        }
        self.chops.next = (self.in_force.val() == 0) & !self.a.val().get_bit(12);
        self.start.next = self.a.val();
        if self.follows.val() & self.column.val() {
            self.start.next = self.a.val() & self.from_eight.val();
            if (self.in_force.val() == 2) | self.chops.val() {
                self.start.next = self.a.val() & self.from_four.val();
            }
            if self.in_force.val() == 1 {
                self.start.next = self.a.val() & self.from_pair.val();
            }
        }
        self.judged.d.next.a = self.start.val();
        self.burst.next = self.in_force.val();

        // One verdict a clock.
        self.settled.d.next = self.judged.q.val();
        self.overdue_now.next = self.overdue.q.val() | self.bank_table.found.val().overdue;
        self.reported.next = bits::<4>(0);
        if self.judged.q.val().access {
            self.settled.d.next.fault = bits::<6>(0);
            if self.judged.q.val().fault != 0 {
                if !self.any_parked.q.val() {
                    self.any_parked.d.next = true;
                    self.parked.d.next.fault = self.judged.q.val().fault;
                    self.parked.d.next.rank = self.judged.q.val().rank;
                    self.parked.d.next.ba = self.judged.q.val().ba;
                } else if self.lost.q.val() != 255 {
                    self.lost.d.next = self.lost.q.val() + 1;
                }
            }
        } else if self.judged.q.val().fault == 0 {
            if self.any_parked.q.val() {
                self.any_parked.d.next = false;
                self.settled.d.next.fault = self.parked.q.val().fault;
                self.settled.d.next.rank = self.parked.q.val().rank;
                self.settled.d.next.ba = self.parked.q.val().ba;
            } else if self.any_overdue.q.val() {
                self.settled.d.next.fault = self.refresh_overdue.val();
                self.settled.d.next.ba = bits::<4>(0);
                if self.overdue.q.val().get_bit(0) {
                    self.settled.d.next.rank = bits::<2>(0);
                    self.reported.next = bits::<4>(1);
                } else if self.overdue.q.val().get_bit(1) {
                    self.settled.d.next.rank = bits::<2>(1);
                    self.reported.next = bits::<4>(2);
                } else if self.overdue.q.val().get_bit(2) {
                    self.settled.d.next.rank = bits::<2>(2);
                    self.reported.next = bits::<4>(4);
                } else {
                    self.settled.d.next.rank = bits::<2>(3);
                    self.reported.next = bits::<4>(8);
                }
            }
        }
        self.still_overdue.next = self.overdue_now.val() ^ self.reported.val();
        self.overdue.d.next = self.still_overdue.val();
        self.any_overdue.d.next = self.still_overdue.val() != 0;
        self.unreported.next = self.lost.q.val();

        // A row is written by ACTIVATE and read by what follows, on the same edge of each.
        self.row_at.next = (bit_cast::<6, 2>(self.judged.q.val().rank) << 4)
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
