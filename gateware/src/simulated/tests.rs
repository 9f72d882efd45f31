//! Compares both orders of evaluation on random stimuli: each signal of the card must be the same.

use fastrand::Rng;
use hmtt_format::{MemoryDescription, Pins};
use rust_hdl::prelude::*;

use super::stepped::{SteppedCard, drive};
use super::{Gmii, plain, settled};
use crate::card::Card;

/// Levels of all signals but clocks, with their places.
#[derive(Default)]
struct Levels {
    path: Vec<String>,
    /// Bundles of ports at the end of the path.
    bundles: usize,
    levels: Vec<(String, VCDValue)>,
}

impl Probe for Levels {
    fn visit_start_scope(&mut self, name: &str, _: &dyn Block) {
        self.path.push(name.to_owned());
    }

    fn visit_atom(&mut self, name: &str, signal: &dyn Atom) {
        // The card's own signals are updated only as far as blocks read them.
        let within = self.path.len() - self.bundles > 1;
        if within && signal.descriptor().name != Clock::descriptor().name {
            self.levels.push((format!("{}.{name}", self.path.join(".")), signal.vcd()));
        }
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.path.pop();
    }

    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.path.push(name.to_owned());
        self.bundles += 1;
    }

    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.path.pop();
        self.bundles -= 1;
    }
}

/// Names of the blocks directly within a block.
#[derive(Default)]
struct Parts {
    depth: usize,
    names: Vec<String>,
}

impl Probe for Parts {
    fn visit_start_scope(&mut self, name: &str, _: &dyn Block) {
        if self.depth == 1 {
            self.names.push(name.to_owned());
        }
        self.depth += 1;
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }
}

fn levels(card: &impl Block) -> Vec<(String, VCDValue)> {
    let mut levels = Levels::default();
    card.accept("card", &mut levels);
    levels.levels
}

/// DDR1 with the shortest possible configuration commands.
fn memory() -> MemoryDescription {
    hmtt_format::toml_memory::parse(
        "generation = 'DDR1'\nspeed = 'DDR-200'\nbus_bytes = 8\nburst_length = 4\n\
         config_count = 3\nrefresh_limit_clocks = 700\n\
         [map]\ncolumn = ['p3-p13']\nbank = ['p14-p15']\nrow = ['p16-p28']\n",
    )
    .expect("the description is right")
}

/// Generates commands, mostly in a legal order and to few addresses, so that lines merge, pages
/// repeat and configuration commands complete.
struct Stimuli {
    rng: Rng,
    pins: Pins,
    run: bool,
    /// Clocks in which no input changes.
    pause: u32,
}

impl Stimuli {
    fn new(seed: u64) -> Self {
        let pins = Pins { cke: 1, ..Pins::DESELECT };
        Stimuli { rng: Rng::with_seed(seed), pins, run: true, pause: 0 }
    }

    fn next(&mut self) -> (Pins, bool) {
        if self.pause > 0 {
            self.pause -= 1;
            return (Pins { cke: self.pins.cke, ..Pins::DESELECT }, self.run);
        }
        let rng = &mut self.rng;
        // Uses the same address again, as configuration commands need, or another address.
        if rng.u32(0..3) != 0 {
            let row_or_column = [0, 0, 4, 8, 0x400, 0x1ff8][rng.usize(0..6)];
            let (ras_n, cas_n, we_n) = match rng.u32(0..40) {
                0..8 => (false, true, true),
                8..16 => (true, false, true),
                16..30 => (true, false, false),
                30..36 => (false, true, false),
                36 => (false, false, true),
                37 => (false, false, false),
                38 => (true, true, false),
                _ => (true, true, true),
            };
            self.pins = Pins {
                cke: u8::from(rng.u32(0..50) != 0),
                cs_n: 14,
                act_n: true,
                ras_n,
                cas_n,
                we_n,
                ba: rng.u8(0..2),
                a: row_or_column | rng.u32(0..4) * 4,
            };
        }
        self.run ^= rng.u32(0..400) == 0;
        self.pause = match rng.u32(0..30) {
            0 => 400,
            1..6 => 20,
            _ => rng.u32(0..6),
        };
        (self.pins, self.run)
    }
}

/// Gives the card a rising and a falling edge, as the stepped card does.
fn plain_clock(card: &mut Card<10>, level: fn(&mut Card<10>, bool)) {
    [true, false].into_iter().for_each(|clk| level(card, clk));
}

/// Steps during which the DDR clock stops: longer than the clock watch waits, so that the domain is
/// reset, and short enough that it runs again before the end.
const LOST: std::ops::Range<u32> = 1200..3000;

/// Result of one seed.
#[derive(Default)]
struct Run {
    steps: u32,
    /// Steps in which the card sent an octet.
    sent: u32,
    /// Steps in reset of the DDR domain.
    in_reset: u32,
}

/// Runs both cards up to the step `last`. The DDR clock is stopped in the steps `lost`.
fn compare(seed: u64, last: u32, lost: std::ops::Range<u32>) -> Run {
    let memory = memory();
    let mut stepped = SteppedCard::new(settled(Card::<10>::new(&memory)));
    let mut card = settled(Card::<10>::new(&memory));
    let mut stimuli = Stimuli::new(seed);
    let straps = stimuli.rng.u16(..);
    let Run { mut steps, mut sent, mut in_reset } = Run::default();
    while steps < last {
        if stimuli.rng.u32(0..9) < 4 && !lost.contains(&steps) {
            let (pins, run) = stimuli.next();
            drive(&mut card, pins, run, straps);
            plain::ddr_level(&mut card, false);
            plain_clock(&mut card, plain::ddr_level);
            stepped.drive(pins, run, straps);
            stepped.ddr_edge();
        } else {
            let plain = Gmii {
                txd: card.gmac.txd.val().index() as u8,
                tx_en: card.gmac.tx_en.val(),
                tx_er: false,
            };
            assert_eq!(stepped.sampled(), plain, "seed {seed}, step {steps}");
            sent += u32::from(plain.tx_en);
            plain_clock(&mut card, plain::tx_level);
            stepped.tx_edge();
        }
        in_reset += u32::from(card.ddr_reset.reset.val());
        if steps % 5 == 0 {
            stepped.settle();
            for (stepped, plain) in levels(&stepped.card).iter().zip(levels(&card)) {
                assert_eq!(*stepped, plain, "seed {seed}, step {steps}");
            }
        }
        steps += 1;
    }
    Run { steps, sent, in_reset }
}

#[test]
fn a_stepped_card_has_the_signals_of_a_plain_one() {
    for seed in 0..8 {
        let Run { steps, sent, .. } = compare(seed, 3000, 0..0);
        assert!(sent > steps / 20, "seed {seed}: {sent} bytes in {steps} steps");
    }
}

#[test]
fn a_stepped_card_is_reset_like_a_plain_one_when_its_ddr_clock_was_lost() {
    for seed in 8..10 {
        let Run { in_reset, sent, steps } = compare(seed, 7000, LOST);
        // The DDR domain is in reset for many steps. The card sends octets before and after the DDR
        // clock returns.
        assert!(in_reset > 1000, "seed {seed}: {in_reset} steps in reset");
        assert!(sent > steps / 20, "seed {seed}: {sent} bytes in {steps} steps");
    }
}

#[test]
fn each_block_of_the_card_is_in_a_list_of_the_stepped_card() {
    let mut parts = Parts::default();
    Card::<10>::new(&memory()).accept("card", &mut parts);
    parts.names.sort_unstable();
    let mut listed = SteppedCard::<10>::blocks().to_vec();
    listed.sort_unstable();
    assert_eq!(parts.names, listed);
}
