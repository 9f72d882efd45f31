//! Measures the cost of forged frames and prints a Markdown table: `bench_forged [FRAMES [KIND]]`.
//!
//! The card on the wire has lost frames thousands of times before. The forged frames of each kind
//! arrive first alone, then two for each frame of the card. The measured time is the recorder's
//! check of each frame. The measured memory is the additional memory of the process after all
//! frames.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hmtt::decode::{Counted, Origin, Wire};
use hmtt_format::frame::MAX_FRAME_BYTES;
use hmtt_test_support::forged::{Forger, Forgery};
use hmtt_tests::load::{FRAME_ACCESSES, Load};

/// Gaps before the forged frames: the number of gaps that the receiver stores.
const GAPS: usize = 11_000;
/// Frames that are generated before they are checked.
const ROUND: usize = 10_000;
/// Frames of the card after all forged frames.
const TAIL: usize = 100;

struct Bench {
    wire: Wire,
    packet: u64,
    nanos: u128,
}

impl Bench {
    /// Creates a receiver whose card has lost every other frame.
    fn new(load: &mut Load) -> Self {
        let mut bench = Bench { wire: Wire::default(), packet: 0, nanos: 0 };
        let mut buffer = [0; MAX_FRAME_BYTES];
        for at in 0..2 * GAPS {
            let length = load.next(&mut buffer);
            if at % 2 == 0 {
                bench.check(&[buffer[..length].to_vec()]);
            }
        }
        bench.nanos = 0;
        bench
    }

    fn check(&mut self, frames: &[Vec<u8>]) {
        let begin = Instant::now();
        for frame in frames {
            self.packet += 1;
            let origin = Origin { packet: self.packet, ..Origin::default() };
            self.wire.push(origin, frame, &mut Counted(|_, _| {}));
        }
        self.nanos += begin.elapsed().as_nanos();
    }
}

fn forged(forger: &mut Forger, frames: usize) -> Vec<Vec<u8>> {
    (0..frames).map(|_| forger.frame()).collect()
}

fn good(load: &mut Load, frames: usize) -> Vec<Vec<u8>> {
    let mut buffer = [0; MAX_FRAME_BYTES];
    let mut next = || {
        let length = load.next(&mut buffer);
        buffer[..length].to_vec()
    };
    (0..frames).map(|_| next()).collect()
}

/// Returns the resident memory of the process in kilobytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(number.parse()?)
}

/// Returns nanoseconds for each frame of a card, for the shortest frames and for full ones.
fn of_a_card(frames: usize) -> (f64, f64) {
    let mut load = Load::default();
    let mut full = Bench::new(&mut load);
    let mut short = Bench::new(&mut Load::default());
    let mut card = Forger::new(Forgery::Card, 1);
    for _ in 0..frames.div_ceil(ROUND) {
        full.check(&good(&mut load, ROUND));
        short.check(&forged(&mut card, ROUND));
    }
    let each = |bench: Bench| bench.nanos as f64 / frames.next_multiple_of(ROUND) as f64;
    (each(short), each(full))
}

/// Returns nanoseconds for each forged frame on a card's wire, and the additional memory in
/// kilobytes.
fn alone(forgery: Forgery, frames: usize) -> Result<(f64, u64)> {
    let mut bench = Bench::new(&mut Load::default());
    let mut forger = Forger::new(forgery, 0x9e37_79b9);
    bench.check(&forged(&mut forger, ROUND));
    bench.nanos = 0;
    let before = resident()?;
    for _ in 0..frames.div_ceil(ROUND) {
        bench.check(&forged(&mut forger, ROUND));
    }
    let grown = resident()?.saturating_sub(before);
    Ok((bench.nanos as f64 / frames.next_multiple_of(ROUND) as f64, grown))
}

/// Returns nanoseconds for each frame, with two forged frames for each frame of a card. Checks the
/// card's losses.
fn beside(forgery: Forgery, frames: usize) -> Result<f64> {
    let mut load = Load::default();
    let mut bench = Bench::new(&mut load);
    let mut forger = Forger::new(forgery, 0x9e37_79b9);
    let rounds = frames.div_ceil(3 * ROUND);
    for _ in 0..rounds {
        let mut frames = Vec::new();
        for frame in good(&mut load, ROUND) {
            frames.extend([frame, forger.frame(), forger.frame()]);
        }
        bench.check(&frames);
    }
    let nanos = bench.nanos as f64 / (3 * ROUND * rounds) as f64;
    // The receiver may take the last forged frames for frames of the card after a gap. Further
    // frames of the card decide whether they are.
    bench.check(&good(&mut load, TAIL));
    let counts = bench.wire.finish(&mut Counted(|_, _| {}));
    let card = &counts.cards.first().context("no card")?.counts;
    let sent = (GAPS + rounds * ROUND + TAIL) as u64 * FRAME_ACCESSES;
    ensure!(
        (card.accesses, card.order.missing_frames) == (sent, GAPS as u64),
        "{forgery:?}: the card sent {sent} accesses, read {}, missing {}",
        card.accesses,
        card.order.missing_frames
    );
    Ok(nanos)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let frames = arguments.next().map_or(Ok(300_000), |frames| frames.parse())?;
    let kind = arguments.next();
    let is_wanted =
        |forgery: &Forgery| kind.as_ref().is_none_or(|kind| *kind == format!("{forgery:?}"));
    let (short, full) = of_a_card(frames);
    println!(
        "| frame | ns | of the card's shortest | of its longest | beside the card, ns | memory, KiB |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    println!("| shortest of a card | {short:.0} | | | | |");
    println!("| longest of a card | {full:.0} | | | | |");
    for forgery in Forgery::ALL.into_iter().filter(is_wanted) {
        let (nanos, grown) = alone(forgery, frames)?;
        let beside = beside(forgery, frames)?;
        let (of_short, of_full) = (nanos / short, nanos / full);
        println!(
            "| {forgery:?} | {nanos:.0} | {of_short:.1} | {of_full:.1} | {beside:.0} | {grown} |"
        );
    }
    Ok(())
}
