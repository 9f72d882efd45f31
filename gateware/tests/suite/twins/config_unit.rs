//! Compares the configuration unit with a model under random events and commands: items, settings,
//! and requests to other units.

use fastrand::Rng;
use gateware::config::ItemKind;
use gateware::config::Progress;
use gateware::config::config_unit::ConfigUnit;
use gateware::ddr::SlotEvent;
use gateware::record::RecordKind;
use gateware::straps;
use hmtt_format::config::{self, Granularity, Mode, slice_clocks};

use super::config_unit_model::{Act, Behind, Chosen, Done, Model, POWER_ON};
use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

/// The unit with simulated neighbours that respond with random delays.
struct Bench {
    unit: ConfigUnit,
    behind: Behind,
    /// Clocks until no item is on its way to the traces.
    passing: u32,
    /// Clocks until the block writer releases its record.
    held: u32,
    /// Clocks until the block writer has no open block.
    open: u32,
    /// Whether no dump is running.
    dumped: bool,
    /// Whether the end of the capture has not been reported.
    ending: bool,
    clock: u64,
    done: Vec<Done>,
}

impl Bench {
    fn new(behind: Behind) -> Self {
        let memory = memories::ddr1("");
        let mut unit = settled(ConfigUnit::new(&memory));
        let power_on = straps(Mode::Page, Granularity::Burst, false, POWER_ON.slice, false);
        unit.straps.next = u64::from(power_on).into();
        pulse(&mut unit, |unit| &mut unit.clock);
        Self {
            unit,
            behind,
            passing: 0,
            held: 0,
            open: 0,
            dumped: true,
            ending: false,
            clock: 0,
            done: Vec::new(),
        }
    }

    /// Applies one clock. Returns whether the event was taken.
    fn clock(&mut self, event: Option<SlotEvent>, rng: &mut Rng) -> bool {
        let (unit, behind) = (&mut self.unit, self.behind);
        unit.events.head.next = event.unwrap_or_default();
        unit.events.valid.next = event.is_some();
        unit.advance.next = self.held == 0 && chance(rng, 80);
        unit.progress.next = Progress {
            drained: self.passing == 0,
            waiting: behind.waiting,
            stale: behind.stale,
            silent: behind.silent,
            counted: behind.counted,
            free: self.held == 0,
            idle: self.held == 0 && self.open == 0,
            dumped: self.dumped,
            interval: behind.interval,
        };
        settle(unit);
        self.keep();
        let requests = self.unit.requests.val();
        let passes = self.unit.advance.val() && self.unit.item.val().kind != ItemKind::Nothing;
        let before = Chosen::from(self.unit.settings.val());
        let popped = self.unit.events.pop.val();
        let may_send = self.unit.may_send.val();
        pulse(&mut self.unit, |unit| &mut unit.clock);

        let requested = requests.flush || requests.record_kind != RecordKind::Nothing;
        assert!(!requested || self.held == 0, "requested while the block writer has a record");
        assert!(!requested || self.passing == 0, "requested before all earlier items have passed");
        let after = Chosen::from(self.unit.settings.val());
        // Before the end is reported, an open block contains only results of the analysis.
        let busy = requested || self.held > 0 || (self.open > 0 && !self.ending);
        assert!(before == after || !busy, "settings change under what was recorded");
        self.dumped &= !requests.dump;
        self.passing = if passes { rng.u32(3..6) } else { self.passing.saturating_sub(1) };
        if requested {
            (self.held, self.open) = (rng.u32(1..5), rng.u32(1..9));
        } else if may_send && self.held == 0 && !passes && chance(rng, 3) {
            // A record of the analysis.
            (self.held, self.open) = (rng.u32(1..5), rng.u32(1..9));
        } else if self.held > 0 {
            self.held -= 1;
        } else {
            self.open = self.open.saturating_sub(1);
        }
        popped
    }

    /// Records what the unit does on this clock.
    fn keep(&mut self) {
        let unit = &self.unit;
        let (item, requests) = (unit.item.val(), unit.requests.val());
        let mut acts = Vec::new();
        if unit.advance.val() && item.kind != ItemKind::Nothing {
            self.clock += item.gap.to_u64();
            let value = item.high.to_u64() << 32 | item.low.to_u64();
            match item.kind {
                ItemKind::Time => {}
                // A mark consists of its register only.
                ItemKind::Mark => {
                    acts.push(Act::Item(item.kind, false, value & 0xffff_ffff));
                }
                // An overrun is not an access and has no direction.
                ItemKind::Overrun => acts.push(Act::Item(item.kind, false, value)),
                kind => acts.push(Act::Item(kind, item.write, value)),
            }
        }
        if requests.flush {
            acts.push(Act::Flush);
        }
        if requests.record_kind != RecordKind::Nothing {
            acts.push(Act::Tell(requests.record_kind));
        }
        for (asked, act) in [
            (requests.restart_time, Act::RestartTime),
            (requests.restart_slice, Act::RestartSlice),
            (requests.dump, Act::Dump),
            (unit.slice_restart.val(), Act::Regrid),
        ] {
            if asked {
                acts.push(act);
            }
        }
        let (settings, running) = (unit.settings.val().into(), unit.running.val());
        self.done.extend(acts.into_iter().map(|act| (act, self.clock, settings, running)));
    }
}

