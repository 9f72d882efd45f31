//! Compares DDR state machine and event source with models, on legal and illegal commands.

use fastrand::Rng;
use gateware::ddr::event_source::EventSource;
use gateware::ddr::state_machine::StateMachine;
use gateware::ddr::{CommandCode, SlotCommand, Verdict};
use hmtt_format::MemoryDescription;
use hmtt_format::address_map::{Axis, Coordinates};
use hmtt_format::command::column_pins;

use super::state_machine_model::{Model, Outcome, To};
use crate::direct::{chance, pulse, settled, spread, with_seeds};
use crate::memories;

/// Number of edges from a command to its verdict.
const LATENCY: usize = 5;

const RARE: [CommandCode; 8] = [
    CommandCode::PrechargeAll,
    CommandCode::PrechargeAll,
    CommandCode::Refresh,
    CommandCode::Refresh,
    CommandCode::ModeRegisterSet,
    CommandCode::BurstTerminate,
    CommandCode::ZqCalibration,
    CommandCode::Reserved,
];

fn random_code(rng: &mut Rng) -> CommandCode {
    match rng.u8(0..20) {
        0..6 => CommandCode::NoCommand,
        6..9 => CommandCode::Activate,
        9..12 => CommandCode::Read,
        12..15 => CommandCode::Write,
        15 | 16 => CommandCode::Precharge,
        _ => RARE[rng.usize(0..RARE.len())],
    }
}

/// Returns any command to one rank, sometimes to several. Few banks are used, so that commands
/// interact.
fn random(rng: &mut Rng, memory: &MemoryDescription, quiet: bool) -> To {
    let present = (1u8 << memory.ranks()) - 1;
    let single_rank = 1 << rng.u8(0..memory.ranks());
    let ranks = if chance(rng, 5) { rng.u8(1..16) & present } else { single_rank };
    let code = if quiet || ranks == 0 { CommandCode::NoCommand } else { random_code(rng) };
    let ranks = if code == CommandCode::NoCommand { 0 } else { ranks };
    let sleeps = code == CommandCode::Refresh && chance(rng, 40);
    // The mode register is mostly MR0.
    let few = if code == CommandCode::ModeRegisterSet { 0 } else { 3 };
    To {
        code,
        ranks,
        cke_falls: if sleeps { ranks } else { 0 },
        // A rank whose CKE rises takes no command.
        cke_rises: if chance(rng, 10) { rng.u8(0..16) & present & !ranks } else { 0 },
        ba: rng.u64(0..16) & if chance(rng, 80) { few } else { 15 },
        a: spread(rng, 18),
    }
}

fn made(machine: &StateMachine) -> (Verdict, u64) {
    (machine.verdict.val(), machine.row.val().to_u64())
}

fn outcome((verdict, row): (Verdict, u64)) -> Outcome {
    let place = (verdict.rank.to_u64(), verdict.ba.to_u64());
    let fault = verdict.fault.to_u64() as u8;
    assert!(!verdict.access || fault == 0, "an access and a fault");
    if verdict.access {
        let (write, a) = (verdict.write, verdict.a.to_u64());
        Outcome::Access { write, place, row, a, row_state: verdict.row_state.to_u64() }
    } else if fault != 0 {
        Outcome::Fault { code: fault, place }
    } else {
        Outcome::Nothing
    }
}

