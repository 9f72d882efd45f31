//! Tests the event queue: clocks are restored from gaps, losses are reported, and no change of the
//! run switch is lost without a count.

use std::collections::BTreeMap;

use fastrand::Rng;
use gateware::ddr::SlotEvent;
use gateware::ddr::event_queue::{COMMAND_LOST, EventQueue, LAP_CLOCKS, MAX_MISSED_FAULTS};

use crate::direct::{chance, pulse, settle, settled, with_seeds};

/// Pushes and pops with the given chances in percent. Keeps the inputs of each clock, and popped
/// events with the sum of the gaps.
struct Bench {
    queue: EventQueue,
    /// Level of the run switch.
    on: bool,
    reached: u64,
    /// The event and the level of the run switch of each clock.
    inputs: Vec<(Option<SlotEvent>, bool)>,
    popped: Vec<(u64, SlotEvent)>,
}

/// What the popped events leave out.
#[derive(Debug, Default, PartialEq)]
struct Missing {
    accesses: u64,
    commands: u64,
    ticks: u64,
    slices: u64,
    /// Changes of the run switch that were left out, in pairs.
    pairs: u64,
}

impl Bench {
    fn new() -> Self {
        let queue = settled(EventQueue::default());
        Self { queue, on: true, reached: 0, inputs: Vec::new(), popped: Vec::new() }
    }

    /// Waits some clocks before the first event.
    fn wait(&mut self, clocks: u32) {
        (0..clocks).for_each(|_| pulse(&mut self.queue, |queue| &mut queue.clock));
    }

    fn run(&mut self, rng: &mut Rng, clocks: u32, push: u32, pop: u32) {
        for _ in 0..clocks {
            let event = event(rng, self.inputs.len() as u64);
            self.on ^= chance(rng, 2);
            self.clock(chance(rng, push).then_some(event), chance(rng, pop));
        }
    }

    fn clock(&mut self, event: Option<SlotEvent>, pop: bool) {
        let inputs = SlotEvent { run: self.on, ..event.unwrap_or_default() };
        self.queue.write.clocked.next = true;
        self.queue.write.slot_event.next = inputs;
        self.queue.write.register.next = register(&inputs).into();
        self.queue.write.push.next = event.is_some();
        self.queue.read.pop.next = self.queue.read.valid.val() && pop;
        settle(&mut self.queue);
        self.inputs.push((event, self.on));
        if self.queue.read.pop.val() {
            let head = self.queue.read.head.val();
            self.reached += head.gap.to_u64();
            self.popped.push((self.reached, head));
        }
        pulse(&mut self.queue, |queue| &mut queue.clock);
    }

    /// Pops everything.
    fn drain(&mut self) {
        (0..600).for_each(|_| self.clock(None, true));
    }

    /// Checks that every event was popped at its clock or is counted where it is missing. Returns
    /// what is missing.
    fn check(&self) -> Missing {
        let laps = |event: &SlotEvent| event.gap.to_u64() == LAP_CLOCKS;
        let popped = self.popped.iter().filter(|(_, event)| !laps(event));
        let mut popped: BTreeMap<u64, SlotEvent> = popped.copied().collect();
        let mut check = Check::default();
        for (clock, (event, on)) in self.inputs.iter().enumerate() {
            check.clock(clock as u64, event.as_ref(), *on, popped.remove(&(clock as u64)));
        }
        assert!(popped.is_empty(), "events of clocks that never came: {popped:?}");
        let on = self.inputs.last().is_some_and(|(_, on)| *on);
        assert_eq!((check.counted, check.lost, check.on), ([0; 2], false, on), "nothing is left");
        check.missing
    }

    fn popped(&self, which: fn(&SlotEvent) -> bool) -> Vec<&SlotEvent> {
        self.popped.iter().map(|(_, event)| event).filter(|event| which(event)).collect()
    }
}

/// Follows the clocks, and counts what is missing.
#[derive(Default)]
struct Check {
    /// Level of the run switch that the popped events state.
    on: bool,
    /// A change of the switch has found no space.
    waits: bool,
    /// Accesses and faults that the next overrun must count.
    counted: [u64; 2],
    /// The next overrun must report a lost command.
    lost: bool,
    missing: Missing,
}

