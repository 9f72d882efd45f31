//! Configuration unit against a plain one: items, settings and the run switch under random commands.

use fastrand::Rng;
use gateware::config::config_unit::ConfigUnit;
use gateware::config::{ItemKind, Settings};
use gateware::ddr::SlotEvent;
use gateware::straps;
use hmtt_format::config::{self, Granularity, Mode, slice_clocks, threshold_words};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

const COUNT: u8 = 4;

/// The settings in the format's own words.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chosen {
    mode: u64,
    burst: bool,
    frequency: bool,
    slice: u8,
    threshold: u8,
    tag: bool,
    base: u64,
}

impl From<Settings> for Chosen {
    fn from(settings: Settings) -> Self {
        Self {
            mode: settings.mode.to_u64(),
            burst: settings.burst,
            frequency: settings.frequency,
            slice: settings.slice.to_u64() as u8,
            threshold: settings.threshold.to_u64() as u8,
            tag: settings.tag,
            base: settings.tag_high.to_u64() << 32 | settings.tag_low.to_u64(),
        }
    }
}

const POWER_ON: Chosen = Chosen {
    mode: Mode::Page as u64,
    burst: true,
    frequency: false,
    slice: 7,
    threshold: hmtt_format::frame::MAX_WORDS,
    tag: false,
    base: 0,
};

/// An item with the settings it is recorded under: kind, write, value, clock. The value is the address,
/// the register, or what a fault or an overrun says.
type Made = (ItemKind, Option<(bool, u64)>, u64, Chosen);

struct Model {
    chosen: Chosen,
    switched_on: bool,
    stopped: bool,
    runs: bool,
    last: Option<u16>,
    count: u8,
    made: Vec<Made>,
}

impl Model {
    fn new() -> Self {
        Self {
            chosen: POWER_ON,
            switched_on: false,
            stopped: false,
            runs: false,
            last: None,
            count: 0,
            made: Vec::new(),
        }
    }

    fn tell(&mut self, kind: ItemKind, value: Option<(bool, u64)>, clock: u64) {
        if self.runs {
            self.made.push((kind, value, clock, self.chosen));
        }
    }

    fn start(&mut self, clock: u64) {
        self.runs = true;
        self.tell(ItemKind::Start, None, clock);
    }

    fn stop(&mut self, clock: u64) {
        self.tell(ItemKind::Stop, None, clock);
        self.runs = false;
    }

    fn take(&mut self, event: &SlotEvent, clock: u64) {
        let value = event.high.to_u64() << 32 | event.low.to_u64();
        let with_value = Some((event.write, value));
        if event.run_change {
            self.switched_on = event.run;
            match event.run && !self.stopped {
                true => self.start(clock),
                false => self.stop(clock),
            }
        }
        if event.slice {
            self.tell(ItemKind::Slice, None, clock);
        }
        if event.tick {
            self.tell(ItemKind::Tick, None, clock);
        }
        if event.access {
            let window = 1 << memories::ddr1("").tag_window_log2;
            let tagged = self.chosen.tag && (value ^ self.chosen.base) < window;
            let kind = if tagged { ItemKind::WindowTag } else { ItemKind::Access };
            self.tell(kind, with_value, clock);
            self.count(value, event.write, clock);
        } else if event.fault {
            self.tell(ItemKind::Fault, with_value, clock);
        } else if event.overrun {
            self.tell(ItemKind::Overrun, with_value, clock);
        }
    }

    fn count(&mut self, address: u64, write: bool, clock: u64) {
        if address >= 0x1000 {
            return;
        }
        let register = (address >> 3) as u16;
        self.count = if self.last == Some(register) { self.count + 1 } else { 1 };
        self.last = Some(register);
        if self.count == COUNT {
            self.last = None;
            self.command(register, write, clock, address);
        }
    }

    fn command(&mut self, register: u16, write: bool, clock: u64, address: u64) {
        match register {
            _ if config::is_mark(register) => {
                let value = address >> 32 << 32 | u64::from(register);
                self.tell(ItemKind::Mark, Some((write, value)), clock);
            }
            config::START | config::RESET => {
                if register == config::RESET {
                    self.stop(clock);
                    self.chosen = POWER_ON;
                }
                self.stopped = false;
                if self.switched_on {
                    self.start(clock);
                }
            }
            config::STOP => {
                self.stop(clock);
                self.stopped = true;
            }
            _ => {
                let before = self.chosen;
                if let Some(after) = changed(before, register) {
                    self.tell(ItemKind::Change, None, clock);
                    self.chosen = after;
                    self.tell(ItemKind::Start, None, clock);
                }
            }
        }
    }
}