#[test]
fn verdicts_equal_those_of_the_model() {
    let mut kinds = std::collections::BTreeSet::new();
    let seen_kinds = std::cell::RefCell::new(&mut kinds);
    with_seeds(0..8, |rng| {
        for memory in memories::decoded() {
            let mut machine = settled(StateMachine::new(&memory));
            let mut model = Model::new(&memory);
            let mut expected = std::collections::VecDeque::new();
            let mut quiet = false;
            for clock in 0..4000 {
                // In quiet stretches the minimum distances pass and refreshes become overdue.
                quiet ^= chance(rng, if quiet { 2 } else { 1 });
                let to = random(rng, &memory, quiet);
                machine.command.next = SlotCommand {
                    code: to.code,
                    ranks: u64::from(to.ranks).into(),
                    cke_falls: u64::from(to.cke_falls).into(),
                    cke_rises: u64::from(to.cke_rises).into(),
                    ba: to.ba.into(),
                    a: to.a.into(),
                };
                machine.valid.next = clock > 0;
                expected.push_back(model.take(clock, to));
                pulse(&mut machine, |machine| &mut machine.clock);
                if expected.len() < LATENCY {
                    continue;
                }
                assert_eq!(machine.verdict_valid.val(), clock >= LATENCY as u64);
                let verdict = outcome(made(&machine));
                assert_eq!(Some(verdict), expected.pop_front(), "{memory:?} before {clock}");
                match verdict {
                    Outcome::Fault { code, .. } => {
                        seen_kinds.borrow_mut().insert(code);
                    }
                    Outcome::Access { row_state, .. } => {
                        seen_kinds.borrow_mut().insert(64 + row_state as u8);
                    }
                    Outcome::Nothing => {}
                }
            }
            assert_eq!(machine.unreported.val().to_u64(), model.unreported().min(255));
        }
    });
    // Every kind of fault, row hits, misses and conflicts.
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), (1..=14).chain(64..=66).collect::<Vec<u8>>());
}

#[test]
fn accesses_have_the_address_of_the_map() {
    with_seeds(0..4, |rng| {
        for memory in memories::decoded() {
            let mut source = settled(EventSource::new(&memory));
            source.valid.next = true;
            source.slice_last.next = 0xffffu64.into();
            pulse(&mut source, |source| &mut source.clock);
            for _ in 0..300 {
                let bits = |axis| u32::from(memory.bits(axis));
                let at = Coordinates {
                    rank: spread(rng, bits(Axis::Rank).max(1)) as u32
                        & (u32::from(memory.ranks()) - 1),
                    bank: spread(rng, bits(Axis::Bank)) as u32,
                    row: spread(rng, bits(Axis::Row)) as u32,
                    column: spread(rng, bits(Axis::Column)) as u32,
                };
                let a = column_pins(memory.generation, at.column, memory.bits(Axis::Column));
                let auto_precharge = u32::from(rng.bool()) << 10;
                source.verdict.next = Verdict {
                    access: true,
                    rank: u64::from(at.rank).into(),
                    ba: u64::from(at.bank).into(),
                    a: u64::from(a | auto_precharge).into(),
                    ..Default::default()
                };
                source.row.next = u64::from(at.row).into();
                (0..3).for_each(|_| pulse(&mut source, |source| &mut source.clock));
                let event = source.events.slot_event.val();
                let address = event.high.to_u64() << 32 | event.low.to_u64();
                assert_eq!(address, memory.map.to_address(at), "{at:?}");
            }
        }
    });
}

#[test]
fn each_clock_has_one_event_and_ticks_are_regular() {
    with_seeds(0..3, |rng| {
        let memory = memories::ddr1("tick_clocks = 300");
        let mut source = settled(EventSource::new(&memory));
        source.slices.next = true;
        source.slice_last.next = 99u64.into();
        let (idle, mut before) = (rng.u64(0..20), [false; 2]);
        for clock in 0..5000 {
            // The outputs follow from the inputs two clocks before.
            source.valid.next = clock >= idle;
            let access = before[0];
            before = [before[1], chance(rng, 50)];
            source.verdict.next = Verdict { access: before[1], ..Default::default() };
            pulse(&mut source, |source| &mut source.clock);
            let now = clock.checked_sub(idle + 2);
            assert_eq!(source.events.clocked.val(), now.is_some());
            let Some(now) = now else {
                assert!(!source.events.push.val(), "nothing happens before the first sample");
                continue;
            };
            let event = source.events.slot_event.val();
            assert_eq!(event.access, access);
            assert_eq!(event.tick, now % 300 == 299, "tick at {now}");
            assert_eq!(event.slice, now > 0 && now % 100 == 0, "slice at {now}");
            assert_eq!(event.is_control, event.tick || event.slice);
            assert_eq!(source.events.push.val(), access || event.is_control);
        }
    });
}