impl Check {
    fn clock(&mut self, at: u64, event: Option<&SlotEvent>, on: bool, popped: Option<SlotEvent>) {
        let changes = if self.on { !on } else { on || self.counted != [0; 2] };
        let passed = u64::from(self.waits && !changes);
        self.waits = changes && popped.is_none();
        let event = event.copied().unwrap_or_default();
        let popped = popped.inspect(|popped| self.takes(at, changes, &event, popped));
        let popped = popped.unwrap_or_default();
        // An access of a command that is kept alone is counted by the configuration unit.
        let alone = popped.command && !popped.access;
        let missed = [event.access && !popped.access && !alone, event.fault && !popped.fault];
        for (counted, missed) in self.counted.iter_mut().zip(missed) {
            *counted += u64::from(missed && on);
        }
        self.counted[1] += passed;
        self.lost |= event.command && !popped.command;
        self.missing.pairs += passed;
        self.missing.accesses += u64::from(alone || missed[0] && on);
        self.missing.commands += u64::from(event.command && !popped.command);
        self.missing.ticks += u64::from(event.tick && !popped.tick);
        self.missing.slices += u64::from(event.slice && !popped.slice);
    }

    /// Checks a popped event of a clock, and what it counts.
    fn takes(&mut self, at: u64, changes: bool, event: &SlotEvent, popped: &SlotEvent) {
        assert_eq!(popped.run_change, changes, "at {at}: {popped:?}");
        let starts = changes && !self.on;
        if popped.run_change {
            self.on = !self.on;
            assert_eq!(popped.run, self.on, "at {at}: {popped:?}");
        }
        if popped.overrun {
            let [low, high] = [popped.low.to_u64(), popped.high.to_u64()];
            let [accesses, faults] = self.counted;
            let due = [accesses, faults.min(MAX_MISSED_FAULTS)];
            assert_eq!([low, high & !COMMAND_LOST], due, "at {at}: {popped:?}");
            assert_eq!(high & COMMAND_LOST != 0, self.lost, "at {at}: {popped:?}");
            assert!(!popped.access && !popped.fault, "it counts, or it is counted");
            assert!(!starts, "a start comes before the events that wait for it");
            (self.counted, self.lost) = ([0; 2], false);
        } else {
            let complete = self.counted == [0; 2] && !self.lost;
            assert!(complete || starts, "at {at}: {popped:?} without {:?}", self.counted);
        }
        for (popped, event) in [
            (popped.tick, event.tick),
            (popped.slice, event.slice),
            (popped.access, event.access),
            (popped.fault, event.fault),
            (popped.command, event.command),
        ] {
            assert!(event || !popped, "at {at}: an event that was not pushed");
        }
        let alone = popped.command && !popped.access;
        assert_eq!(
            popped.is_control,
            popped.tick || popped.slice || popped.run_change || alone,
            "at {at}: {popped:?}"
        );
        if popped.access || popped.fault {
            let told = |event: &SlotEvent| {
                (event.low, event.high, event.write, event.bank, event.row_state)
            };
            assert_eq!(told(popped), told(event), "at {at}");
        } else if alone {
            let bits = u64::from(popped.write) << 8
                | popped.row_state.to_u64() << 6
                | popped.bank.to_u64();
            assert_eq!(bits, register(event), "at {at}: {popped:?}");
        }
    }
}

/// Returns the register of an event's command.
fn register(event: &SlotEvent) -> u64 {
    event.low.to_u64() * 7 & 0x1ff
}

fn event(rng: &mut Rng, number: u64) -> SlotEvent {
    let mut event = SlotEvent {
        slice: chance(rng, 2),
        tick: chance(rng, 2),
        access: chance(rng, 80),
        fault: chance(rng, 10),
        write: rng.bool(),
        command: chance(rng, 3),
        low: number.into(),
        high: rng.u64(0..256).into(),
        bank: rng.u64(0..64).into(),
        row_state: rng.u64(0..3).into(),
        ..Default::default()
    };
    event.command &= event.access;
    event.is_control = event.slice || event.tick;
    event
}

fn access() -> SlotEvent {
    SlotEvent { access: true, ..SlotEvent::default() }
}

fn tick() -> SlotEvent {
    SlotEvent { tick: true, is_control: true, ..SlotEvent::default() }
}

#[test]
fn a_queue_that_is_emptied_in_time_keeps_everything() {
    with_seeds(0..4, |rng| {
        let mut bench = Bench::new();
        bench.wait(rng.u32(0..5));
        bench.run(rng, 3000, 50, 90);
        // One tick is the longest pause.
        (0..LAP_CLOCKS - 100).for_each(|_| bench.clock(None, true));
        bench.clock(Some(tick()), true);
        bench.run(rng, 3000, 5, 90);
        bench.drain();
        assert_eq!(bench.check(), Missing::default());
        assert!(bench.popped(|event| event.overrun).is_empty());
    });
}

