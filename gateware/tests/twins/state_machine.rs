//! DDR state machine and event source against plain ones, on legal and illegal commands.

use std::collections::BTreeMap;

use fastrand::Rng;
use gateware::ddr::event_source::EventSource;
use gateware::ddr::state_machine::StateMachine;
use gateware::ddr::{CommandCode, SlotCommand, Verdict};
use hmtt_format::address_map::{Axis, Coordinates};
use hmtt_format::command::column_pins;
use hmtt_format::{FaultKind, MemoryDescription};

use crate::direct::{chance, pulse, settled, spread, with_seeds};
use crate::memories;

/// What a command comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Nothing,
    Access { write: bool, row: u64 },
    Fault(FaultKind),
}

/// Rows of open banks, and the clock from which commands are allowed again.
struct Model {
    open: BTreeMap<u64, u64>,
    refreshed: u64,
    trfc: u64,
}

impl Model {
    fn new(memory: &MemoryDescription) -> Self {
        Self { open: BTreeMap::new(), refreshed: 0, trfc: memory.trfc_clocks.into() }
    }

    fn take(&mut self, clock: u64, code: CommandCode, ba: u64, a: u64) -> Outcome {
        let refreshing = clock < self.refreshed;
        let outcome = self.judge(clock, refreshing, code, ba, a);
        match code {
            CommandCode::Quiet => Outcome::Nothing,
            // The verdict's access flag is not looked at beside a fault.
            _ if refreshing => Outcome::Fault(FaultKind::CommandInRfc),
            _ => outcome,
        }
    }

    fn judge(
        &mut self,
        clock: u64,
        refreshing: bool,
        code: CommandCode,
        ba: u64,
        a: u64,
    ) -> Outcome {
        let open = !self.open.is_empty();
        match code {
            CommandCode::Activate if self.open.remove(&ba).is_some() => {
                Outcome::Fault(FaultKind::ActivateOpen)
            }
            CommandCode::Activate => {
                if !refreshing {
                    self.open.insert(ba, a);
                }
                Outcome::Nothing
            }
            CommandCode::Read | CommandCode::Write => {
                self.access(code == CommandCode::Write, ba, a)
            }
            CommandCode::Precharge => {
                self.open.remove(&ba);
                Outcome::Nothing
            }
            CommandCode::PrechargeAll => {
                self.open.clear();
                Outcome::Nothing
            }
            CommandCode::Refresh | CommandCode::SelfRefreshEntry if open => {
                self.open.clear();
                Outcome::Fault(FaultKind::RefreshOpen)
            }
            CommandCode::Refresh => {
                self.refreshed = clock + self.trfc;
                Outcome::Nothing
            }
            CommandCode::ModeRegisterSet if open => Outcome::Fault(FaultKind::ModeRegisterOpen),
            CommandCode::Reserved => Outcome::Fault(FaultKind::Reserved),
            _ => Outcome::Nothing,
        }
    }

    fn access(&mut self, write: bool, ba: u64, a: u64) -> Outcome {
        let Some(row) = self.open.get(&ba).copied() else {
            let kind = if write { FaultKind::WriteIdle } else { FaultKind::ReadIdle };
            return Outcome::Fault(kind);
        };
        if a >> 10 & 1 != 0 {
            self.open.remove(&ba);
        }
        Outcome::Access { write, row }
    }
}

const RARE: [CommandCode; 8] = [
    CommandCode::Precharge,
    CommandCode::PrechargeAll,
    CommandCode::Refresh,
    CommandCode::SelfRefreshEntry,
    CommandCode::ModeRegisterSet,
    CommandCode::BurstTerminate,
    CommandCode::ZqCalibration,
    CommandCode::Reserved,
];

fn random_code(rng: &mut Rng) -> CommandCode {
    match rng.u8(0..20) {
        0..6 => CommandCode::Quiet,
        6..9 => CommandCode::Activate,
        9..13 => CommandCode::Read,
        13..17 => CommandCode::Write,
        _ => RARE[rng.usize(0..RARE.len())],
    }
}

#[test]
fn verdicts_are_those_of_the_plain_state_machine() {
    with_seeds(0..30, |rng| {
        let memory = memories::all()[rng.usize(0..4)].clone();
        let (mut machine, mut model) = (settled(StateMachine::new(&memory)), Model::new(&memory));
        for clock in 0..6000 {
            let (code, ba, a) = (random_code(rng), rng.u64(0..16), spread(rng, 18));
            machine.command.next = SlotCommand { code, ba: ba.into(), a: a.into() };
            pulse(&mut machine, |machine| &mut machine.clock);
            let verdict = machine.verdict.val();
            let made = match verdict.fault.to_u64() as u8 {
                0 if verdict.access => {
                    Outcome::Access { write: verdict.write, row: machine.row.val().to_u64() }
                }
                0 => Outcome::Nothing,
                fault => Outcome::Fault(FaultKind::from_code(fault).expect("a kind of fault")),
            };
            assert_eq!(made, model.take(clock, code, ba, a), "{code:?} to {ba} at {clock}");
            assert_eq!((verdict.ba.to_u64(), verdict.a.to_u64()), (ba, a));
        }
    });
}

#[test]
fn accesses_are_located_where_the_map_says() {
    with_seeds(0..4, |rng| {
        for memory in memories::all() {
            let mut source = settled(EventSource::new(&memory));
            source.valid.next = true;
            source.slice_last.next = 0xffffu64.into();
            pulse(&mut source, |source| &mut source.clock);
            for _ in 0..300 {
                let bits = |axis| u32::from(memory.bits(axis));
                let at = Coordinates {
                    rank: 0,
                    bank: spread(rng, bits(Axis::Bank)) as u32,
                    row: spread(rng, bits(Axis::Row)) as u32,
                    column: spread(rng, bits(Axis::Column)) as u32,
                };
                let a = column_pins(memory.generation, at.column, memory.bits(Axis::Column));
                let auto_precharge = u32::from(rng.bool()) << 10;
                source.verdict.next = Verdict {
                    access: true,
                    ba: u64::from(at.bank).into(),
                    a: u64::from(a | auto_precharge).into(),
                    ..Default::default()
                };
                source.row.next = u64::from(at.row).into();
                pulse(&mut source, |source| &mut source.clock);
                let event = source.slot_event.val();
                let address = event.high.to_u64() << 32 | event.low.to_u64();
                assert_eq!(address, memory.map.to_address(at), "{at:?}");
            }
        }
    });
}

#[test]
fn events_carry_the_number_of_their_clock_and_ticks_come_evenly() {
    with_seeds(0..3, |rng| {
        let memory = memories::ddr1("tick_clocks = 300");
        let mut source = settled(EventSource::new(&memory));
        source.slices.next = true;
        source.slice_last.next = 99u64.into();
        let idle = rng.u64(0..20);
        for clock in 0..5000 {
            source.valid.next = clock >= idle;
            let access = chance(rng, 50);
            source.verdict.next = Verdict { access, ..Default::default() };
            pulse(&mut source, |source| &mut source.clock);
            let Some(now) = clock.checked_sub(idle + 1) else {
                assert!(!source.happened.val(), "nothing happens before the first sample");
                continue;
            };
            let event = source.slot_event.val();
            assert_eq!(event.clock.to_u64(), now);
            assert_eq!(event.access, access);
            assert_eq!(event.tick, now % 300 == 299, "tick at {now}");
            assert_eq!(event.slice, now > 0 && now % 100 == 0, "slice at {now}");
            assert_eq!(source.happened.val(), access || event.tick || event.slice);
        }
    });
}
