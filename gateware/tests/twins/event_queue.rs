//! Event queue: nothing is lost silently, and what steers the card is never lost.

use fastrand::Rng;
use gateware::ddr::SlotEvent;
use gateware::ddr::event_queue::EventQueue;

use crate::direct::{chance, pulse, settle, settled, with_seeds};

/// Pushes and pops with the given chances in percent; what was pushed and popped comes back.
struct Bench {
    queue: EventQueue,
    pushed: Vec<SlotEvent>,
    popped: Vec<SlotEvent>,
}

impl Bench {
    fn new() -> Self {
        Self { queue: settled(EventQueue::default()), pushed: Vec::new(), popped: Vec::new() }
    }

    fn run(&mut self, rng: &mut Rng, clocks: u32, push: u32, pop: u32) {
        for _ in 0..clocks {
            let number = self.pushed.len() as u64;
            self.queue.slot_event.next = SlotEvent {
                run_change: chance(rng, 2),
                slice: chance(rng, 2),
                tick: chance(rng, 2),
                access: chance(rng, 80),
                fault: chance(rng, 10),
                clock: number.into(),
                ..Default::default()
            };
            self.queue.push.next = chance(rng, push);
            self.queue.pop.next = self.queue.head_valid.val() && chance(rng, pop);
            settle(&mut self.queue);
            if self.queue.push.val() {
                self.pushed.push(self.queue.slot_event.val());
            }
            if self.queue.pop.val() {
                self.popped.push(self.queue.head.val());
            }
            pulse(&mut self.queue, |queue| &mut queue.clock);
        }
    }

    fn count(&self, of: impl Fn(&SlotEvent) -> bool) -> [u64; 2] {
        [&self.pushed, &self.popped]
            .map(|events| events.iter().filter(|event| of(event)).count() as u64)
    }

    /// Everything pushed was popped or counted, and what steers was popped.
    fn check(&self) {
        let steering = |events: &[SlotEvent]| -> Vec<(u64, bool, bool, bool)> {
            let steers =
                events.iter().filter(|event| event.run_change || event.slice || event.tick);
            steers.map(|e| (e.clock.to_u64(), e.run_change, e.slice, e.tick)).collect()
        };
        assert_eq!(steering(&self.pushed), steering(&self.popped));
        let overruns = || self.popped.iter().filter(|event| event.overrun);
        let [accesses, kept] = self.count(|event| event.access);
        assert_eq!(accesses - kept, overruns().map(|event| event.low.to_u64()).sum::<u64>());
        let [faults, kept] = self.count(|event| event.fault);
        assert_eq!(faults - kept, overruns().map(|event| event.high.to_u64()).sum::<u64>());
        let order =
            self.popped.iter().filter(|event| !event.overrun).map(|event| event.clock.to_u64());
        assert!(order.is_sorted_by(|a, b| a < b), "in order and once");
        let alone = overruns().all(|event| {
            !(event.access || event.fault || event.run_change || event.slice || event.tick)
        });
        assert!(alone, "an overrun is an event of its own");
    }
}

#[test]
fn a_queue_that_is_emptied_in_time_keeps_everything() {
    with_seeds(0..4, |rng| {
        let mut bench = Bench::new();
        bench.run(rng, 3000, 50, 90);
        bench.run(rng, 100, 0, 100);
        bench.check();
        assert_eq!(bench.popped, bench.pushed);
    });
}

#[test]
fn a_crowded_queue_counts_what_it_misses_and_keeps_what_steers() {
    with_seeds(0..30, |rng| {
        let mut bench = Bench::new();
        for _ in 0..6 {
            bench.run(rng, 420, 95, 15);
            bench.run(rng, 600, 20, 80);
        }
        bench.run(rng, 1200, 0, 100);
        bench.check();
        let [accesses, kept] = bench.count(|event| event.access);
        assert!(kept < accesses, "the queue never was crowded");
    });
}

#[test]
fn more_missed_faults_than_an_overrun_can_say_are_said_as_many() {
    let mut queue = settled(EventQueue::default());
    queue.slot_event.next = SlotEvent { fault: true, ..Default::default() };
    queue.push.next = true;
    for _ in 0..256 + 512 {
        pulse(&mut queue, |queue| &mut queue.clock);
    }
    queue.push.next = false;
    let mut overruns = Vec::new();
    for _ in 0..600 {
        queue.pop.next = queue.head_valid.val();
        if queue.head_valid.val() && queue.head.val().overrun {
            overruns.push((queue.head.val().low.to_u64(), queue.head.val().high.to_u64()));
        }
        pulse(&mut queue, |queue| &mut queue.clock);
    }
    assert_eq!(overruns, [(0, 255)]);
}