#[test]
fn a_nearly_full_queue_counts_missed_events_and_keeps_control_events() {
    with_seeds(0..20, |rng| {
        let mut bench = Bench::new();
        for _ in 0..6 {
            bench.run(rng, 420, 95, 15);
            bench.run(rng, 600, 20, 80);
        }
        bench.drain();
        let Missing { accesses, ticks, slices, pairs, .. } = bench.check();
        assert!(accesses > 0, "the queue never overflowed");
        assert_eq!((ticks, slices, pairs), (0, 0, 0));
    });
}

#[test]
fn near_the_end_of_the_queue_slices_continue_and_the_run_switch_is_kept() {
    with_seeds(0..20, |rng| {
        let mut bench = Bench::new();
        (0..rng.u32(0..400)).for_each(|_| bench.clock(Some(access()), false));
        for number in 0..300u64 {
            bench.on ^= number == 280;
            let (tick, access, low) = (number % 40 == 30, rng.bool(), number.into());
            let (slice, is_control) = (true, true);
            let event = SlotEvent { tick, slice, access, is_control, low, ..SlotEvent::default() };
            bench.clock(Some(event), false);
        }
        bench.drain();
        let Missing { ticks, slices, pairs, .. } = bench.check();
        assert!((44..=300).contains(&slices), "{slices} slices went on");
        assert_eq!(ticks + bench.popped(|event| event.tick).len() as u64, 7);
        assert_eq!((bench.popped(|event| event.run_change).len(), pairs), (2, 0));
    });
}

#[test]
fn a_queue_that_nothing_empties_counts_what_it_leaves_out() {
    with_seeds(0..20, |rng| {
        let mut bench = Bench::new();
        let (toggles, ticks) = (rng.u32(1..50), rng.u32(0..100));
        for round in 0..4 {
            for number in 0..rng.u32(0..700) {
                bench.on ^= chance(rng, toggles);
                let tick = chance(rng, ticks);
                let mut event = SlotEvent { tick, ..event(rng, number.into()) };
                event.is_control = event.slice || event.tick;
                bench.clock(chance(rng, 70).then_some(event), round > 0 && chance(rng, 2));
            }
            let clocks = rng.u32(0..300);
            bench.run(rng, clocks, 10, 90);
        }
        bench.drain();
        bench.check();
    });
}

#[test]
fn changes_of_the_run_switch_without_space_are_counted() {
    // The switch is on or off when the queue is full, and at the end. Changes between a start and a
    // stop that are both late are not counted.
    let cases = [(true, true, 24), (true, false, 23), (false, true, 1), (false, false, 1)];
    for (full_on, on, pairs) in cases {
        let mut bench = Bench::new();
        bench.on = false;
        bench.clock(full_on.then(tick), false);
        for _ in 0..300 {
            bench.on ^= true;
            bench.clock(None, false);
        }
        bench.on = on;
        bench.clock(None, false);
        bench.drain();
        assert_eq!((full_on, on, bench.check().pairs), (full_on, on, pairs));
        let counts = bench.popped(|event| event.overrun);
        let counts: Vec<u64> = counts.iter().map(|event| event.high.to_u64()).collect();
        assert_eq!(counts, [pairs]);
    }
}

#[test]
fn accesses_that_wait_for_a_start_are_counted_after_it() {
    let mut bench = Bench::new();
    bench.on = false;
    (0..300).for_each(|_| bench.clock(Some(tick()), false));
    for _ in 0..6 {
        // These changes use the entries that are left for them.
        bench.on ^= true;
        bench.clock(None, false);
    }
    (0..4).for_each(|_| bench.clock(None, false));
    assert!(!bench.on);
    for _ in 0..9 {
        bench.on ^= true;
        bench.clock(None, false);
    }
    assert!(bench.on);
    (0..7).for_each(|_| bench.clock(Some(access()), false));
    bench.on = false;
    (0..5).for_each(|_| bench.clock(Some(access()), false));
    bench.drain();
    bench.check();
    let last: Vec<_> = bench.popped[bench.popped.len() - 2..]
        .iter()
        .map(|(_, event)| {
            (event.run_change, event.run, event.overrun.then_some(event.low.to_u64()))
        })
        .collect();
    assert_eq!(last, [(true, true, None), (true, false, Some(7))]);
}

