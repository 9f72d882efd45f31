//! Sequence detector: what completes a command, and what starts over.

use gateware::config::sequence::Sequence;
use hmtt_format::config::{DEFAULT_COUNT, DEFAULT_TIMEOUT, START, STOP};

use crate::direct::{chance, pulse, settle, settled, spread, with_seeds};
use crate::memories;

struct Bench {
    sequence: Sequence,
    at: u64,
}

impl Bench {
    fn new() -> Self {
        Self { sequence: settled(Sequence::new(&memories::ddr1(""))), at: 0xffff_0000 }
    }

    /// An access some clocks later; the register of the command it completes.
    fn access(&mut self, address: u64, later: u32) -> Option<u16> {
        self.at += u64::from(later);
        self.sequence.access.next = true;
        self.sequence.low.next = (address & 0xffff_ffff).into();
        self.sequence.high.next = (address >> 32).into();
        self.sequence.at.next = (self.at & 0xffff_ffff).into();
        settle(&mut self.sequence);
        let register = self.sequence.register.val().to_u64() as u16;
        let completed = self.sequence.complete.val().then_some(register);
        pulse(&mut self.sequence, |sequence| &mut sequence.clock);
        self.sequence.access.next = false;
        pulse(&mut self.sequence, |sequence| &mut sequence.clock);
        completed
    }

    fn register(&mut self, register: u16, times: u8) -> Vec<u16> {
        let address = u64::from(register) << 3;
        (0..times).filter_map(|_| self.access(address, 10)).collect()
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
        for address in [0x1000, 0x88 | 1 << 32, 0x1_0088, 0x80_0088] {
            assert_eq!(bench.access(address, 1), None, "{address:x} is no register");
        }
        let completed = bench.access(u64::from(START) << 3 | 5, 1);
        assert_eq!(completed, (access == DEFAULT_COUNT).then_some(START));
    }
}

#[test]
fn another_register_starts_over() {
    let mut bench = Bench::new();
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
    assert_eq!(bench.register(STOP, 1), [0u16; 0]);
    assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
    assert_eq!(bench.register(START, 1), [START]);
}

#[test]
fn a_silence_longer_than_the_timeout_starts_over() {
    let address = u64::from(START) << 3;
    for (silence, completed) in [(DEFAULT_TIMEOUT, Some(START)), (DEFAULT_TIMEOUT + 1, None)] {
        let mut bench = Bench::new();
        assert_eq!(bench.register(START, DEFAULT_COUNT - 1), [0u16; 0]);
        assert_eq!(bench.access(address, silence), completed, "after {silence} clocks");
    }
}

#[test]
fn random_accesses_complete_what_the_plain_detector_says() {
    with_seeds(0..8, |rng| {
        let mut bench = Bench::new();
        let (mut last, mut count, mut silence, mut completed) = (0, 0, 0, 0);
        for _ in 0..20_000 {
            let register = if chance(rng, 98) { last } else { rng.u16(0..512) };
            let elsewhere = chance(rng, 20).then(|| 0x1000 + spread(rng, 39));
            let later = if chance(rng, 1) { rng.u32(4000..4200) } else { rng.u32(1..200) };
            silence += later;
            let address = elsewhere.unwrap_or(u64::from(register) << 3 | rng.u64(0..8));
            let mut expected = None;
            if elsewhere.is_none() {
                let goes_on = register == last && silence <= DEFAULT_TIMEOUT;
                count = if goes_on { count + 1 } else { 1 };
                (last, silence) = (register, 0);
                if count == DEFAULT_COUNT {
                    (count, expected) = (0, Some(register));
                }
            }
            assert_eq!(bench.access(address, later), expected);
            completed += u32::from(expected.is_some());
        }
        assert!(completed > 20, "{completed} commands");
    });
}
