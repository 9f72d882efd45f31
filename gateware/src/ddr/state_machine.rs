//! DDR state machine unit (DSMU): judges each command by the subset of JEDEC's rules that a snooper
//! needs.
//!
//! Commands come from the DCBU, verdicts go to the event source. The bank table states what each
//! command finds, and this unit judges it. A READ or WRITE is an access only if its bank is open,
//! so no address is ever computed from an unknown row. A command that JEDEC forbids gets a fault
//! code. After a fault that leaves the state of a bank unknown, the bank counts as closed.
//!
//! ```text
//! clock     _/0\_/1\_/2\_/3\_/4\_/5\_
//! command       <A ><B >
//! found             .   <A ><B >
//! judged                    <A ><B >
//! verdict, row                  .   <A ><B >
//! ```
//!
//! A clock has one verdict, an access or a fault. Two kinds of faults wait for the next clock that
//! has neither: a fault in the same clock as an access (tRCD), and an overdue REFRESH, which has no
//! command. If a tRCD fault comes while another one waits, it is counted in `unreported`.
//!
//! The update has four parts, in the order of the data: `command`, `judgement`, `burst`, `report`.

use hmtt_format::record::CountGroup;
use hmtt_format::{FaultKind, Generation, MemoryDescription};
use rust_hdl::prelude::*;

use super::bank_table::{BankTable, CommandLines};
use super::{BANK_BITS, SlotCommand, Verdict};
use crate::fifo::block_ram::BlockRam;
use crate::reset::{Domain, Register};

use burst::Burst;
use command::Command;
use judgement::Judgement;
use report::Report;

mod burst;
mod command;
mod judgement;
mod report;

/// Clocks from a command to its verdict.
const LATENCY: u64 = 5;

/// A fault that waits for a free clock.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct DeferredFault {
    /// Code of the fault, 0 for none.
    fault: Bits<6>,
    rank: Bits<2>,
    ba: Bits<4>,
}

/// The burst length that the last MODE REGISTER SET named.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
struct Length {
    seen: Bit,
    log2: Bits<2>,
}

/// See the module's description.
#[derive(LogicBlock)]
pub struct StateMachine {
    /// DDR clock domain. All other ports are synchronous to it.
    pub clock: Signal<In, Domain>,
    /// Command of this clock.
    pub command: Signal<In, SlotCommand>,
    /// `command` was decoded from a sample of the pins.
    pub valid: Signal<In, Bit>,
    /// Verdict on the command of five clocks before.
    pub verdict: Signal<Out, Verdict>,
    /// Row of the verdict's bank.
    pub row: Signal<Out, Bits<18>>,
    /// `verdict` is the result of a sample of the pins.
    pub verdict_valid: Signal<Out, Bit>,
    /// log2 of the burst length in force. 0 is on the fly: each READ and WRITE chooses 4 or 8.
    pub burst: Signal<Out, Bits<2>>,
    /// Number of faults that could not be reported; stops at 255.
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
    deferred: Register<DeferredFault>,
    has_deferred: Register<Bit>,
    any_overdue: Register<Bit>,
    overdue: Register<Bits<4>>,
    lost: Register<Bits<8>>,
    op: Signal<Local, CommandLines>,
    command_a: Signal<Local, Bits<18>>,
    a: Signal<Local, Bits<18>>,
    found_op: Signal<Local, CommandLines>,
    row_at: Signal<Local, Bits<6>>,
    register: Signal<Local, Bits<4>>,
    kind: Signal<Local, Bits<6>>,
    column: Signal<Local, Bit>,
    needs_closed: Signal<Local, Bit>,
    in_force: Signal<Local, Bits<2>>,
    chops: Signal<Local, Bit>,
    new_length: Signal<Local, Bits<2>>,
    sets_length: Signal<Local, Bit>,
    start: Signal<Local, Bits<18>>,
    overdue_now: Signal<Local, Bits<4>>,
    still_overdue: Signal<Local, Bits<4>>,
    reported: Signal<Local, Bits<4>>,
    uses_mode_register: Constant<Bit>,
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
    last_valid: Constant<Bits<3>>,
    no_command: Constant<CommandLines>,
    no_fault: Constant<Bits<6>>,
    mr0: Constant<Bits<4>>,
    a0: Constant<Bits<5>>,
    a1: Constant<Bits<5>>,
    a2: Constant<Bits<5>>,
    a10: Constant<Bits<5>>,
    a12: Constant<Bits<5>>,
    on_the_fly: Constant<Bits<2>>,
    burst_of_two: Constant<Bits<2>>,
    burst_of_four: Constant<Bits<2>>,
    burst_of_eight: Constant<Bits<2>>,
    row_hit: Constant<Bits<2>>,
    row_miss: Constant<Bits<2>>,
    row_conflict: Constant<Bits<2>>,
    most_lost: Constant<Bits<8>>,
    rank_0: Constant<Bits<2>>,
    rank_1: Constant<Bits<2>>,
    rank_2: Constant<Bits<2>>,
    rank_3: Constant<Bits<2>>,
    only_rank_0: Constant<Bits<4>>,
    only_rank_1: Constant<Bits<4>>,
    only_rank_2: Constant<Bits<4>>,
    only_rank_3: Constant<Bits<4>>,
    bank_bits: Constant<Bits<3>>,
}

impl StateMachine {
    /// Builds the unit for one memory.
    pub fn new(memory: &MemoryDescription) -> Self {
        let code = |kind: FaultKind| Constant::new(u64::from(kind.code()).into());
        let number = |number: u64| Constant::new(number.into());
        let pin = |number: u64| Constant::new(number.into());
        let only = |rank: u64| Constant::new((1u64 << rank).into());
        let initial = u64::from(memory.burst_length.trailing_zeros());
        block! {
            Self {
                bank_table: BankTable::new(memory),
                uses_mode_register: Constant::new(memory.burst_from_mode_register),
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
                last_valid: Constant::new((LATENCY - 1).into()),
                no_command: Constant::new(CommandLines::default()),
                no_fault: Constant::new(0u64.into()),
                mr0: Constant::new(0u64.into()),
                a0: pin(0),
                a1: pin(1),
                a2: pin(2),
                a10: pin(10),
                a12: pin(12),
                on_the_fly: number(0),
                burst_of_two: number(1),
                burst_of_four: number(2),
                burst_of_eight: number(3),
                row_hit: number(CountGroup::RowHits as u64),
                row_miss: number(CountGroup::RowMisses as u64),
                row_conflict: number(CountGroup::RowConflicts as u64),
                most_lost: Constant::new(u64::from(u8::MAX).into()),
                rank_0: number(0),
                rank_1: number(1),
                rank_2: number(2),
                rank_3: number(3),
                only_rank_0: only(0),
                only_rank_1: only(1),
                only_rank_2: only(2),
                only_rank_3: only(3),
                bank_bits: Constant::new(BANK_BITS.into()),
            }
            default: clock, command, valid, verdict, row, verdict_valid, burst, unreported, rows,
                judged, activated, settled, out, out_row, valids, a_spread, a_found, length,
                deferred, has_deferred, any_overdue, overdue, lost, op, command_a, a, found_op,
                row_at, register, kind, column, needs_closed, in_force, chops, new_length,
                sets_length, start, overdue_now, still_overdue, reported
        }
    }
}

impl Logic for StateMachine {
    update_in_parts!(Command, Judgement, Burst, Report);
}
