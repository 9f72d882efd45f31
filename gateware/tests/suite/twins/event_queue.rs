//! Tests the event queue: clocks are restored from gaps, losses are reported, and control events are never
//! lost.

use fastrand::Rng;
use gateware::ddr::SlotEvent;
use gateware::ddr::event_queue::{COMMAND_LOST, EventQueue, MAX_MISSED_FAULTS};

use crate::direct::{chance, pulse, settle, settled, with_seeds};

/// Pushes and pops with the given chances in percent. Keeps pushed and popped events with their clocks, for popped
/// events the sum of the gaps.
struct Bench {
    queue: EventQueue,
    clock: u64,
    reached: u64,
    pushed: Vec<(u64, SlotEvent)>,
    popped: Vec<(u64, SlotEvent)>,
    /// If slices may continue for lack of space, the number of slices that did not end.
    slices_continue: Option<u64>,
    lost_commands: u64,
}

impl Bench {
    fn new() -> Self {
        let queue = settled(EventQueue::default());
        Self {
            queue,
            clock: 0,
            reached: 0,
            pushed: Vec::new(),
            popped: Vec::new(),
            slices_continue: None,
            lost_commands: 0,
        }
    }

    /// Waits some clocks before the first event.
    fn wait(&mut self, clocks: u32) {
        (0..clocks).for_each(|_| pulse(&mut self.queue, |queue| &mut queue.clock));
    }

    fn run(&mut self, rng: &mut Rng, clocks: u32, push: u32, pop: u32) {
        for _ in 0..clocks {
            let event = event(rng, self.pushed.len() as u64);
            self.clock(chance(rng, push).then_some(event), chance(rng, pop));
        }
    }

    fn clock(&mut self, event: Option<SlotEvent>, pop: bool) {
        self.queue.write.clocked.next = true;
        self.queue.write.slot_event.next = event.unwrap_or_default();
        self.queue.write.register.next = register(&event.unwrap_or_default()).into();
        self.queue.write.push.next = event.is_some();
        self.queue.read.pop.next = self.queue.read.valid.val() && pop;
        settle(&mut self.queue);
        self.pushed.extend(event.map(|event| (self.clock, event)));
        if self.queue.read.pop.val() {
            let head = self.queue.read.head.val();
            self.reached += head.gap.to_u64();
            self.popped.push((self.reached, head));
        }
        self.clock += 1;
        pulse(&mut self.queue, |queue| &mut queue.clock);
    }

    /// Checks that every pushed event was popped at its clock or is counted where it is missing, and that control
    /// events were popped. Commands are popped, or the next count states that one is lost. Returns the number of
    /// missing accesses.
    fn check(&mut self) -> u64 {
        let mut pushed = self.pushed.iter().peekable();
        let (mut missed, mut missing, mut lost) = ([0u64; 2], 0, false);
        let kept = |event: &SlotEvent| [event.access, event.fault].map(u64::from);
        for (clock, popped) in &self.popped {
            while let Some((_, event)) = pushed.next_if(|(at, _)| at < clock) {
                if let Some(unended) = self.slices_continue.as_mut().filter(|_| event.slice) {
                    assert!(!event.tick && !event.run_change, "ticks and the run switch are kept");
                    *unended += 1;
                } else {
                    assert!(!event.is_control, "an event that is_control is lost");
                }
                missed = [0, 1].map(|kind| missed[kind] + kept(event)[kind]);
                lost |= event.command;
                self.lost_commands += u64::from(event.command);
            }
            let mut counted = [0; 2];
            if popped.overrun {
                counted = [popped.low.to_u64(), popped.high.to_u64() & !COMMAND_LOST];
                missing += counted[0];
                assert_eq!(popped.high.to_u64() & COMMAND_LOST != 0, lost, "up to {clock}");
                lost = false;
            }
            let faults = missed[1].min(MAX_MISSED_FAULTS);
            assert_eq!(counted, [missed[0], faults], "missed up to {clock}, counted by {popped:?}");
            missed = [0; 2];
            let (access, fault) = (popped.access, popped.fault);
            if popped.overrun {
                assert!(!access && !fault, "it counts, or it is counted");
            }
            if popped.overrun && !popped.is_control && !popped.command {
                assert!(!popped.run_change && !popped.slice && !popped.tick);
                continue;
            }
            let (at, event) = pushed.next().expect("what is popped was pushed");
            let (overrun, gap) = (popped.overrun, popped.gap);
            let (low, high) =
                if overrun { (popped.low, popped.high) } else { (event.low, event.high) };
            let command = popped.command;
            let mut expected =
                SlotEvent { gap, access, fault, command, overrun, low, high, ..*event };
            if event.command && !command {
                lost = true;
                self.lost_commands += 1;
            }
            if !access {
                // A command without its access has its register; without a command the field is empty.
                expected.write = popped.write;
                expected.row_state = popped.row_state;
                expected.bank = popped.bank;
                let bits = u64::from(popped.write) << 8
                    | popped.row_state.to_u64() << 6
                    | popped.bank.to_u64();
                assert!(!command || bits == register(event), "{popped:?}");
                expected.is_control |= command;
            }
            assert!(event.command || !command);
            if let Some(unended) = self.slices_continue.as_mut().filter(|_| !popped.slice) {
                *unended += u64::from(event.slice);
                expected.slice = false;
            }
            assert_eq!((clock, *popped), (at, expected));
            assert!(event.access >= access && event.fault >= fault);
            missed = [0, 1].map(|kind| kept(event)[kind] - kept(popped)[kind]);
            // The receiver of the command counts its access.
            let alone = u64::from(command && !access);
            missed[0] -= alone;
            missing += alone;
        }
        assert_eq!((missed, pushed.next()), ([0; 2], None), "nothing is left over");
        missing
    }
}

