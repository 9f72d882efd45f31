//! Compares random programs with plain execution.

use std::sync::atomic::Ordering;

use hmtt_translator::cache::Instrument;
use hmtt_translator::layout::{area, lookup};

use super::instructions::Random;
use super::machine::{Controller, Machine, new_cache};
use super::memory::Shared;
use super::programs::generate;
use super::superblocks;

/// Environment variable with the number of programs.
const COUNT: &str = "HMTT_RANDOM_PROGRAMS";

/// Number of programs of a test.
pub fn count(usual: u64) -> u64 {
    std::env::var(COUNT).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_programs_do_what_they_do_in_plain_execution() {
    let mut machine = Machine::new();
    let shared = Shared::new(2, area::WAIT);
    for seed in 0..count(2_000) {
        let program = generate(&machine, seed, true);
        machine.code_may_change = seed % 4 == 3;
        machine.code_is_expected = seed % 3 == 1;
        let plain = machine.run(program.start, &program.registers, &program.data);
        let mut random = Random(!seed);
        let instrument = random.one_of(&[Instrument::None, Instrument::Ring, Instrument::Ring]);
        let batch = random.one_of(&[1, 4, 64]);
        let away = random.one_of(&[0, 0, 0x7000_0000]);
        let mut cache = new_cache(&machine, instrument, batch, away);
        if random.below(2) == 0 {
            let at = lookup::CALLS + libc::SYS_getppid as u64;
            cache.memory().table.write(at, &[lookup::ASKED]);
        }
        let controller = match random.below(8) {
            0 => Controller::DiesAfter(random.below(6) as usize),
            1 => Controller::Dead,
            _ => Controller::Alive,
        };
        let (at, registers) = (program.start, &program.registers);
        let mut numbers = Vec::new();
        for round in 0..3 {
            superblocks::change(&mut cache, &mut random, &numbers);
            let run =
                machine.run_cached(&mut cache, &shared, controller, at, registers, &program.data);
            if let Some(difference) = plain.difference(&run.outcome) {
                panic!(
                    "seed {seed}, {instrument:?}, batch {batch}, {controller:?}, round {round}: \
                     {difference}"
                );
            }
            shared.area.word(area::ASK).store(area::IDLE, Ordering::Relaxed);
            numbers = run.numbers;
            superblocks::clear(&shared, &numbers);
        }
    }
}
