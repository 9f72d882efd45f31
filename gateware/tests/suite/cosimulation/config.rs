//! Tests the blocks of the configuration unit.

use fastrand::Rng;
use gateware::config::Progress;
use gateware::config::config_unit::ConfigUnit;
use gateware::config::settings::SettingsRegister;
use gateware::ddr::SlotEvent;
use gateware::ddr::sequence::Sequence;
use hmtt_format::config;

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

/// Registers with an effect, and a few without.
const REGISTERS: [u16; 27] = [
    config::RESET,
    config::START,
    config::STOP,
    config::MODE_LINE,
    config::MODE_PAGE,
    config::MODE_FREQUENCY,
    config::MODE_ANALYSIS,
    config::ANALYSIS_ON,
    config::ANALYSIS_OFF,
    config::FREQUENCY_ON,
    config::FREQUENCY_OFF,
    config::GRANULARITY_LINE,
    config::GRANULARITY_BURST,
    config::SLICE_FIRST,
    config::SLICE_FIRST + 18,
    config::SLICE_FIRST + 19,
    config::THRESHOLD_FIRST,
    config::THRESHOLD_FIRST + 7,
    config::TAG_NIBBLE_FIRST,
    config::TAG_NIBBLE_FIRST + 15,
    config::TAG_ON,
    config::TAG_OFF,
    config::MARK_KERNEL_ENTER,
    config::MARK_FREE_FIRST,
    config::MARK_FREE_LAST,
    0,
    0x62,
];

fn register(rng: &mut Rng) -> u16 {
    if chance(rng, 80) { REGISTERS[rng.usize(0..REGISTERS.len())] } else { rng.u16(0..512) }
}

#[test]
fn sequence_detectors_agree() {
    with_seeds(0..1, |rng| {
        let memory = memories::ddr1("config_count = 4\nconfig_stride = 64");
        let mut recording = Recording::new("sequence", Sequence::new(&memory));
        let mut named = 0;
        for _ in 0..4000 {
            if chance(rng, 20) {
                named = register(rng);
            }
            let block = &mut recording.block;
            block.passes.next = chance(rng, 80);
            block.in_registers.next = chance(rng, 80);
            block.low.next =
                (u64::from(named) << 6 | if chance(rng, 90) { 0 } else { spread(rng, 32) }).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

#[test]
fn settings_registers_agree() {
    with_seeds(0..1, |rng| {
        let mut recording = Recording::new("settings register", SettingsRegister::default());
        for clock in 0..3000 {
            if clock % 100 == 0 {
                recording.block.straps.next = spread(rng, 16).into();
            }
            recording.block.restore.next = chance(rng, 2);
            recording.block.apply.next = chance(rng, 60);
            recording.block.register.next = u64::from(register(rng)).into();
            recording.step();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}

fn slot_event(rng: &mut Rng, named: u16) -> SlotEvent {
    let in_registers = chance(rng, 80);
    let mut event = SlotEvent {
        run_change: chance(rng, 3),
        run: chance(rng, 80),
        slice: chance(rng, 5),
        tick: chance(rng, 5),
        access: chance(rng, 85),
        fault: chance(rng, 10),
        overrun: chance(rng, 3),
        write: rng.bool(),
        command: in_registers && chance(rng, 30),
        high: if in_registers { 0u64 } else { spread(rng, 8) }.into(),
        low: if in_registers { u64::from(named) << 3 } else { spread(rng, 32) }.into(),
        gap: spread(rng, 16).into(),
        bank: spread(rng, 6).into(),
        row_state: rng.u64(0..3).into(),
        ..Default::default()
    };
    event.is_control = event.run_change || event.slice || event.tick;
    event
}

fn config_unit(rng: &mut Rng) -> Recording<ConfigUnit> {
    let memory = memories::ddr1("config_count = 3");
    let mut recording = Recording::new("configuration unit", ConfigUnit::new(&memory));
    let mut named = config::START;
    recording.block.straps.next = spread(rng, 16).into();
    let mut popped = true;
    for _ in 0..5000 {
        let block = &mut recording.block;
        if popped {
            if chance(rng, 25) {
                named = register(rng);
            }
            block.events.head.next = slot_event(rng, named);
        }
        block.events.valid.next = chance(rng, 90);
        block.advance.next = chance(rng, 80);
        block.progress.next = Progress {
            drained: chance(rng, 70),
            waiting: rng.bool(),
            stale: rng.bool(),
            silent: rng.bool(),
            counted: rng.bool(),
            free: chance(rng, 70),
            idle: chance(rng, 70),
            dumped: chance(rng, 70),
            interval: rng.bool(),
        };
        recording.step();
        popped = recording.block.events.pop.val();
        recording.edge(|block| &mut block.clock);
    }
    recording
}

#[test]
fn configuration_units_agree() {
    with_seeds(0..2, |rng| config_unit(rng).agrees());
}

#[test]
fn a_wrong_slice_is_a_difference() {
    let tck = memories::ddr1("").tck_ps;
    let last = |code| format!("5'd18: word = 32'h{:08x};", config::slice_clocks(code, tck) - 1);
    config_unit(&mut Rng::with_seed(1)).notices(&last(18), &last(17));
}