fn event(rng: &mut Rng, register: u16, gap: u64) -> SlotEvent {
    let in_registers = chance(rng, 85);
    let address = if in_registers { u64::from(register) << 3 } else { spread(rng, 40) };
    let what = rng.u8(0..20);
    let mut event = SlotEvent {
        slice: chance(rng, 4),
        tick: chance(rng, 4),
        access: what > 2,
        fault: what == 1,
        write: rng.bool(),
        high: (address >> 32).into(),
        low: (address & 0xffff_ffff).into(),
        gap: gap.into(),
        row_state: rng.u64(0..3).into(),
        bank: rng.u64(0..64).into(),
        ..Default::default()
    };
    event.overrun = what == 0;
    let without_access = !event.access && !event.fault;
    event.command = (event.access && in_registers || without_access) && chance(rng, 25);
    event
}

fn random_register(rng: &mut Rng) -> u16 {
    match rng.u8(0..10) {
        0 => config::START,
        1 => [config::STOP, config::RESET][rng.usize(0..2)],
        2 => 0x60 + rng.u16(0..3),
        3 => rng.u16(0..512),
        4 | 5 => 0x40 + rng.u16(0..16),
        _ => rng.u16(0x10..0x54),
    }
}

#[test]
fn the_unit_agrees_with_the_model() {
    with_seeds(0..24, |rng| {
        let waiting = rng.bool();
        let behind = Behind {
            waiting,
            stale: rng.bool(),
            silent: !waiting && rng.bool(),
            counted: chance(rng, 70),
            interval: rng.bool(),
        };
        let (mut bench, mut model) = (Bench::new(behind), Model::new(behind));
        let (mut clock, mut register, mut run) = (0, config::START, false);
        for number in 0..3000 {
            let gap = rng.u64(0..40);
            clock += gap;
            let mut event = event(rng, register, gap);
            if number == 0 || chance(rng, if run { 1 } else { 10 }) {
                run = !run;
                event.run_change = true;
            }
            event.run = run;
            event.is_control = event.run_change || event.slice || event.tick;
            event.is_control |= event.command && !event.access;
            if chance(rng, 15) {
                register = random_register(rng);
            }
            let mut patience = 1000;
            loop {
                let offered = chance(rng, 90).then_some(event);
                if bench.clock(offered, rng) && offered.is_some() {
                    break;
                }
                patience -= 1;
                assert!(patience > 0, "event {number} is not taken: {event:?}");
            }
            model.take(&event, clock);
            bench.ending = model.ending;
            if chance(rng, 5) {
                // All commands are executed, and then the dump is completed.
                (0..150).for_each(|_| assert!(!bench.clock(None, rng)));
                bench.dumped = true;
                model.dumped();
                (0..50).for_each(|_| assert!(!bench.clock(None, rng)));
                bench.ending = model.ending;
            }
        }
        (0..200).for_each(|_| assert!(!bench.clock(None, rng)));
        for (place, (done, expected)) in bench.done.iter().zip(&model.done).enumerate() {
            assert_eq!(done, expected, "act {place}");
        }
        assert_eq!(bench.done.len(), model.done.len());
        assert_eq!(Chosen::from(bench.unit.settings.val()), model.chosen);
        let clocks = u64::from(slice_clocks(model.chosen.slice, memories::ddr1("").tck_ps));
        assert_eq!(bench.unit.slice_last.val().to_u64(), clocks - 1);
        let sliced = model.chosen.frequency || model.chosen.mode == Mode::Frequency as u64;
        assert_eq!(bench.unit.slices.val(), sliced);
        assert_eq!(bench.clock, clock, "gaps add up");
    });
}

/// A change of the run switch, or a completed command.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Switch(bool),
    Command(u16),
}

#[test]
fn a_stop_by_software_survives_the_run_switch_until_a_start_or_reset() {
    use Cause::{Command, Switch};
    let nothing =
        Behind { waiting: false, stale: false, silent: false, counted: false, interval: false };
    for again in [config::START, config::RESET] {
        with_seeds(0..1, |rng| {
            let mut bench = Bench::new(nothing);
            let mut run = false;
            let steps = [
                (Switch(true), true),
                (Command(config::STOP), false),
                (Switch(false), false),
                (Switch(true), false),
                (Command(again), true),
                (Switch(false), false),
                (Switch(true), true),
                // With the switch off a start does not start the capture, but cancels the stop.
                (Command(config::STOP), false),
                (Switch(false), false),
                (Command(again), false),
                (Switch(true), true),
            ];
            for (step, (cause, running)) in steps.into_iter().enumerate() {
                let mut event = SlotEvent { gap: 1u64.into(), ..Default::default() };
                match cause {
                    Switch(on) => {
                        run = on;
                        (event.run_change, event.is_control) = (true, true);
                    }
                    Command(register) => {
                        (event.access, event.command) = (true, true);
                        event.low = (u64::from(register) << 3).into();
                    }
                }
                event.run = run;
                let is_taken = (0..1000).any(|_| bench.clock(Some(event), rng));
                assert!(is_taken, "step {step}: {cause:?}");
                (0..200).for_each(|_| assert!(!bench.clock(None, rng)));
                assert_eq!(bench.unit.running.val(), running, "{again:#x}, step {step}: {cause:?}");
            }
        });
    }
}