/// Returns the register of an event's command.
fn register(event: &SlotEvent) -> u64 {
    event.low.to_u64() * 7 & 0x1ff
}

fn event(rng: &mut Rng, number: u64) -> SlotEvent {
    let mut event = SlotEvent {
        run_change: chance(rng, 2),
        run: rng.bool(),
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
    event.is_control = event.run_change || event.slice || event.tick;
    event
}

#[test]
fn a_queue_that_is_emptied_in_time_keeps_everything() {
    with_seeds(0..4, |rng| {
        let mut bench = Bench::new();
        bench.wait(rng.u32(0..5));
        bench.run(rng, 3000, 50, 90);
        // One tick is the longest pause.
        bench.run(rng, 33_000, 0, 90);
        bench.run(rng, 3000, 5, 90);
        bench.run(rng, 100, 0, 100);
        assert_eq!(bench.check(), 0);
        assert_eq!(bench.popped.len(), bench.pushed.len());
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
        bench.run(rng, 1200, 0, 100);
        assert!(bench.check() > 0, "the queue never overflowed");
    });
}

#[test]
fn near_the_end_of_the_queue_slices_continue_and_ticks_and_the_run_switch_are_kept() {
    with_seeds(0..20, |rng| {
        let mut bench = Bench::new();
        bench.slices_continue = Some(0);
        let access = SlotEvent { access: true, ..Default::default() };
        (0..rng.u32(0..400)).for_each(|_| bench.clock(Some(access), false));
        for number in 0..300u64 {
            let (tick, run_change) = (number % 40 == 30, number == 280);
            let access = rng.bool();
            let low = number.into();
            let (slice, is_control) = (true, true);
            let event = SlotEvent {
                tick,
                slice,
                run_change,
                access,
                is_control,
                low,
                ..Default::default()
            };
            bench.clock(Some(event), false);
        }
        (0..400).for_each(|_| bench.clock(None, true));
        bench.check();
        let unended = bench.slices_continue.expect("it counts");
        assert!((44..=300).contains(&unended), "{unended} slices went on");
        let kept = |of: fn(&SlotEvent) -> bool| bench.popped.iter().filter(|(_, e)| of(e)).count();
        assert_eq!((kept(|event| event.tick), kept(|event| event.run_change)), (7, 1));
    });
}

#[test]
fn a_nearly_full_queue_drains_to_half_before_it_accepts_accesses() {
    let access = SlotEvent { access: true, ..Default::default() };
    let mut bench = Bench::new();
    (0..400).for_each(|_| bench.clock(Some(access), false));
    let missed_without_pops = 400 - 224;
    (0..95).for_each(|_| bench.clock(Some(access), true));
    (0..300).for_each(|_| bench.clock(None, true));
    let missed = bench.check();
    let all = missed_without_pops + 95;
    assert!((all - 3..=all + 3).contains(&missed), "{missed} of about {all}: none got in between");
}

#[test]
fn control_events_carry_the_count_while_the_queue_is_nearly_full() {
    let access = SlotEvent { access: true, ..Default::default() };
    let run_off = SlotEvent { run_change: true, is_control: true, ..access };
    let mut bench = Bench::new();
    (0..400).for_each(|_| bench.clock(Some(access), false));
    bench.clock(Some(run_off), false);
    (0..20).for_each(|_| bench.clock(Some(access), false));
    (0..300).for_each(|_| bench.clock(None, true));
    assert_eq!(bench.check(), bench.pushed.len() as u64 - stored(&bench));
    let reported: Vec<&SlotEvent> =
        bench.popped.iter().map(|(_, event)| event).filter(|event| event.overrun).collect();
    assert_eq!((reported.len(), reported[0].run_change), (2, true));
    // Accesses on the clock of the run switch came after it.
    let before = 400 - stored(&bench);
    assert_eq!([0, 1].map(|at| reported[at].low.to_u64()), [before, 21]);
}

#[test]
fn the_access_of_a_command_is_counted_after_control_events_and_before_the_command() {
    let access = SlotEvent { access: true, ..Default::default() };
    let mut bench = Bench::new();
    (0..300).for_each(|_| bench.clock(Some(access), false));
    bench.clock(Some(SlotEvent { command: true, ..access }), false);
    bench.clock(Some(SlotEvent { command: true, tick: true, is_control: true, ..access }), false);
    (0..5).for_each(|_| bench.clock(Some(access), false));
    (0..300).for_each(|_| bench.clock(None, true));
    bench.check();
    // The command itself states that its access is missing. No count includes it.
    let reported = bench.popped.iter().map(|(_, event)| event).filter(|event| !event.access);
    let reported: Vec<_> =
        reported.map(|event| (event.command, event.is_control, event.overrun)).collect();
    assert_eq!(reported, [(true, true, true), (true, true, false), (false, false, true)]);
    let counts = bench.popped.iter().map(|(_, event)| event).filter(|event| event.overrun);
    let counts: Vec<u64> = counts.map(|event| event.low.to_u64()).collect();
    assert_eq!(counts, [300 - stored(&bench), 5]);
}

/// Returns the number of accesses that were popped.
fn stored(bench: &Bench) -> u64 {
    bench.popped.iter().filter(|(_, event)| event.access).count() as u64
}

#[test]
fn the_count_of_missed_faults_saturates() {
    let fault = SlotEvent { fault: true, ..Default::default() };
    let mut bench = Bench::new();
    (0..256 + 512).for_each(|_| bench.clock(Some(fault), false));
    (0..600).for_each(|_| bench.clock(None, true));
    bench.check();
    let overruns = bench.popped.iter().filter(|(_, event)| event.overrun);
    let counts: Vec<u64> = overruns.map(|(_, event)| event.high.to_u64()).collect();
    assert_eq!(counts, [MAX_MISSED_FAULTS]);
}

#[test]
fn a_nearly_full_queue_keeps_the_commands_of_missed_accesses() {
    let mut bench = Bench::new();
    for number in 0..256 + 20 * 32u64 {
        let command = number % 32 == 31;
        let low = number.into();
        bench.clock(Some(SlotEvent { access: true, command, low, ..Default::default() }), false);
    }
    (0..600).for_each(|_| bench.clock(None, true));
    assert!(bench.check() > 300);
    let commands = bench.popped.iter().filter(|(_, event)| event.command).count() as u64;
    // Seven commands leave with their accesses. The others use the entries that are reserved for them.
    assert_eq!((commands, bench.lost_commands), (25, 3));
}

#[test]
fn lost_commands_are_reported() {
    let mut bench = Bench::new();
    let command = SlotEvent { access: true, command: true, ..Default::default() };
    (0..300).for_each(|_| bench.clock(Some(command), false));
    (0..600).for_each(|_| bench.clock(None, true));
    bench.check();
    assert!(bench.lost_commands > 40);
    let reported = bench.popped.iter().filter(|(_, event)| event.overrun);
    let reported: Vec<u64> = reported.map(|(_, event)| event.high.to_u64()).collect();
    assert_eq!(reported.last(), Some(&COMMAND_LOST));
}