/// The settings after a command; `None` when it is no setting.
fn changed(mut chosen: Chosen, register: u16) -> Option<Chosen> {
    let offset = |first: u16| (register - first) as u8;
    match register {
        config::MODE_LINE => chosen.mode = Mode::Line as u64,
        config::MODE_PAGE => chosen.mode = Mode::Page as u64,
        config::MODE_FREQUENCY => chosen.mode = Mode::Frequency as u64,
        config::FREQUENCY_ON => chosen.frequency = true,
        config::FREQUENCY_OFF => chosen.frequency = false,
        config::GRANULARITY_LINE => chosen.burst = false,
        config::GRANULARITY_BURST => chosen.burst = true,
        0x20..=0x32 => chosen.slice = offset(config::SLICE_FIRST),
        0x38..=0x3f => chosen.threshold = threshold_words(offset(config::THRESHOLD_FIRST)),
        0x40..=0x4f => {
            let nibble = u64::from(offset(config::TAG_NIBBLE_FIRST));
            chosen.base = chosen.base << 4 & 0xff_ffff_ffff | nibble;
        }
        config::TAG_ON => chosen.tag = true,
        config::TAG_OFF => chosen.tag = false,
        _ => return None,
    }
    Some(chosen)
}

fn event(rng: &mut Rng, register: u16, base: u64, clock: u64) -> SlotEvent {
    let window = base ^ rng.u64(0..1 << 18);
    let address = match rng.u8(0..20) {
        0 => spread(rng, 40),
        1..4 => window & 0xff_ffff_ffff,
        _ => u64::from(register) << 3,
    };
    let what = rng.u8(0..20);
    SlotEvent {
        run_change: chance(rng, 2),
        run: chance(rng, 85),
        slice: chance(rng, 4),
        tick: chance(rng, 4),
        access: what > 1,
        fault: what == 1,
        overrun: what == 0,
        write: rng.bool(),
        high: (address >> 32).into(),
        low: (address & 0xffff_ffff).into(),
        clock: (clock & 0xffff_ffff).into(),
    }
}

fn random_register(rng: &mut Rng) -> u16 {
    match rng.u8(0..10) {
        0 => config::START,
        1 => [config::STOP, config::RESET][rng.usize(0..2)],
        2 => 0x60 + rng.u16(0..3),
        3 => rng.u16(0..512),
        4 => config::TAG_ON,
        5 | 6 => 0x40 + rng.u16(0..16),
        _ => rng.u16(0x10..0x52),
    }
}

/// The item on offer, if it is one, as the model states it.
fn made(unit: &ConfigUnit) -> Option<Made> {
    let item = unit.item.val();
    let value = matches!(
        item.kind,
        ItemKind::Access
            | ItemKind::WindowTag
            | ItemKind::Mark
            | ItemKind::Fault
            | ItemKind::Overrun
    );
    let value = value.then(|| (item.write, item.high.to_u64() << 32 | item.low.to_u64()));
    let clock = item.clock_high.to_u64() << 32 | item.clock.to_u64();
    (item.kind != ItemKind::Nothing).then(|| (item.kind, value, clock, unit.settings.val().into()))
}

#[test]
fn items_and_settings_are_those_of_the_plain_unit() {
    with_seeds(0..20, |rng| {
        let memory = memories::ddr1(&format!("config_count = {COUNT}"));
        let (mut unit, mut model) = (settled(ConfigUnit::new(&memory)), Model::new());
        unit.straps.next =
            u64::from(straps(Mode::Page, Granularity::Burst, false, POWER_ON.slice)).into();
        pulse(&mut unit, |unit| &mut unit.clock);
        let (mut clock, mut register, mut items) = (0xffff_f000, config::START, Vec::new());
        for number in 0..4000 {
            clock += rng.u64(1..40);
            let mut event = event(rng, register, model.chosen.base, clock);
            event.run_change |= number == 0;
            if chance(rng, 15) {
                register = random_register(rng);
            }
            unit.slot_event.next = event;
            let mut popped = false;
            while !popped {
                unit.event_valid.next = chance(rng, 90);
                unit.drained.next = chance(rng, 40);
                unit.taken.next = false;
                settle(&mut unit);
                unit.taken.next = made(&unit).is_some() && chance(rng, 60);
                settle(&mut unit);
                items.extend(made(&unit).filter(|_| unit.taken.val()));
                popped = unit.pop.val();
                pulse(&mut unit, |unit| &mut unit.clock);
            }
            model.take(&event, clock);
        }
        items.extend(made(&unit));
        for (place, (made, expected)) in items.iter().zip(&model.made).enumerate() {
            assert_eq!(made, expected, "item {place}");
        }
        assert_eq!(items.len(), model.made.len());
        assert_eq!(Chosen::from(unit.settings.val()), model.chosen);
        let clocks = u64::from(slice_clocks(model.chosen.slice, memory.tck_ps));
        assert_eq!(unit.slice_last.val().to_u64(), clocks - 1);
    });
}
