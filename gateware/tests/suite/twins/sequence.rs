//! Tests the sequence detector: what completes a command, and what restarts the count.

use gateware::ddr::sequence::Sequence;
use hmtt_format::config::{DEFAULT_COUNT, DEFAULT_TIMEOUT, START, STOP};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

struct Bench {
    sequence: Sequence,
}

impl Bench {
    fn new() -> Self {
        Self { sequence: settled(Sequence::new(&memories::ddr1(""))) }
    }

    /// Passes an access some clocks after the one before. Returns the register of the command that
    /// it completes.
    fn pass(&mut self, address: Option<u64>, later: u32) -> Option<u16> {
        (1..later).for_each(|_| assert_eq!(self.clock(None), None));
        self.clock(address);
        // Data without `passes` is not counted.
        self.sequence.passes.next = false;
        settle(&mut self.sequence);
        let register = self.sequence.register.val().to_u64() as u16;
        let completed = self.sequence.complete.val().then_some(register);
        pulse(&mut self.sequence, |sequence| &mut sequence.clock);
        assert!(!self.sequence.complete.val());
        completed
    }

    fn clock(&mut self, address: Option<u64>) -> Option<u16> {
        self.sequence.passes.next = true;
        self.sequence.in_registers.next = address.is_some();
        self.sequence.low.next = (address.unwrap_or(0) & 0xffff_ffff).into();
        settle(&mut self.sequence);
        let register = self.sequence.register.val().to_u64() as u16;
        let completed = self.sequence.complete.val().then_some(register);
        pulse(&mut self.sequence, |sequence| &mut sequence.clock);
        completed
    }

    fn register(&mut self, register: u16, times: u8) -> Vec<u16> {
        let address = u64::from(register) << 3;
        (0..times).filter_map(|_| self.pass(Some(address), 10)).collect()
    }
}

#[test]
fn thirty_two_accesses_complete_a_command_and_thirty_one_do_not() {
    let mut bench = Bench::new();
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
    assert_eq!(bench.register(START, 1), [START]);
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0], "the count starts over");
    assert_eq!(bench.register(START, 1), [START]);
}

#[test]
fn other_traffic_interleaves_freely() {
    let mut bench = Bench::new();
    for access in 1..=DEFAULT_COUNT {
        (0..3).for_each(|_| assert_eq!(bench.pass(None, 1), None));
        let completed = bench.pass(Some(u64::from(START) << 3 | 5), 1);
        assert_eq!(completed, (access == DEFAULT_COUNT).then_some(START));
    }
}

#[test]
fn another_register_restarts_the_count() {
    let mut bench = Bench::new();
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
    assert_eq!(bench.register(STOP, 1), [0u16; 0]);
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
    assert_eq!(bench.register(START, 1), [START]);
}

#[test]
fn a_pause_as_long_as_the_timeout_restarts_the_count() {
    let address = Some(u64::from(START) << 3);
    for (silence, completed) in [(DEFAULT_TIMEOUT - 1, Some(START)), (DEFAULT_TIMEOUT, None)] {
        for step in [silence, 1, 7, 100, 2048] {
            let mut bench = Bench::new();
            assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
            let (others, last) = (silence / step - 1, step + silence % step);
            (0..others).for_each(|_| assert_eq!(bench.pass(None, step), None));
            assert_eq!(bench.pass(address, last), completed, "{silence} clocks by {step}");
        }
    }
}

#[test]
fn random_accesses_complete_the_commands_of_the_model() {
    with_seeds(0..8, |rng| {
        let mut bench = Bench::new();
        let (mut last, mut count, mut silence, mut completed) = (0, 0, 0, 0);
        for _ in 0..10_000 {
            let register = if chance(rng, 98) { last } else { rng.u16(0..512) };
            let elsewhere = chance(rng, 20);
            let later =
                if rng.u32(0..300) == 0 { spread(rng, 13) as u32 + 1 } else { rng.u32(1..20) };
            silence += later;
            let mut expected = None;
            if !elsewhere {
                let goes_on = register == last && silence < DEFAULT_TIMEOUT && count > 0;
                count = if goes_on { count + 1 } else { 1 };
                (last, silence) = (register, 0);
                if count == DEFAULT_COUNT {
                    (count, expected) = (0, Some(register));
                }
            }
            let address = (!elsewhere).then(|| u64::from(register) << 3 | rng.u64(0..8));
            assert_eq!(bench.pass(address, later), expected);
            completed += u32::from(expected.is_some());
        }
        assert!(completed > 20, "{completed} commands");
    });
}

#[test]
fn accesses_on_every_clock_are_counted() {
    let mut bench = Bench::new();
    let address = Some(u64::from(STOP) << 3);
    let completed: Vec<_> = (0..100).map(|_| bench.clock(address)).collect();
    let at: Vec<_> = (0..100).filter(|at| completed[*at].is_some()).collect();
    assert_eq!(at, [32, 64, 96], "each a clock after its last access");
    assert_eq!(completed[32], Some(STOP));
}