#[test]
fn without_ticks_laps_keep_the_clock() {
    for pops in [0, 3] {
        let mut bench = Bench::new();
        (0..260).for_each(|_| bench.clock(Some(tick()), false));
        for clock in 0..LAP_CLOCKS * 5 / 2 {
            // Some events leave, but never as many as make space for a tick.
            let ticks = clock % 256 == 255;
            bench.clock(ticks.then_some(tick()), clock % 0x8000 == 77 && clock >> 15 < pops);
        }
        bench.clock(Some(access()), false);
        bench.drain();
        bench.clock(Some(access()), true);
        bench.drain();
        assert_eq!(bench.check().accesses, 1);
        let laps = bench.popped(|event| event.gap.to_u64() == LAP_CLOCKS);
        assert_eq!(laps.len(), 2);
        assert!(laps.iter().all(|lap| lap.tick && lap.is_control && !lap.overrun));
    }
}

#[test]
fn a_nearly_full_queue_drains_to_half_before_it_accepts_accesses() {
    let mut bench = Bench::new();
    (0..400).for_each(|_| bench.clock(Some(access()), false));
    let missed_without_pops = 400 - 224;
    (0..95).for_each(|_| bench.clock(Some(access()), true));
    (0..300).for_each(|_| bench.clock(None, true));
    let missed = bench.check().accesses;
    let attempts = missed_without_pops + 95;
    assert!(
        (attempts - 3..=attempts + 3).contains(&missed),
        "{missed} of about {attempts}: none got in between"
    );
}

#[test]
fn control_events_carry_the_count_while_the_queue_is_nearly_full() {
    let mut bench = Bench::new();
    (0..400).for_each(|_| bench.clock(Some(access()), false));
    bench.on = false;
    (0..10).for_each(|_| bench.clock(Some(access()), false));
    bench.on = true;
    (0..20).for_each(|_| bench.clock(Some(access()), false));
    (0..300).for_each(|_| bench.clock(None, true));
    bench.check();
    let reported = bench.popped(|event| event.overrun);
    assert_eq!((reported.len(), reported[0].run_change), (2, true));
    // Accesses on the clock of the start came after it; those without a capture are not counted.
    let before = 400 - stored(&bench);
    assert_eq!([0, 1].map(|at| reported[at].low.to_u64()), [before, 20]);
}

#[test]
fn the_access_of_a_command_is_counted_after_control_events_and_before_the_command() {
    let mut bench = Bench::new();
    (0..300).for_each(|_| bench.clock(Some(access()), false));
    bench.clock(Some(SlotEvent { command: true, ..access() }), false);
    bench.clock(Some(SlotEvent { command: true, tick: true, is_control: true, ..access() }), false);
    (0..5).for_each(|_| bench.clock(Some(access()), false));
    (0..300).for_each(|_| bench.clock(None, true));
    bench.check();
    // The command itself states that its access is missing. No count includes it.
    let reported = bench.popped(|event| !event.access).into_iter();
    let reported: Vec<_> =
        reported.map(|event| (event.command, event.is_control, event.overrun)).collect();
    assert_eq!(reported, [(true, true, true), (true, true, false), (false, false, true)]);
    let counts: Vec<u64> =
        bench.popped(|event| event.overrun).iter().map(|event| event.low.to_u64()).collect();
    assert_eq!(counts, [300 - stored(&bench), 5]);
}

/// Returns the number of accesses that were popped.
fn stored(bench: &Bench) -> u64 {
    bench.popped(|event| event.access).len() as u64
}

#[test]
fn the_count_of_missed_faults_saturates() {
    let fault = SlotEvent { fault: true, ..Default::default() };
    let mut bench = Bench::new();
    (0..256 + 512).for_each(|_| bench.clock(Some(fault), false));
    bench.drain();
    bench.check();
    let counts: Vec<u64> =
        bench.popped(|event| event.overrun).iter().map(|event| event.high.to_u64()).collect();
    assert_eq!(counts, [MAX_MISSED_FAULTS]);
}

#[test]
fn a_nearly_full_queue_keeps_the_commands_of_missed_accesses() {
    let mut bench = Bench::new();
    for number in 0..256 + 20 * 32u64 {
        let command = number % 32 == 31;
        bench.clock(Some(SlotEvent { command, low: number.into(), ..access() }), false);
    }
    bench.drain();
    let Missing { accesses, commands: lost, .. } = bench.check();
    assert!(accesses > 300);
    let commands = bench.popped(|event| event.command).len() as u64;
    // Seven commands leave with their accesses. The others use the entries that are reserved for
    // them.
    assert_eq!((commands, lost), (25, 3));
}

#[test]
fn lost_commands_are_reported() {
    let mut bench = Bench::new();
    let command = SlotEvent { command: true, ..access() };
    (0..300).for_each(|_| bench.clock(Some(command), false));
    bench.drain();
    assert!(bench.check().commands > 40);
    let reported = bench.popped(|event| event.overrun);
    assert_eq!(reported.last().map(|event| event.high.to_u64()), Some(COMMAND_LOST));
}
