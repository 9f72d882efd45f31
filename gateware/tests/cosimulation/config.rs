//! The blocks of the configuration unit.

use fastrand::Rng;
use gateware::config::ItemKind;
use gateware::config::config_unit::ConfigUnit;
use gateware::config::sequence::Sequence;
use gateware::config::settings::SettingsRegister;
use gateware::ddr::SlotEvent;
use hmtt_format::config;

use crate::direct::{chance, spread, with_seeds};
use crate::memories;
use crate::recording::Recording;

/// Registers that do something, and a few that do not.
const REGISTERS: [u16; 24] = [
    config::RESET,
    config::START,
    config::STOP,
    config::MODE_LINE,
    config::MODE_PAGE,
    config::MODE_FREQUENCY,
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
        let (mut named, mut at) = (0, 0u64);
        for _ in 0..4000 {
            if chance(rng, 20) {
                named = register(rng);
            }
            at += if chance(rng, 3) { 4090 + rng.u64(0..12) } else { rng.u64(1..50) };
            let block = &mut recording.block;
            block.access.next = chance(rng, 80);
            block.low.next =
                (u64::from(named) << 6 | if chance(rng, 90) { 0 } else { spread(rng, 32) }).into();
            block.high.next = if chance(rng, 95) { 0u64 } else { spread(rng, 8) }.into();
            block.at.next = (at & 0xffff_ffff).into();
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

fn slot_event(rng: &mut Rng, named: u16, clock: u32) -> SlotEvent {
    let in_registers = chance(rng, 80);
    SlotEvent {
        run_change: chance(rng, 3),
        run: chance(rng, 80),
        slice: chance(rng, 5),
        tick: chance(rng, 5),
        access: chance(rng, 85),
        fault: chance(rng, 10),
        overrun: chance(rng, 3),
        write: rng.bool(),
        high: if in_registers { 0u64 } else { spread(rng, 8) }.into(),
        low: if in_registers { u64::from(named) << 3 } else { spread(rng, 32) }.into(),
        clock: u64::from(clock).into(),
    }
}

#[test]
fn configuration_units_agree() {
    with_seeds(0..2, |rng| {
        let memory = memories::ddr1("config_count = 3");
        let mut recording = Recording::new("configuration unit", ConfigUnit::new(&memory));
        let (mut named, mut clock) = (config::START, 0xffff_0000u32);
        recording.block.straps.next = spread(rng, 16).into();
        let mut popped = true;
        for _ in 0..4000 {
            let block = &mut recording.block;
            if popped {
                if chance(rng, 25) {
                    named = register(rng);
                }
                clock = clock.wrapping_add(rng.u32(1..100));
                block.slot_event.next = slot_event(rng, named, clock);
            }
            block.event_valid.next = chance(rng, 90);
            block.drained.next = chance(rng, 60);
            block.taken.next = false;
            recording.step();
            let offered = recording.block.item.val().kind != ItemKind::Nothing;
            recording.block.taken.next = offered && chance(rng, 70);
            recording.step();
            popped = recording.block.pop.val();
            recording.edge(|block| &mut block.clock);
        }
        recording.agrees();
    });
}
